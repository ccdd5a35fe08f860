"""Device work, the host calls that launched it, and what host threads did: a trace as the report looks at it.

In: a `traces.Trace`. Out: `Work`, numpy arrays in order of start; all times are ns of the trace. Tracks are those of
the trace: a stream's kernels are on one track, and on a Spyre copies are on tracks of their own. Errors: none; what a
trace lacks is empty or -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.report import collectives
from kineto_spyre.report.roofline import bounds
from kineto_spyre.traces import Trace
from kineto_spyre.traces.events import ABSENT

Array = npt.NDArray[Any]

KERNEL, COPY, FILL, COLLECTIVE = range(4)
KINDS = ("kernels", "copies", "fills", "collectives")
_DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": FILL}
_RUNTIMES = re.compile(r"runtime|driver")
_NOT_WORK = re.compile(r"Memory \((Allocation|Release)\)")
_SYNC = re.compile(r"Synchroni[sz]e|ScheduleWait|EventWait|WaitEvent|HostSynchronize")
_STEP = re.compile(r"ProfilerStep#(\d+)")


@dataclass
class Timeline:
    """Disjoint intervals of one host thread, in order, each with the deepest slice that covers it."""

    start: Array
    end: Array
    label: Array  # the slice's name, a number of Trace.names

    def within(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """The pieces of [begin, end) that are covered: (begin, end, label)."""
        first = int(np.searchsorted(self.end, begin, "right"))
        pieces = []
        for place in range(first, len(self.start)):
            if self.start[place] >= end:
                break
            pieces.append((max(begin, int(self.start[place])), min(end, int(self.end[place])), int(self.label[place])))
        return pieces


@dataclass
class Work:
    """Each array but the tables has an entry a piece of device work.

    launch_start, launch_end, thread: of the call that launched it; -1 if the trace does not say.
    row, op: its slice, and that of the op that launched it or -1 (indices into Trace.slices).
    bound: of kernels, a number of roofline.BOUNDS. transfer: of collectives, ns without waiting for another rank.
    comms: where a host thread was in a collective; backends: where the library's own threads were, all as one.
    """

    trace: Trace
    start: Array
    end: Array
    name: Array
    kind: Array
    track: Array
    device: Array
    bytes: Array
    correlation: Array
    launch_start: Array
    launch_end: Array
    thread: Array
    op: Array
    row: Array
    bound: Array
    transfer: Array
    comms: dict[int, Timeline]
    backends: Timeline
    ops: dict[int, Timeline]
    ranges: dict[int, Timeline]
    syncs: dict[int, Timeline]
    window: tuple[int, int]
    steps: list[tuple[str, int, int]]

    def __len__(self) -> int:
        return len(self.start)

    def track_title(self, track: int) -> str:
        pid, tid = self.trace.tracks[track]
        return self.trace.thread_names.get((pid, tid)) or f"track {tid}"


def _matching(texts: list[str], pattern: re.Pattern[str]) -> Array:
    return np.array([i for i, text in enumerate(texts) if pattern.search(text)], np.int64)


def flattened(start: Array, end: Array, label: Array) -> Timeline:
    """Nested intervals as disjoint ones, each with the label of the deepest."""
    order = np.lexsort((-end, start))
    starts, ends, labels = start[order].tolist(), end[order].tolist(), label[order].tolist()
    out: list[tuple[int, int, int]] = []
    stack: list[tuple[int, int]] = []  # (end, label)
    at = 0

    def until(time: int) -> None:
        nonlocal at
        while stack and stack[-1][0] <= time:
            stop, name = stack.pop()
            if stop > at:
                out.append((at, stop, name))
                at = stop
        if stack and time > at:
            out.append((at, time, stack[-1][1]))
        at = max(at, time)

    for begin, stop, name in zip(starts, ends, labels):
        until(begin)
        stack.append((stop, name))
    until(max(ends, default=0))
    table = np.array(out, np.int64).reshape(-1, 3)
    return Timeline(table[:, 0], table[:, 1], table[:, 2])


def timelines(trace: Trace, chosen: Array) -> dict[int, Timeline]:
    slices = trace.slices
    rows = np.flatnonzero(chosen)
    tracks = slices["track"][rows]
    found = {}
    for track in np.unique(tracks).tolist():
        mine = rows[tracks == track]
        start = slices["start"][mine]
        found[track] = flattened(start, start + slices["duration"][mine], slices["name"][mine])
    return found


def _joined(keys: Array, wanted: Array) -> Array:
    """For each of `wanted` the first place of it in `keys`, or -1."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[place]
    return np.where(keys[found] == wanted, found, -1)


