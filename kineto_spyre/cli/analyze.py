"""`kineto-spyre analyze`: the report of a trace, with what IBM's acelyzer says of it, and HTA if asked."""

from __future__ import annotations

import argparse
import json
import os
import sys

SUMMARY = "report on a trace, with what IBM's acelyzer finds in it"
DESCRIPTION = (
    "Runs acelyzer (pip install 'kineto-spyre[analyze]') on a trace with the options that a Spyre's trace needs, and "
    "adds what it found to the report; with --hta, what HolisticTraceAnalysis found, too. A failure of theirs is shown "
    "as theirs; the report is complete without it. Exit "
    "code: 0 acelyzer's verification passed, 1 it did not, one of them failed or is missing, or the trace holds no "
    "device work, 2 the file can't be read as a trace."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace: Chrome JSON, plain or gzip")
    parser.add_argument("--json", action="store_true", help="the facts as JSON, see docs/reference/report.md")
    parser.add_argument("--html", metavar="FILE", help="write the report as one page that needs no other file")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows of each table (default: %(default)s)")
    parser.add_argument("--ideal-cycles", metavar="DIR", help="torch-spyre's folder with ideal_cycles.json files")
    parser.add_argument("--hta", metavar="PYTHON", help="run HTA, too, with the python of the environment that has it")
    parser.add_argument("--keep", metavar="DIR", help="keep what acelyzer writes in this folder")
    parser.add_argument("--acelyzer", metavar="PATH", help="the program (default: this environment's, else the PATH's)")


def run(options: argparse.Namespace) -> int:
    from ..report import NoDeviceWork, Unreadable, hta, make
    from ..report.acelyzer import analyze
    from ..traces.json_text import shown

    def fail(sentence: str, code: int) -> int:
        print(f"kineto-spyre analyze: {sentence}", file=sys.stderr)
        return code

    named = shown(options.trace)[1:-1]
    if options.html and os.path.exists(options.html) and not options.force:
        return fail(f"{options.html} exists; name another file, or pass --force to replace it.", 1)
    if options.ideal_cycles and not os.path.isdir(options.ideal_cycles):
        return fail(f"{options.ideal_cycles} is not a folder; --ideal-cycles takes one.", 2)
    try:
        report = make(options.trace)
    except Unreadable as error:
        return fail(f"{named} {error}", 2)
    except NoDeviceWork as error:
        return fail(f"{named} {error}", 1)
    try:
        found = analyze(options.trace, options.acelyzer, options.ideal_cycles, options.keep)
    except OSError as error:
        return fail(f"{options.keep or named} can't be used ({error.strerror or error}); choose another.", 1)
    report.facts["acelyzer"] = found
    if options.hta:
        report.facts["hta"] = hta.analyze(options.trace, options.hta)
    if options.html:
        try:
            report.html(options.html, force=options.force)
        except OSError as error:
            return fail(f"{options.html} can't be written ({error.strerror}); choose another file.", 1)
    if options.json:
        json.dump(report.facts, sys.stdout, indent=2)
        print()
    elif not options.html:
        from ..report.terminal import show

        show(report.sections(max(1, options.top)))
    for one in (found, report.facts.get("hta", {})):
        if one.get("problem"):
            return fail(one["problem"], 1)
    return 0 if found["result"] == "PASS" else 1
