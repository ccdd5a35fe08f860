"""Why a device, or a stream of it, was idle.

A gap ends with a piece of work W. Before W was launched, the host is the cause: it was in a synchronisation, in a
collective (in one of torch.distributed's ops, or in no op while the library that runs it was at work on a thread of its
own), or in an op or range, or in none of the program's. From its launch to its start W waits for several things at
once; the cause is the one that came last:

    launch latency    W started as soon as a launch reaches an idle stream
    copy, collective, other stream   work on another track ended when W could start
    queue wait        the device's usual gap between two pieces of work that were queued back to back
    unknown           none of these explains the start

Latency and gap of the device are taken from the trace itself: the launch latency is the lower quartile of start minus
launch; the gap that between neighbours on a track of which the second was launched before the first had ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kineto_spyre.report.work import COLLECTIVE, COPY, Array, Timeline, Work

HOST, SYNC, LAUNCH, QUEUE, COPIES, STREAM, COLLECTIVES, UNKNOWN = range(8)
_PLACED = (HOST, SYNC, COLLECTIVES)  # causes that say where the host was
CAUSES = (
    "host", "synchronisation", "launch latency", "queue wait", "copy", "other stream", "collective", "unknown"
)  # fmt: skip
TOLERANCE = 1000  # ns: two times that mean the same moment differ by so much at most


class Piece(NamedTuple):
    """A piece of idle time, and where the host was (names; empty if not known or not of the program)."""

    begin: int
    end: int
    cause: int
    op: str = ""
    range: str = ""
    by: int = -1  # the work that was waited for


class Machine(NamedTuple):
    """What the trace shows of the device, ns."""

    latency: int
    gap: int


def machine(work: Work) -> Machine:
    """Launch latency and gap of a trace's devices; 0 where it does not show them."""
    known = work.launch_start >= 0
    waits = (work.start - work.launch_start)[known]
    waits = waits[waits >= 0]
    latency = int(np.quantile(waits, 0.25, method="lower")) if len(waits) else 0
    gaps: list[Array] = []
    for track in np.unique(work.track).tolist():
        mine = np.flatnonzero(work.track == track)
        between = work.start[mine[1:]] - work.end[mine[:-1]]
        queued = known[mine[1:]] & (work.launch_start[mine[1:]] + latency < work.end[mine[:-1]]) & (between >= 0)
        gaps.append(between[queued])
    together = np.concatenate(gaps) if gaps else np.zeros(0, np.int64)
    gap = int(np.median(together)) if len(together) else 0
    return Machine(min(latency, 10 * int(np.min(waits)) + TOLERANCE) if len(waits) else 0, min(gap, 20_000))