def _kinds(trace: Trace) -> Array:
    """By slice: its kind of device work, or -1."""
    slices = trace.slices
    by_cat = np.array([_DEVICE.get(cat, -1) for cat in trace.cats] or [-1], np.int64)
    kind: Array = by_cat[slices["cat"]]
    kind[np.isin(slices["name"], _matching(trace.names, _NOT_WORK))] = -1
    kind[(kind == KERNEL) & collectives.on_device(trace)] = COLLECTIVE
    return kind


def _steps(trace: Trace, window: tuple[int, int]) -> list[tuple[str, int, int]]:
    """Title, begin and end of each step. A step ends where the next one begins."""
    slices = trace.slices
    found: dict[int, tuple[str, int]] = {}
    hosts = np.isin(slices["cat"], [i for i, cat in enumerate(trace.cats) if cat == "user_annotation"])
    for number, name in enumerate(trace.names):
        match = _STEP.search(name)
        if match is None:
            continue
        rows = np.flatnonzero(hosts & (slices["name"] == number))
        if len(rows):
            begin = int(slices["start"][rows[0]])
            found[begin] = (f"step {match[1]}", begin + int(slices["duration"][rows[0]]))
    if not found:
        return [("the whole trace", *window)]
    begins = sorted(found)
    ends = [*begins[1:], max(found[begins[-1]][1], window[1])]
    return [(found[begin][0], begin, end) for begin, end in zip(begins, ends)]


def _transfers(trace: Trace, rows: Array, kind: Array, op: Array) -> Array:
    """By piece of work: its transfer time if it is a collective, else 0."""
    found = np.zeros(len(rows), np.int64)
    chosen = np.flatnonzero(kind == COLLECTIVE)
    if len(chosen):
        sent, of_op = trace.column("nelems")[rows[chosen]], op[chosen]
        dims = np.where(of_op >= 0, trace.column("dims")[of_op], -1)
        size = np.where(sent >= 0, sent, -2 - dims)
        found[chosen] = collectives.transfer(trace, rows[chosen], size)
    return found


def understood(trace: Trace) -> Work:
    """The device work of a trace, joined with what launched it."""
    slices = trace.slices
    start, cat = slices["start"], slices["cat"]
    end = start + slices["duration"]
    kind = _kinds(trace)
    rows = np.flatnonzero(kind >= 0)
    rows = rows[np.lexsort((end[rows], start[rows]))]

    runtime = np.isin(cat, _matching(trace.cats, _RUNTIMES))
    sync = runtime & np.isin(slices["name"], _matching(trace.names, _SYNC))
    is_op = np.isin(cat, [i for i, one in enumerate(trace.cats) if one == "cpu_op"])
    is_range = np.isin(cat, [i for i, one in enumerate(trace.cats) if one == "user_annotation"])
    is_range &= ~np.isin(slices["name"], _matching(trace.names, _STEP))

    correlation, external = trace.column("correlation"), trace.column("external_id")
    calls = np.flatnonzero(runtime & (correlation != ABSENT) & (correlation > 0))
    call = _joined(correlation[calls], correlation[rows])
    launched = call >= 0
    call = calls[call] if len(calls) else call
    ops = np.flatnonzero(is_op & (external != ABSENT) & (external > 0))
    op = _joined(external[ops], external[rows])
    op = np.where(op >= 0, ops[op] if len(ops) else -1, -1)

    seen = (kind >= 0) | runtime | is_op | is_range
    seen |= np.isin(slices["name"], _matching(trace.names, _STEP))
    window = (int(start[seen].min()), int(end[seen].max())) if seen.any() else (0, 0)
    pids = np.array([pid if type(pid) is int else -1 for pid, _ in trace.tracks] or [-1], np.int64)
    device = trace.column("device")[rows]
    on_host = (is_op | is_range | runtime) & collectives.on_host(trace)
    backend = on_host & collectives.on_host(trace, collectives.BACKEND)
    is_range &= ~backend
    chosen = np.flatnonzero(backend)
    return Work(
        trace, start[rows], end[rows], slices["name"][rows], kind[rows], slices["track"][rows],
        np.where(device >= 0, device, pids[slices["track"][rows]]), trace.column("bytes")[rows], correlation[rows],
        np.where(launched, start[call] if len(start) else -1, -1),
        np.where(launched, end[call] if len(end) else -1, -1),
        np.where(launched, slices["track"][call] if len(start) else -1, -1), op,
        rows, np.where(kind[rows] == KERNEL, bounds(trace, rows, op), 0), _transfers(trace, rows, kind[rows], op),
        timelines(trace, on_host & ~backend),
        flattened(start[chosen], end[chosen], slices["name"][chosen]),
        timelines(trace, is_op | (runtime & ~sync)), timelines(trace, is_range), timelines(trace, sync),
        window, _steps(trace, window),
    )  # fmt: skip
