"""Where a thread was at a time: op, module, range and Python functions, the innermost of what was open.

In: a Trace, and moments of its tracks. Out: a Place for each. Modules need with_modules or with_stack, Python functions
with_stack; a text that the trace does not tell is empty. Errors: none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.traces.events import ABSENT
from kineto_spyre.traces.trace import Trace

Array = npt.NDArray[Any]

MODULE = "nn.Module: "
_KINDS = {"cpu_op": "op", "user_annotation": "range", "python_function": "python"}
_CALLS = re.compile(r"runtime|driver")
_FRAME = re.compile(r"(?P<file>[^<(][^(]*\.py)\((?P<line>\d+)\): ")
_LIBRARY = re.compile(r"^(torch|kineto_spyre|contextlib|threading|importlib)[/.]|site-packages/|dist-packages/|^<")


@dataclass(frozen=True)
class Place:
    """What was open on a thread; `stack` holds Python functions, the innermost first."""

    op: str = ""
    module: str = ""
    range: str = ""
    stack: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """ "file:line" of the innermost Python function that belongs to no library; the line is where that begins."""
        for frame in self.stack:
            found = _FRAME.match(frame)
            if found and not _LIBRARY.search(frame):
                return f"{found['file']}:{found['line']}"
        return ""


def places(trace: Trace, tracks: Sequence[int], times: Sequence[int]) -> list[Place]:
    """The places of moments, each a number of a track and a time in ns of the trace."""
    wanted: dict[int, list[int]] = defaultdict(list)
    for moment, track in enumerate(tracks):
        wanted[track].append(moment)
    found = [Place()] * len(times)
    kind = [_KINDS.get(cat, "") for cat in trace.cats]
    for track, moments in wanted.items():
        if track >= 0 and trace.slices:
            _on_track(trace, track, sorted(moments, key=times.__getitem__), times, kind, found)
    return found


def _on_track(
    trace: Trace, track: int, moments: list[int], times: Sequence[int], kind: list[str], found: list[Place]
) -> None:
    slices = trace.slices
    mine = np.flatnonzero(slices["track"] == track)
    end = slices["start"][mine] + slices["duration"][mine]
    order = np.lexsort((-end, slices["start"][mine]))
    mine, ends = mine[order], end[order].tolist()
    starts, cats, names = (slices[name][mine].tolist() for name in ("start", "cat", "name"))
    open_now: list[tuple[int, str, str]] = []
    at = 0
    for moment in moments:
        time = times[moment]
        while at < len(starts) and starts[at] <= time:
            if kind[cats[at]] and ends[at] >= time:
                open_now.append((ends[at], kind[cats[at]], trace.names[names[at]]))
            at += 1
        open_now = [one for one in open_now if one[0] >= time]
        found[moment] = _place(open_now)


def _place(open_now: list[tuple[int, str, str]]) -> Place:
    innermost = {what: name for _, what, name in open_now}
    python = [name for _, what, name in open_now if what == "python"]
    modules = [name.removeprefix(MODULE) for name in python if name.startswith(MODULE)]
    return Place(
        innermost.get("op", ""), modules[-1] if modules else "", innermost.get("range", ""), tuple(python[::-1])
    )


def of_launches(trace: Trace, rows: Array) -> list[Place]:
    """The place of the call that launched each of these slices of device work; empty where the trace lacks it."""
    slices, correlation = trace.slices, trace.column("correlation")
    is_call = np.isin(slices["cat"], [i for i, cat in enumerate(trace.cats) if _CALLS.search(cat)])
    calls = np.flatnonzero(is_call & (correlation != ABSENT) & (correlation > 0))
    first: dict[int, int] = {}
    for call, number in zip(calls.tolist(), correlation[calls].tolist()):
        first.setdefault(number, call)
    launch = [first.get(number, -1) for number in correlation[rows].tolist()]
    tracks = [int(slices["track"][call]) if call >= 0 else -1 for call in launch]
    times = [int(slices["start"][call]) if call >= 0 else 0 for call in launch]
    return places(trace, tracks, times)


def kernels(trace: Trace) -> Array:
    """The slices that are kernels, in the order of the file."""
    if not trace.slices:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isin(trace.slices["cat"], [i for i, cat in enumerate(trace.cats) if cat == "kernel"]))
