"""`kineto-spyre export`: a trace in the format of another tool."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from .._files import new_file

if TYPE_CHECKING:
    from ..traces import Trace

SUMMARY = "convert a trace to Perfetto's format or Parquet, or give its calls CUDA's names"
DESCRIPTION = (
    "Writes a trace (Chrome JSON, plain or gzip) in another format, beside the trace unless -o names another place. "
    "The trace itself is never changed. Exit code: 0 the file was written; 1 it can't be written, or the trace is "
    "broken and only what comes before that place was written; 2 the usage was wrong, the file exists, or the trace "
    "can't be read."
)
_KINDS = {"perfetto": ".pftrace", "parquet": ".parquet", "cuda_names": ".cuda.json", "xplane": ".xplane.pb"}
_ENDINGS = (".gz", ".json", ".trace", ".pt")  # of x.pt.trace.json.gz, x is left


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file, or a directory that --parquet wrote")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--perfetto", dest="kind", action="store_const", const="perfetto", help="Perfetto's own protobuf (.pftrace)"
    )
    kind.add_argument(
        "--parquet", dest="kind", action="store_const", const="parquet", help="a directory of Parquet files (.parquet)"
    )
    kind.add_argument(
        "--xplane", dest="kind", action="store_const", const="xplane",
        help="XProf's protobuf (.xplane.pb, in plugins/profile beside the trace, where TensorBoard looks for it)",
    )  # fmt: skip
    kind.add_argument(
        "--cuda-names", dest="kind", action="store_const", const="cuda_names",
        help="JSON in which the runtime's calls have CUDA's names (.cuda.json, .cuda.json.gz)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: beside the trace)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(options: argparse.Namespace) -> int:
    from .._notices import SpyreProfilerError
    from ..traces import Unreadable
    from ..traces.json_text import shown

    output = pathlib.Path(options.output) if options.output is not None else _beside(options.trace, options.kind)
    trouble = _unfit(output, options)
    if trouble:
        return _say(trouble, 2)
    export: Callable[[str, pathlib.Path, bool], str | None]
    export = {"perfetto": _perfetto, "parquet": _parquet, "cuda_names": _cuda_names, "xplane": _xplane}[options.kind]
    try:
        problem = export(options.trace, output, options.force)
    except Unreadable as error:
        return _say(f"{shown(options.trace)[1:-1]} {error}", 2)
    except FileExistsError:  # made by another program meanwhile
        return _say(f"{output} exists; pass --force to replace it, or name another file with -o.", 2)
    except OSError as error:
        return _say(f"{output} can't be written ({error.strerror or error}). Choose another place with -o.", 1)
    except SpyreProfilerError as error:
        return _say(str(error), 1)
    print(output)
    if problem is not None:
        end = "" if problem.endswith(("?", ".")) else "."
        return _say(f"{shown(options.trace)[1:-1]} {problem}{end} What comes before that was written.", 1)
    return 0


def _say(sentence: str, code: int) -> int:
    print(f"kineto-spyre export: {sentence}", file=sys.stderr)
    return code


def _beside(trace: str, kind: str) -> pathlib.Path:
    """x.pt.trace.json.gz -> x.pftrace and the like; gzip stays gzip where it is JSON again.

    XProf finds a file only in plugins/profile/RUN/ of TensorBoard's log directory.
    """
    path = pathlib.Path(os.path.abspath(trace))
    packed = path.name.endswith(".gz")
    name = path.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending) or name
    if kind == "xplane":
        return path.parent / "plugins" / "profile" / name / (name + _KINDS[kind])
    return path.with_name(name + _KINDS[kind] + (".gz" if packed and kind == "cuda_names" else ""))


def _unfit(output: pathlib.Path, options: argparse.Namespace) -> str | None:
    """Why this place can't be written, before anything is read."""
    if not output.exists():
        return None
    if os.path.exists(options.trace) and output.samefile(options.trace):
        return f"{output} is the input trace, which is never changed; name another file with -o."
    if options.kind != "parquet" and output.is_dir():
        return f"{output} is a directory; name a file with -o."
    if options.kind == "parquet" and output.is_dir() and not any(output.iterdir()):
        return None
    return None if options.force else f"{output} exists; pass --force to replace it, or name another file with -o."


def _read(trace: str) -> Trace:
    """The trace as columns.

    Raises:
        Unreadable: it is none.
        SpyreProfilerError: it has nothing that could be exported.
    """
    from .._notices import SpyreProfilerError
    from ..traces import read

    try:
        whole = read(trace, _progress("reading"))
    finally:
        _progress_done()
    if not len(whole):
        raise SpyreProfilerError(f"{trace} holds no slice, so there is nothing to export.")
    return whole


def _perfetto(trace: str, output: pathlib.Path, force: bool) -> str | None:
    from ..traces import perfetto

    whole = _read(trace)
    with new_file(output, force) as out:
        written = perfetto.write(whole, out, _progress("writing"))
    _progress_done()
    for count, one, many in (
        (written.unplaced_slices, "slice has", "slices have"),
        (written.unplaced_flow_ends, "end of an arrow has", "ends of arrows have"),
    ):
        if count:
            why = "a negative time or duration" if "slice" in one else "no slice, or no other end"
            print(f"kineto-spyre export: {count:,} {one if count == 1 else many} {why}; left out.", file=sys.stderr)
    return whole.problem


def _xplane(trace: str, output: pathlib.Path, force: bool) -> str | None:
    from ..traces import xplane

    whole = _read(trace)
    output.parent.mkdir(parents=True, exist_ok=True)
    with new_file(output, force) as out:
        left_out = xplane.write(whole, out)
    if left_out:
        what = "1 slice has" if left_out == 1 else f"{left_out:,} slices have"
        print(f"kineto-spyre export: {what} a negative time or duration; left out.", file=sys.stderr)
    return whole.problem


def _parquet(trace: str, output: pathlib.Path, force: bool) -> str | None:
    from ..traces import write_parquet

    whole = _read(trace)
    write_parquet(whole, output, overwrite=force)
    return whole.problem


def _cuda_names(trace: str, output: pathlib.Path, force: bool) -> None:
    import gzip

    from ..traces.cuda_names import renamed

    pieces = renamed(trace)
    with new_file(output, force) as out:
        if output.name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6, mtime=0) as packed:
                packed.writelines(pieces)
        else:
            out.writelines(pieces)


def _progress(what: str) -> Callable[[float], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r\x1b[K{what}: {done:4.0%}", end="", file=sys.stderr, flush=True)


def _progress_done() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
