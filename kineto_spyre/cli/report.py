"""`kineto-spyre report`: why each step of a trace took as long as it did."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report.shown import Shown

SUMMARY = "explain why each step of a trace took as long as it did, or what changed between two traces"
DESCRIPTION = (
    "Reports on a trace (Chrome JSON, plain or gzip): a verdict for each step, busy and idle time by device and "
    "stream, idle time by cause, kernels, ops, launches and copies. With two traces: what changed from the first to "
    "the second, kernel by kernel and op by op, and what of it is noise. Exit code: 0 the report was made; 1 a trace "
    "holds no device work, or the page can't be written; 2 the usage was wrong, or a file can't be read as a trace."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument("other", metavar="TRACE2", nargs="?", help="a second trace: report what changed from the first")
    parser.add_argument(
        "--json", action="store_true", help="print the facts as JSON (docs/reference/report.md lists its keys)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page that needs no other file")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--provenance",
        metavar="FILE",
        help="what the compiler wrote of where kernels come from: spyre_provenance.json, say",
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows of each table (default: %(default)s)")
    parser.add_argument(
        "--link", type=float, metavar="GB/s", help="the link's rate (default: the trace's best copy stands for it)"
    )


def run(options: argparse.Namespace) -> int:
    from ..provenance import ProvenanceError
    from ..report import NoDeviceWork, compare, make
    from ..traces import Unreadable, read
    from ..traces.json_text import shown

    def fail(sentence: str, code: int) -> int:
        print(f"kineto-spyre report: {sentence}", file=sys.stderr)
        return code

    if options.html and os.path.exists(options.html) and not options.force:
        return fail(f"{options.html} exists. Name another file, or pass --force to replace it.", 1)
    traces = []
    for path in filter(None, (options.trace, options.other)):
        try:
            traces.append(read(path))
        except Unreadable as error:
            return fail(f"{shown(path)[1:-1]} {error}", 2)
    try:
        report: Shown
        if len(traces) == 1:
            report = make(traces[0], options.link, options.provenance)
        else:
            report = compare(*traces)
    except ProvenanceError as error:
        return fail(str(error), 2)
    except NoDeviceWork as error:
        return fail(f"{shown(error.source)[1:-1]} {error}", 1)
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
    return 0
