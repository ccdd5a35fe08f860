"""`kineto-spyre merge`: several ranks in one timeline."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from .._files import new_file

if TYPE_CHECKING:
    from ..traces.merging import Rank

SUMMARY = "write the traces of several ranks as one, with their clocks aligned"
DESCRIPTION = (
    "Writes the traces of several ranks as one, for the Perfetto UI. The clocks are aligned on the collectives that "
    "all ranks wait for; the error that is left is printed. Exit code: 0 it is written; 1 the traces are not ranks of "
    "one run, or the file can't be written; 2 the usage was wrong, the file exists, or a trace can't be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("traces", metavar="RANK", nargs="+", help="the trace of a rank; the first gives the clock")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to write (.json or .json.gz)")
    parser.add_argument("--keep-clocks", action="store_true", help="align nothing: all ranks ran on one machine")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(options: argparse.Namespace) -> int:
    from ..traces import Unreadable
    from ..traces.merging import Unmergeable, ranks

    output = pathlib.Path(options.output)
    if len(options.traces) < 2:
        return _say("one trace is merged already; name the trace of each rank.", 2)
    if output.is_dir():
        return _say(f"{output} is a directory; name a file with -o.", 2)
    if any(os.path.exists(one) and output.exists() and output.samefile(one) for one in options.traces):
        return _say(f"{output} is one of the traces, which are never changed; name another file with -o.", 2)
    if output.exists() and not options.force:
        return _say(f"{output} exists; pass --force to replace it, or name another file with -o.", 2)
    try:
        merged = ranks(options.traces, options.keep_clocks)
        _write(merged, output, options.force)
    except Unmergeable as error:
        return _say(str(error), 1)
    except Unreadable as error:
        return _say(str(error), 2)
    except FileExistsError:  # made by another program meanwhile
        return _say(f"{output} exists; pass --force to replace it, or name another file with -o.", 2)
    except OSError as error:
        return _say(f"{output} can't be written ({error.strerror or error}). Choose another place with -o.", 1)
    if not options.keep_clocks:
        for rank in merged[1:]:
            print(_aligned(merged[0], rank))
    print(output)
    return 0


def _aligned(first: Rank, rank: Rank) -> str:
    fit = rank.fit
    found = "1 collective" if fit.pairs == 1 else f"{fit.pairs:,} collectives"
    return (
        f"rank {rank.number}: its clock was {fit.offset / 1e3:+,.1f} us from rank {first.number}'s and drifted by "
        f"{fit.rate * 1e6:+.1f} ppm, by {found}. "
        f"The error is about {fit.usual_error / 1e3:,.1f} us, and at most {fit.error / 1e3:,.1f} us."
    )


def _write(merged: list[Rank], output: pathlib.Path, force: bool) -> None:
    import gzip

    from ..traces.merging import text

    pieces = text(merged)
    with new_file(output, force) as out:
        if output.name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6, mtime=0) as packed:
                packed.writelines(pieces)
        else:
            out.writelines(pieces)


def _say(sentence: str, code: int) -> int:
    print(f"kineto-spyre merge: {sentence}", file=sys.stderr)
    return code
