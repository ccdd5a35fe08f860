"""`kineto-spyre bundle`: what a report of a performance problem needs, in one file, without secrets."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys

SUMMARY = "collect what a report of a performance problem needs, without secrets"
DESCRIPTION = (
    "Collects versions, the findings of doctor, traces with their checks and reports, telemetry and a reproducer into "
    "a ZIP file. Shows what is in it, and what was replaced because it is secret, before it is written; sends nothing. "
    "Exit code: 0 it was written or listed, 1 it was not confirmed or can't be written, 2 a file can't be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="a trace, plain or gzip")
    parser.add_argument("--telemetry", nargs="+", default=[], metavar="FILE", help="what aiu-smi wrote")
    parser.add_argument("--reproducer", nargs="+", default=[], metavar="FILE", help="the program, and what it needs")
    parser.add_argument("--note", default="", metavar="TEXT", help="what you expected, and what you saw")
    parser.add_argument("--out", default="kineto-spyre-bundle.zip", metavar="FILE", help="default: %(default)s")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--yes", action="store_true", help="write it without a question")
    parser.add_argument("--list", action="store_true", help="show what would be in it, and write nothing")
    parser.add_argument("--secrets", action="store_true", help="show the rules by which secrets are replaced")


def run(options: argparse.Namespace) -> int:
    from .. import bundle
    from ..bundle.secrets import rules
    from ..traces.json_text import printable

    def fail(sentence: str, code: int) -> int:
        print(f"kineto-spyre bundle: {sentence}", file=sys.stderr)
        return code

    if options.secrets:
        for rule in rules():
            print(f"{rule.name}: becomes {rule.instead}\n    {rule.pattern}")
        return 0
    try:
        made = bundle.collect(_doctor(), options.traces, options.telemetry, options.reproducer, options.note)
    except OSError as error:
        return fail(f"{error.filename} can't be read ({error.strerror or error}); name another file.", 2)
    print(f"{options.out} holds" if options.yes else f"{options.out} would hold")
    for name, text in made.entries.items():
        print(f"  {printable(name):<44}{len(text.encode()):>12,} bytes")
    if made.replaced:
        print("Replaced, because it is secret or names you (kineto-spyre bundle --secrets shows the rules)")
        for name, count in sorted(made.replaced.items()):
            print(f"  {name}: {'once' if count == 1 else f'{count:,} times'}")
    if options.list:
        return 0
    if not options.yes and not _confirmed():
        return fail("Nothing was written. Pass --yes to write the file.", 1)
    try:
        bundle.write(made, options.out, options.force)
    except FileExistsError:
        return fail(f"{options.out} exists; name another file, or pass --force to replace it.", 1)
    except OSError as error:
        return fail(f"{options.out} can't be written ({error.strerror or error}); choose another file.", 1)
    print(f"{options.out} was written. Nothing was sent: look into it, then attach it to your report.")
    return 0


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("Write it? [y/N] ").strip().lower() in ("y", "yes")


def _doctor() -> str:
    """What doctor prints."""
    from . import doctor

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        doctor.run(argparse.Namespace(json=False, emulated=False, variables=False))
    return said.getvalue()
