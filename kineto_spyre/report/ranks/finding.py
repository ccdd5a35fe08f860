"""Which files of a directory are traces, and whose.

trace    *.json, *.json.gz, or a directory that `export --parquet` wrote, at any depth; whether it is a trace shows
         when it is read
rank     the trace's own distributedInfo; else "rank7", "rank_7" or "rank-7" in the path (of the last part that has
         it); else the place in the order of the paths
host     of HOST_PID.TIME.pt.trace.json, as torch's tensorboard_trace_handler names them; else the folder below the
         directory; else unknown
"""

from __future__ import annotations

import os
import pathlib
import re

from kineto_spyre.traces import parquet

_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_HANDLER = re.compile(r"^(.+)_\d+\.\d+\.pt\.trace\.json")


def files(directory: str | os.PathLike[str]) -> tuple[list[str], int]:
    """Paths of what may be traces, in order, and how many files have other names."""
    found: list[str] = []
    others = 0
    for folder, below, names in os.walk(directory, followlinks=False):
        for name in list(below):
            if parquet.is_one(os.path.join(folder, name)):
                found.append(os.path.join(folder, name))
                below.remove(name)
        for name in names:
            if name.endswith((".json", ".json.gz")):
                found.append(os.path.join(folder, name))
            else:
                others += 1
    return sorted(found), others


def lone_trace(path: str) -> str:
    """The trace of a directory that holds one alone, as a log directory after one run does; else the path itself."""
    if os.path.isdir(path) and not parquet.is_one(path):
        found, _ = files(path)
        if len(found) == 1:
            return found[0]
    return path


def rank_of(path: str, metadata: dict[str, object]) -> int | None:
    """The rank that a trace or its path names; None if neither does."""
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if type(rank) is int and rank >= 0:
        return rank
    for part in reversed(pathlib.Path(path).parts):
        if match := _RANK.search(part):
            return int(match[1])
    return None


def host_of(path: str, directory: str) -> str:
    """The host that a path names; "" if it names none."""
    if match := _HANDLER.match(os.path.basename(path)):
        return match[1]
    folder = pathlib.Path(os.path.relpath(path, directory)).parent
    return folder.parts[0] if folder.parts else ""
