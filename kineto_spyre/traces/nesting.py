"""Which slice lies within which on a track, and which slice each end of an arrow belongs to.

Formats that write where a slice begins and where it ends, as Perfetto's, can hold slices on a track only if each lies
wholly within another or beside it. PyTorch's traces have some that cross (where a Python frame ended is guessed). So a
track is laid out in layers: a slice is in the first layer in which it crosses none. Times are whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kineto_spyre.traces.columns import Column
from kineto_spyre.traces.trace import Trace


@dataclass
class Layer:
    """One row of slices that don't cross. The edges are in an order in which begin and end match like brackets.

    Attributes:
        times: of each edge.
        edges: a slice's number where it begins, and ~number where it ends.
    """

    times: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)  # (end, slice), the innermost last

    def fits(self, start: int, end: int) -> bool:
        """Ends what ended by `start`; then whether a slice from start to end crosses nothing that is open."""
        while self.open and self.open[-1][0] <= start:
            self._close()
        return not self.open or end <= self.open[-1][0]

    def begin(self, start: int, end: int, number: int) -> None:
        self.times.append(start)
        self.edges.append(number)
        self.open.append((end, number))

    def finish(self) -> None:
        while self.open:
            self._close()

    def _close(self) -> None:
        end, number = self.open.pop()
        self.times.append(end)
        self.edges.append(~number)


@dataclass
class Nested:
    """The layers of each track that has slices, and for each row of `Trace.flows` its slice's number, -1 for none."""

    layers: dict[int, list[Layer]]
    flow_slices: Column


def nest(trace: Trace, kept: Column) -> Nested:
    """Lays out the slices for which `kept` is true.

    An end of an arrow belongs to the innermost slice that runs at its time; the end of one that is not bound to the
    slice around it (no `bp`) belongs to the next slice that starts, as Chrome's trace format has it.
    """
    slices, flows = trace.slices, trace.flows
    flow_slices = np.full(len(flows.get("start", ())), -1, np.int64)
    if not len(trace):
        return Nested({}, flow_slices)
    start, end = slices["start"], slices["start"] + slices["duration"]
    waiting = _flows_by_track(flows)
    layers: dict[int, list[Layer]] = {}
    for track, numbers in _groups(slices["track"], np.flatnonzero(kept)):
        numbers = numbers[np.lexsort((-end[numbers], start[numbers]))]  # stable: of equal slices the file's first
        track_rows = zip(start[numbers].tolist(), end[numbers].tolist(), numbers.tolist())
        layers[track] = _track(track_rows, waiting.get(track, []), flow_slices)
    return Nested(layers, flow_slices)


def _groups(key: Column, numbers: Column) -> Iterator[tuple[int, Column]]:
    """The numbers by key, keys in the order in which they are first seen."""
    order = numbers[np.argsort(key[numbers], kind="stable")]
    if not len(order):
        return
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    groups = np.split(order, cuts)
    for group in sorted(groups, key=lambda one: int(one[0])):
        yield int(key[group[0]]), group


def _flows_by_track(flows: dict[str, Any]) -> dict[int, list[tuple[int, int, bool]]]:
    """By track, in the order of time: (time, row of flows, whether it is for the next slice)."""
    if not flows:
        return {}
    for_next = ~(flows["opens"].astype(bool) | flows["binds"].astype(bool))
    found = {}
    for track, rows in _groups(flows["track"], np.arange(len(flows["start"]))):
        rows = rows[np.argsort(flows["start"][rows], kind="stable")]
        found[track] = list(zip(flows["start"][rows].tolist(), rows.tolist(), for_next[rows].tolist()))
    return found


def _track(
    rows: Iterator[tuple[int, int, int]], flows: list[tuple[int, int, bool]], flow_slices: Column
) -> list[Layer]:
    """One track's layers; writes the slices of its flows into `flow_slices`."""
    layers = [Layer()]
    flow, next_slice = 0, []  # rows of flows that wait for the next slice
    for start, end, number in rows:
        while flow < len(flows) and flows[flow][0] < start:
            time, row, for_next = flows[flow]
            flow += 1
            if for_next:
                next_slice.append(row)
            else:
                flow_slices[row] = _innermost(layers, time)
        while flow < len(flows) and flows[flow][0] == start and flows[flow][2]:
            next_slice.append(flows[flow][1])
            flow += 1
        for row in next_slice:
            flow_slices[row] = number
        next_slice.clear()
        layer = next((one for one in layers if one.fits(start, end)), None)
        if layer is None:
            layer = Layer()
            layers.append(layer)
        layer.begin(start, end, number)
    for time, row, for_next in flows[flow:]:
        if not for_next:
            flow_slices[row] = _innermost(layers, time)
    for layer in layers:
        layer.finish()
    return layers


def _innermost(layers: list[Layer], time: int) -> int:
    """Of the slices that run at this time the one that lies within all others; -1 if none runs."""
    best, best_place = -1, None
    for layer in layers:
        for depth in range(len(layer.open) - 1, -1, -1):
            end, number = layer.open[depth]
            if end >= time:
                place = (-end, depth)  # what ends first lies within
                if best_place is None or place > best_place:
                    best, best_place = number, place
                break
    return best
