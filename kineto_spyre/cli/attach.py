"""`kineto-spyre attach`: what aiu-smi logged, as counters of a trace."""

from __future__ import annotations

import argparse
import gzip
import os
import pathlib
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..telemetry.smi_log import Log

SUMMARY = "put what aiu-smi logged (power, temperature, traffic) into a trace"
DESCRIPTION = (
    "Writes a copy of a trace (Kineto's JSON, plain or gzip) with counters from aiu-smi's text or CSV. aiu-smi prints "
    "local time without a zone: --timezone names it, or it is inferred from the trace and stated. Exit code: 0 it is "
    "written; 1 it can't be written; 2 the usage was wrong, or the trace or the log can't be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument("--smi", metavar="FILE", required=True, help="what aiu-smi printed, as text or CSV")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="where to write; gzip if it ends by .gz")
    parser.add_argument("--timezone", metavar="ZONE", help="of the log: Europe/Berlin, +02:00 or UTC")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")


def run(options: argparse.Namespace) -> int:
    from ..telemetry import smi_columns, smi_log
    from ..traces import Unreadable, read
    from ..traces.json_text import shown

    output = pathlib.Path(options.output)
    if os.path.exists(options.trace) and output.exists() and output.samefile(options.trace):
        return _say(f"{output} is the input trace, which is never changed; name another file with -o.", 2)
    if output.exists() and not options.force:
        return _say(f"{output} exists; pass --force to replace it, or name another file with -o.", 2)
    try:
        log = smi_log.parse(pathlib.Path(options.smi).read_text(encoding="utf-8", errors="replace"))
        trace = read(options.trace)
    except (smi_log.LogError, OSError) as error:
        what = f"can't be read ({error.strerror})" if isinstance(error, OSError) else str(error)
        return _say(f"{options.smi} {what}.", 2)
    except Unreadable as error:
        return _say(f"{shown(options.trace)[1:-1]} {error}", 2)
    if trace.problem or not len(trace):
        why = trace.problem or "holds no slice, so no time is known that the log could belong to"
        return _say(f"{shown(options.trace)[1:-1]} {why.rstrip('.')}.", 2)
    window = int(trace.slices["start"].min()), int((trace.slices["start"] + trace.slices["duration"]).max())
    try:
        offset = _written(options, output, log, window)
    except smi_log.LogError as error:
        return _say(f"{options.smi} {error}.", 2)
    except ValueError as error:
        return _say(f"{error}", 2)
    except OSError as error:
        return _say(f"{output} can't be written ({error.strerror or error}). Choose another place with -o.", 1)
    how = "as named" if options.timezone else "inferred from the trace"
    print(f"{output}: the log's times are {smi_log.shown_offset(offset)} from UTC, {how}.")
    if log.odd:
        some = "1 line was" if log.odd == 1 else f"{log.odd:,} lines were"
        print(f"kineto-spyre attach: {some} left out because they are not in aiu-smi's format.", file=sys.stderr)
    for name, caveat in smi_columns.CAVEATS.items():
        if name in log.columns:
            print(f"kineto-spyre attach: {caveat}", file=sys.stderr)
    return 0


def _say(sentence: str, code: int) -> int:
    print(f"kineto-spyre attach: {sentence}", file=sys.stderr)
    return code


def _written(options: argparse.Namespace, output: pathlib.Path, log: Log, window: tuple[int, int]) -> int:
    """Writes the trace with its counters; the log's offset from UTC.

    Raises:
        LogError: the time zone is not known.
        ValueError: the trace has no list of events.
        OSError: the output can't be written.
    """
    from ..profiler._layers import in_microseconds
    from ..profiler._trace_file import TraceFile
    from ..telemetry import smi_log

    packed = output.name.endswith(".gz")
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".attach") as folder:
        plain = os.path.join(folder, "trace.json")
        with open(options.trace, "rb") as raw, open(plain, "wb") as copy:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.open(raw) if is_packed else raw as source:
                shutil.copyfileobj(source, copy, 1 << 20)
        file = TraceFile(plain)
        begin, end = (file.base_ns + one for one in window)
        if options.timezone:
            offset = smi_log.offset_of(options.timezone, log.span[0])
        else:
            offset = smi_log.infer_offset(log, begin, end)
        about = {
            "file": os.path.basename(options.smi),
            "offset_from_utc": smi_log.shown_offset(offset),
            "inferred": not options.timezone,
            "interval_ns": {str(card): smi_log.interval_ns(lines) for card, lines in log.lines.items()},
            "resolution_ns": smi_log.SECOND_NS // 2,
        }
        file.add({"kineto_spyre_smi": about}, in_microseconds(smi_log.events(log, offset), file.base_ns))
        whole = os.path.join(folder, "whole")
        if packed:
            with open(plain, "rb") as source, gzip.open(whole, "wb", compresslevel=6) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        else:
            whole = plain
        os.replace(whole, output)
    return offset
