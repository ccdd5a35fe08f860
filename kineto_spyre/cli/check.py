"""`kineto-spyre check`: whether a trace is true, and whether the tools that read traces can read it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

SUMMARY = "validate a trace and its compatibility with viewers"
DESCRIPTION = (
    "Looks for overlaps, kernels before their launch, device work without a launch, impossible times, duplicates and "
    "missing links in traces (Chrome JSON, plain or gzip), and reports what the profiler could not record. A Spyre's "
    "trace is also checked for what its viewers need. Exit code: 0 no fault was found; 1 a trace has faults or is "
    "incomplete; 2 the usage was wrong, or a file can't be read as a trace."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace file")
    parser.add_argument("--json", action="store_true", help="the report as JSON; an array of them for several traces")


def run(options: argparse.Namespace) -> int:
    from ..traces import Unreadable, check
    from ..traces.json_text import shown

    watched = sys.stderr.isatty()
    reports: list[dict[str, Any]] = []
    for trace in options.traces:
        try:
            report = check(trace, _progress_bar if watched else None)
        except Unreadable as error:
            report = {"trace": trace, "sound": False, "unreadable": str(error)}
        if watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        reports.append(report)
        if "unreadable" in report:
            print(f"kineto-spyre check: {shown(trace)[1:-1]} {report['unreadable']}", file=sys.stderr)
        elif not options.json:
            _print(_text(report))
    if options.json:
        _print([json.dumps(reports if len(reports) > 1 else reports[0], indent=2, default=str)])
    return max(2 if "unreadable" in report else 0 if report["sound"] else 1 for report in reports)


def _text(report: dict[str, Any]) -> Iterator[str]:
    from ..traces.json_text import printable, shown

    dialect = "a Spyre's trace, checked for its viewers too" if report["spyre"] else "not a Spyre's trace"
    yield f"{shown(report['trace'])[1:-1]}: {report['events']:,} events on {report['tracks']} tracks; {dialect}."
    for finding in report["findings"]:
        how_often = "" if finding["rule"] == "incomplete" else f"{finding['count']:,} "  # a sentence that has its count
        yield f"{finding['severity'].upper():5}  {finding['rule']}: {how_often}{printable(finding['what'])}"
        first = finding["first"]
        if first:
            named = shown(first["name"]) if first.get("name") is not None else "(no name)"
            rest = ", ".join(
                f"{key} {shown(value)}" for key, value in first.items() if key != "name" and value is not None
            )
            yield f"       first: {named}{', ' if rest else ''}{rest}"
        yield f"       means: {finding['means']}"
        yield f"       do:    {printable(finding['do'])}"
    faults = [finding["count"] for finding in report["findings"] if finding["severity"] == "fault"]
    kinds = "1 kind" if len(faults) == 1 else f"{len(faults)} kinds"
    yield f"{kinds} of fault, {sum(faults):,} in all." if faults else "No faults were found."


def _progress_bar(done: float) -> None:
    print(f"\rreading: {done:4.0%}", end="", file=sys.stderr, flush=True)


def _print(lines: Iterable[str]) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        print(line.encode(encoding, "backslashreplace").decode(encoding))
