"""`kineto-spyre report`: why each step of a trace took as long as it did."""

from __future__ import annotations

import argparse
import json
import os
import sys

SUMMARY = "explain why each step of a trace took as long as it did"
DESCRIPTION = (
    "Reports on a trace (Chrome JSON, plain or gzip): a verdict for each step, busy and idle time by device and "
    "stream, idle time by cause, kernels, ops, launches and copies. Exit code: 0 the report was made; 1 the trace "
    "holds no device work, or the page can't be written; 2 the usage was wrong, or the file can't be read as a trace."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument(
        "--json", action="store_true", help="print the facts as JSON (docs/reference/report.md lists its keys)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page that needs no other file")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows of each table (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    from ..report import NoDeviceWork, Unreadable, make
    from ..traces.json_text import shown

    def fail(sentence: str, code: int) -> int:
        print(f"kineto-spyre report: {sentence}", file=sys.stderr)
        return code

    named = shown(options.trace)[1:-1]
    if options.html and os.path.exists(options.html) and not options.force:
        return fail(f"{options.html} exists. Name another file, or pass --force to replace it.", 1)
    try:
        report = make(options.trace)
    except Unreadable as error:
        return fail(f"{named} {error}", 2)
    except NoDeviceWork as error:
        return fail(f"{named} {error}", 1)
    if options.html:
        try:
            report.html(options.html, force=options.force)
        except OSError as error:
            return fail(f"{options.html} can't be written ({error.strerror}); choose another file.", 1)
    if options.json:
        json.dump(report.facts, sys.stdout, indent=2)
        print()
    elif not options.html:
        from ..report.terminal import sections, show

        show(sections(report.facts, max(1, options.top)))
    return 0