class Classifier:
    """Gives gaps their causes."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.machine = machine(work)
        self._order = np.argsort(work.end, kind="stable")
        self._ends = work.end[self._order]
        self._threads = sorted(work.ops.keys() | work.syncs.keys())
        launching = work.thread[work.thread >= 0]
        self._main = int(np.bincount(launching).argmax()) if len(launching) else (self._threads or [-1])[0]

    def gap(self, begin: int, end: int, following: int | None) -> list[Piece]:
        """The pieces of a gap, without holes. `following`: the work that ends it; None if none does."""
        work = self.work
        if following is None:
            return list(self._host(begin, end, self._main))
        launch = int(work.launch_start[following])
        if launch < 0:
            return [Piece(begin, end, UNKNOWN)]
        pieces: list[Piece] = []
        launched = min(max(begin, launch), end)
        if launched > begin:
            pieces += self._host(begin, launched, int(work.thread[following]))
        if end > launched:
            pieces += self._launched(launched, end, following)
        return pieces

    def _launched(self, begin: int, end: int, following: int) -> list[Piece]:
        """Launched, and still waiting: for the one thing that came last."""
        begun = int(self.work.start[following])
        if begun - int(self.work.launch_start[following]) <= self.machine.latency + TOLERANCE:
            return [Piece(begin, end, LAUNCH)]
        awaited = self._awaited(end, following)
        slack = self.machine.gap + TOLERANCE
        if awaited is not None:
            stop = int(self.work.end[awaited])
            stop = end if end - stop <= TOLERANCE else stop
            kind = self.work.kind[awaited]
            cause = COPIES if kind == COPY else COLLECTIVES if kind == COLLECTIVE else STREAM
            if stop > begin:
                rest = [Piece(stop, end, QUEUE)] if end > stop else []
                return [Piece(begin, stop, cause, by=awaited), *rest]
        if end - begin <= 2 * slack:
            return [Piece(begin, end, QUEUE)]
        return [Piece(begin, end, UNKNOWN)]

    def _awaited(self, end: int, following: int) -> int | None:
        """Work on another track that ended when `following` could start."""
        low = int(np.searchsorted(self._ends, end - self.machine.gap - TOLERANCE))
        high = int(np.searchsorted(self._ends, end + TOLERANCE, "right"))
        found = [int(one) for one in self._order[low:high].tolist()
                 if self.work.track[one] != self.work.track[following] and self.work.start[one] < end]  # fmt: skip
        return max(found, key=lambda one: int(self.work.end[one]), default=None)

    def _host(self, begin: int, end: int, thread: int) -> Iterator[Piece]:
        """Nothing had been launched: what the launching thread did."""
        for start, stop, label in _filled(self.work.syncs.get(thread), begin, end):
            if label >= 0:
                yield self._piece(start, stop, SYNC, label, thread)
                continue
            for one, other, collective in _filled(self.work.comms.get(thread), start, stop):
                if collective >= 0:
                    yield self._piece(one, other, COLLECTIVES, collective, thread)
                else:
                    yield from self._in_ops(one, other, thread)

    def _in_ops(self, begin: int, end: int, thread: int) -> Iterator[Piece]:
        for start, stop, label in _filled(self.work.ops.get(thread), begin, end):
            if label >= 0:
                yield self._piece(start, stop, HOST, label, thread)
                continue
            for one, other, backend in _filled(self.work.backends, start, stop):
                yield self._piece(one, other, COLLECTIVES if backend >= 0 else HOST, backend, thread)

    def _piece(self, begin: int, end: int, cause: int, label: int, thread: int) -> Piece:
        name = self.work.trace.names[label] if label >= 0 else ""
        return Piece(begin, end, cause, name, self._range(begin, end, thread))

    def _range(self, begin: int, end: int, thread: int) -> str:
        """The deepest range that covers most of it."""
        ranges = self.work.ranges.get(thread)
        found = ranges.within(begin, end) if ranges else []
        longest = max(found, key=lambda one: one[1] - one[0], default=None)
        return self.work.trace.names[longest[2]] if longest and 2 * (longest[1] - longest[0]) > end - begin else ""


def _filled(timeline: Timeline | None, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """[begin, end) without holes: (begin, end, label), where label is -1 for what the timeline does not cover."""
    at = begin
    for start, stop, label in timeline.within(begin, end) if timeline else []:
        if start > at:
            yield at, start, -1
        yield start, stop, label
        at = stop
    if end > at:
        yield at, end, -1


def gaps(start: Array, end: Array, window: tuple[int, int]) -> list[tuple[int, int, int | None]]:
    """Of work in order of start: where nothing ran within the window, and which piece ended it (None: none did)."""
    at = window[0]
    found: list[tuple[int, int, int | None]] = []
    for place, (begin, stop) in enumerate(zip(start.tolist(), end.tolist())):
        if begin > at:
            if begin > window[1]:
                break
            found.append((at, begin, place))
        at = max(at, stop)
    if at < window[1]:
        rest = np.flatnonzero(start >= window[1])
        found.append((at, window[1], int(rest[0]) if len(rest) else None))
    return found


def idle(work: Work, chosen: Array, window: tuple[int, int], classifier: Classifier) -> list[Piece]:
    """The idle time of the chosen work's device or stream. `chosen`: indices, in order of start."""
    pieces: list[Piece] = []
    for begin, end, place in gaps(work.start[chosen], work.end[chosen], window):
        following = None if place is None else int(chosen[place])
        found = classifier.gap(begin, max(end, int(work.start[following])) if following is not None else end, following)
        pieces += [one._replace(end=min(one.end, end)) for one in found if one.begin < end]
    return pieces


def covered(start: Array, end: Array, window: tuple[int, int]) -> int:
    """How long at least one of the intervals ran within the window."""
    start, end = np.clip(start, *window), np.clip(end, *window)
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    return int(np.maximum(0, end - np.maximum(start, np.concatenate((start[:1], end[:-1])))).sum())


def causes(pieces: list[Piece]) -> list[dict[str, Any]]:
    """Idle time by cause; for the host's, by where it was."""
    sums: dict[int, int] = defaultdict(int)
    places: dict[int, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for piece in pieces:
        sums[piece.cause] += piece.end - piece.begin
        if piece.cause in _PLACED:
            places[piece.cause][piece.op, piece.range] += piece.end - piece.begin
    return [
        {
            "cause": CAUSES[cause],
            "duration": sums[cause],
            "where": [
                {"op": op, "range": name, "duration": ns}
                for (op, name), ns in sorted(places[cause].items(), key=lambda one: -one[1])[:5]
            ],
        }
        for cause in sorted(sums, key=lambda one: -sums[one])
    ]
