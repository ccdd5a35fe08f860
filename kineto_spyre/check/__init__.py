"""``kineto-spyre check TRACE``: is this trace true, and can the tools that read traces read it?

It judges any Chrome trace that a profiler wrote (ours, another tool's, a CUDA run's), plain or gzip, and knows nothing
of PyTorch. Exit code 0: no fault; 1: faults; 2: the file can't be read as a trace.

How a trace of any size fits into little memory
-----------------------------------------------
One pass over the file decodes one event at a time (`Json`) and keeps numbers only:

    rows       (pid, tid) -> slices: start, duration, name, hash of the text, kind. Each 65,536 are a run, which is
               sorted (nearly every row of a real trace is in order already) and packed: some 12 bytes a slice.
    device     one entry a kernel, copy or memset: what joins it to its launch
    launches   one entry a runtime or driver call
    flows      one entry an arrow's end

Then each row is swept once in the order of time, its runs merged on the way, with a stack of the slices that are open.
Everything that needs two events (overlap, duplicate, launch and device work, the two ends of an arrow) is judged there
or by joining columns part by part. Names are kept once each, and no more than `_NAMES` of them: an example can lack its
name, never its place.

Times are held in whole nanoseconds. A trace whose times have no fraction was rounded to microseconds: there, and where
the times are so large that a double no longer resolves a nanosecond, overlaps and order are judged with that tolerance.

Severity: a *fault* makes the trace wrong or a reader fail; a *note* is worth knowing. The contract of Spyre's readers
(acelyzer, HTA, TensorBoard) is judged only for a trace of a Spyre.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kineto_spyre.check.judging import Judge
from kineto_spyre.check.reading import Json, Unreadable, read_trace, shown


def _open(path: str) -> tuple[io.BufferedReader, io.BufferedReader | gzip.GzipFile]:
    """The file itself and what to read from: told from the content, since names can be wrong."""
    if os.path.isdir(path):
        raise Unreadable("is a directory: name the trace file in it (*.pt.trace.json, or .gz)")
    try:
        raw = open(path, "rb")
        start = raw.peek(2)[:2]
    except OSError as error:
        raise Unreadable(f"can't be opened: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise Unreadable(f"can't be opened: {error}") from None
    return raw, gzip.GzipFile(fileobj=raw) if start == b"\x1f\x8b" else raw


def check(path: str, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """The report on one trace, as `--json` prints it. Raises `Unreadable` with a sentence."""
    raw, stream = _open(path)
    with raw:
        size = os.fstat(raw.fileno()).st_size

        def read(count: int) -> bytes:
            try:
                piece = stream.read(count)
            except (gzip.BadGzipFile, zlib.error) as error:
                raise Unreadable(f"is a broken gzip file ({error}). Copy it again from where it was written") from None
            except EOFError:
                raise Unreadable("is a gzip file that is cut off. Copy it again, or let its writer finish") from None
            except OSError as error:
                raise Unreadable(f"can't be read: {error.strerror or error}") from None
            if progress and size:
                progress(raw.tell() / size)
            return piece

        source, judge = Json(read), Judge()
        tail = read_trace(source, judge.take, judge.metadata)
        judge.finish(tail, source.offences)
        return judge.report(path, source.bytes)


def _text(report: dict[str, Any]) -> Iterator[str]:
    dialect = (
        "a Spyre's trace: the contract of its readers was checked too" if report["spyre"] else "not a Spyre's trace"
    )
    yield f"{shown(report['trace'])[1:-1]}: {report['events']:,} events on {report['rows']} rows; {dialect}."
    for finding in report["findings"]:
        yield f"{finding['severity'].upper():5}  {finding['rule']}: {finding['count']:,} {finding['what']}"
        first = finding["first"]
        if first:
            named = shown(first["name"]) if first.get("name") is not None else "(no name)"
            rest = ", ".join(
                f"{key} {shown(value)}" for key, value in first.items() if key != "name" and value is not None
            )
            yield f"       first: {named}{', ' if rest else ''}{rest}"
        yield f"       means: {finding['means']}"
        yield f"       do:    {finding['do']}"
    faults = [finding["count"] for finding in report["findings"] if finding["severity"] == "fault"]
    yield f"{len(faults)} kinds of fault, {sum(faults):,} in all." if faults else "Sound: no fault found."


def _progress_bar(done: float) -> None:
    print(f"\rreading: {done:4.0%}", end="", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """The command. Returns 0 for sound traces, 1 for faults, 2 if one can't be read."""
    parser = argparse.ArgumentParser(
        prog="kineto-spyre check",
        description="Judge a trace (Chrome JSON, plain or gzip): overlaps, kernels before their launch, orphans, "
        "absurd times, duplicates, missing links; for a Spyre's trace also what its readers need.",
        epilog="Exit code: 0 no fault, 1 faults, 2 the file can't be read as a trace.",
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace file")
    parser.add_argument("--json", action="store_true", help="the report as JSON; an array of them for several traces")
    options = parser.parse_args(argv)
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


def _print(lines: Iterable[str]) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        print(line.encode(encoding, "backslashreplace").decode(encoding))
