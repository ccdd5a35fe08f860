"""The time of the busiest device, divided without rest: each moment belongs to one kernel, copy or cause of idle time.

What overlaps counts for the first of kernels, collectives, waiting on another rank, copies, fills (as in `steps`), and
among equals for what began first. In: Work. Out: Partition. So whatever two traces differ by, their portions differ by
as much.
"""

from __future__ import annotations

import bisect
import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kineto_spyre.report.idle import CAUSES, HOST, Classifier, covered, idle
from kineto_spyre.report.kernels import grouped
from kineto_spyre.report.work import COLLECTIVE, COPY, FILL, KERNEL, KINDS, Array, Work

WAITING = "waiting on another rank"
_PRIORITY = {KERNEL: 0, COLLECTIVE: 1, COPY: 3, FILL: 4}
_WAITING = 2

Key = tuple[str, str]


@dataclass
class Partition:
    """A device's time, by step.

    parts: by (part, name) its ns in each step; part is a kind of work or a cause of idle time (name: "").
    ops: by op its ns in each step: work that it launched, and idle time while the host was in it (or, in no op,
        in a range of the user's: "range NAME"); "": neither.
    durations: by (kind, name) how long each call lasted, whatever overlapped it.
    calls: by (kind, name) how many began in each step.
    hosts: by op or range the idle time of each step that the host is the cause of.
    collectives: (piece of work, the step it began in, how much of it nothing overlapped), in order of time.
    """

    device: int
    titles: list[str]
    lengths: Array
    parts: dict[Key, Array]
    ops: dict[str, Array]
    durations: dict[Key, Array]
    calls: dict[Key, Array]
    hosts: dict[str, Array] = field(default_factory=dict)
    collectives: list[tuple[int, int, int]] = field(default_factory=list)


def partition(work: Work) -> Partition:
    """The steps of a trace, divided. `work` is not empty."""
    steps = [one for one in work.steps if one[2] > one[1]]
    begins = np.array([begin for _, begin, _ in steps], np.int64)
    window = (steps[0][1], steps[-1][2])
    devices = np.unique(work.device).tolist()
    device = max(devices, key=lambda one: covered(*_times(work, work.device == one), window))
    mine = np.flatnonzero(work.device == device)
    exposed: dict[int, int] = defaultdict(int)
    parts, ops, hosts = (_Sums(begins.tolist()) for _ in range(3))
    name_of = np.where(work.op >= 0, work.trace.slices["name"][work.op], -1).tolist()
    for piece, key, begin, end in _alone(work, mine, window):
        parts.add(key, begin, end)
        ops.add(work.trace.names[name_of[piece]] if name_of[piece] >= 0 else "", begin, end)
        exposed[piece] += end - begin
    for gap in idle(work, mine, window, Classifier(work)):
        label = gap.op or (gap.range and f"range {gap.range}")
        parts.add((CAUSES[gap.cause], ""), gap.begin, gap.end)
        ops.add(label, gap.begin, gap.end)
        if gap.cause == HOST:
            hosts.add(label, gap.begin, gap.end)
    found = Partition(
        device, [title for title, _, _ in steps], np.diff(np.append(begins, window[1])), parts.arrays(), ops.arrays(),
        {}, {}, hosts.arrays(),
    )  # fmt: skip
    _count(found, work, mine, begins, window, exposed)
    return found


def _times(work: Work, chosen: Array) -> tuple[Array, Array]:
    return work.start[chosen], work.end[chosen]


def _alone(work: Work, mine: Array, window: tuple[int, int]) -> list[tuple[int, Key, int, int]]:
    """Disjoint (piece, key, begin, end): where the piece is the first in order of priority."""
    events: list[tuple[int, int, int, int]] = []  # begin, priority, end, piece
    for piece, begin, end, kind in zip(*(one.tolist() for one in (mine, *_times(work, mine), work.kind[mine]))):
        if kind == COLLECTIVE:
            ready = end - int(work.transfer[piece])
            events.append((begin, _WAITING, ready, piece))
            begin = ready
        events.append((begin, _PRIORITY[kind], end, piece))
    found: list[tuple[int, Key, int, int]] = []
    waiting: list[tuple[int, int, int, int]] = []  # priority, begin, end, piece
    at = window[0]

    def until(time: int) -> None:
        nonlocal at
        while waiting and at < time:
            priority, _, end, piece = waiting[0]
            if end <= at:
                heapq.heappop(waiting)
                continue
            stop = min(end, time)
            found.append((piece, _key(work, piece, priority), at, stop))
            at = stop
        at = max(at, time)

    for begin, priority, end, piece in sorted(events):
        until(min(begin, window[1]))
        if end > begin:
            heapq.heappush(waiting, (priority, begin, end, piece))
    until(window[1])
    return found


def _key(work: Work, piece: int, priority: int) -> Key:
    part = WAITING if priority == _WAITING else KINDS[int(work.kind[piece])]
    return part, work.trace.names[int(work.name[piece])]


class _Sums:
    """By key, ns in each step."""

    def __init__(self, begins: list[int]) -> None:
        self._begins = begins
        self._sums: dict[Any, list[int]] = defaultdict(lambda: [0] * len(begins))

    def add(self, key: Any, begin: int, end: int) -> None:
        """Adds a moment, cut where a step ends."""
        column, begins = self._sums[key], self._begins
        step = bisect.bisect_right(begins, begin) - 1
        while begin < end:
            stop = min(end, begins[step + 1]) if step + 1 < len(begins) else end
            column[step] += stop - begin
            begin, step = stop, step + 1

    def arrays(self) -> dict[Any, Array]:
        return {key: np.array(column, np.int64) for key, column in self._sums.items()}


def _count(
    found: Partition, work: Work, mine: Array, begins: Array, window: tuple[int, int], exposed: dict[int, int]
) -> None:
    """Calls that began in the steps, and the collectives among them."""
    mine = mine[(work.start[mine] >= window[0]) & (work.start[mine] < window[1])]
    step = np.searchsorted(begins, work.start[mine], "right") - 1
    together = np.flatnonzero(work.kind[mine] == COLLECTIVE)
    found.collectives = [(piece, of_step, exposed.get(piece, 0))
                         for piece, of_step in zip(mine[together].tolist(), step[together].tolist())]  # fmt: skip
    keys = work.kind[mine] * len(work.trace.names) + work.name[mine]
    lasted = grouped(keys, (work.end - work.start)[mine])
    for number, of_step in grouped(keys, step).items():
        kind, name = divmod(number, len(work.trace.names))
        key = (KINDS[kind], work.trace.names[name])
        found.durations[key] = lasted[number]
        found.calls[key] = np.bincount(of_step, minlength=len(begins))
