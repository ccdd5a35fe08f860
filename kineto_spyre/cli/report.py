"""`kineto-spyre report`: why each step of a trace took as long as it did."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report.shown import Shown

SUMMARY = "explain why each step of a trace took as long as it did, what changed between two, or which ranks are slow"
DESCRIPTION = (
    "Reports on a trace (Chrome JSON, plain or gzip): a verdict for each step, busy and idle time by device and "
    "stream, idle time by cause, kernels, ops, launches and copies. With two traces: what changed from the first to "
    "the second, kernel by kernel and op by op, and what of it is noise. With a directory of many "
    "ranks' traces: which ranks keep the others waiting, in which steps, and why. Exit code: 0 the report was made; 1 "
    "a trace holds no device work, the ranks don't match, or the page can't be written; 2 the usage was wrong, or a "
    "file can't be read as a trace."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a trace file, a directory that holds one, or a directory with a trace for each rank",
    )
    parser.add_argument("other", metavar="TRACE2", nargs="?", help="a second trace: report what changed from the first")
    parser.add_argument(
        "--json", action="store_true", help="print the facts as JSON (docs/reference/report.md lists its keys)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page that needs no other file")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--provenance",
        metavar="FILE",
        help="where kernels come from, as the compiler wrote it: for example spyre_provenance.json",
    )
    parser.add_argument(
        "--ideal-cycles",
        metavar="DIR",
        help="where the compiler wrote inductor-spyre/KERNEL/perf/ideal_cycles.json: for utilization of the PT array",
    )
    parser.add_argument(
        "--celsius-limit",
        type=float,
        default=90.0,
        metavar="C",
        help="name the steps in which a card was this hot (default: %(default)s, which is assumed)",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="show only what marked ops took (kineto_spyre.instrument) within kernels whose name holds NAME",
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows of each table (default: %(default)s)")
    ranks = parser.add_argument_group("many ranks")
    ranks.add_argument("--rank", type=int, metavar="N", help="show this rank against the rest, too")
    ranks.add_argument(
        "--jobs", type=int, metavar="N", help="read in N processes (default: as many as processors, at most 8)"
    )
    ranks.add_argument(
        "--scheduler", metavar="ADDRESS", help="read on the workers of this Dask cluster (tcp://host:8786)"
    )
    parser.add_argument(
        "--link", type=float, metavar="GB/s", help="the link's rate (default: the trace's best copy stands for it)"
    )


def run(options: argparse.Namespace) -> int:
    from ..report import holds_ranks
    from ..report.ranks.finding import lone_trace
    from ..traces.json_text import shown

    if options.html and os.path.exists(options.html) and not options.force:
        return _fail(f"{options.html} exists; name another file, or pass --force to replace it.", 1)
    options.trace = lone_trace(options.trace)
    options.other = options.other and lone_trace(options.other)
    many = holds_ranks(options.trace)
    if many and options.other:
        return _fail(
            f"{shown(options.trace)[1:-1]} is a directory, which can't be compared with another one. Name two traces.",
            2,
        )
    report = _of_ranks(options) if many else _of_traces(options)
    return report if isinstance(report, int) else _show(report, options)


def _fail(sentence: str, code: int) -> int:
    print(f"kineto-spyre report: {sentence}", file=sys.stderr)
    return code


def _of_traces(options: argparse.Namespace) -> Shown | int:
    from ..provenance import ProvenanceError
    from ..report import IdealError, NoDeviceWork, compare, make
    from ..traces import Unreadable, read
    from ..traces.json_text import shown

    traces = []
    for path in filter(None, (options.trace, options.other)):
        try:
            traces.append(read(path))
        except Unreadable as error:
            return _fail(f"{shown(path)[1:-1]} {error}", 2)
    try:
        if len(traces) == 1:
            return make(traces[0], options.link, options.provenance, options.ideal_cycles, options.celsius_limit)
        return compare(*traces)
    except (ProvenanceError, IdealError) as error:
        return _fail(str(error), 2)
    except NoDeviceWork as error:
        return _fail(f"{shown(error.source)[1:-1]} {error}", 1)


def _of_ranks(options: argparse.Namespace) -> Shown | int:
    from .._notices import SpyreProfilerError
    from ..report import NotComparable, many
    from ..report.ranks.comparing import NoTraces
    from ..traces.json_text import shown

    jobs = options.jobs or min(os.cpu_count() or 1, 8)
    progress = _progress if sys.stderr.isatty() else None
    try:
        report = many(options.trace, options.scheduler, max(1, jobs), progress)
        if options.rank is not None and not options.json:
            print(report.rank(options.rank))
        return report
    except NotComparable as error:
        return _fail(f"{shown(options.trace)[1:-1]} {error}", 2 if isinstance(error, NoTraces) else 1)
    except SpyreProfilerError as error:
        return _fail(str(error), 1)
    except KeyError:
        return _fail(f"{shown(options.trace)[1:-1]} holds no rank {options.rank}. Name another one.", 2)


def _progress(done: float) -> None:
    print(f"\r\x1b[Kreading: {done:4.0%}" if done < 1 else "\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(report: Shown, options: argparse.Namespace) -> int:
    if options.html:
        try:
            report.html(options.html, force=options.force)
        except OSError as error:
            return _fail(f"{options.html} can't be written ({error.strerror}); choose another file.", 1)
    if options.json:
        json.dump(report.facts, sys.stdout, indent=2)
        print()
    elif not options.html:
        from ..report import Report
        from ..report.terminal import show

        if options.kernel is None:
            show(report.sections(max(1, options.top)))
        elif isinstance(report, Report):
            show(report.within(options.kernel))
        else:
            return _fail("--kernel is for one trace; name one.", 2)
    return 0
