"""What needs more than one event: overlaps, duplicates, launches and their device work, the two ends of an arrow.

In: a `Collected` whose trace was read to the end. Out: its findings. Each track is swept once in the order of time,
with a stack of the slices that are open; launches, work and arrows are joined column by column, part by part, so that
few of them are Python objects at a time. Times are in nanoseconds.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from itertools import groupby
from typing import Any

from kineto_spyre.traces.collecting import DRIVER, ESTIMATE, LAUNCHES, SECOND, WORK, Collected
from kineto_spyre.traces.packed import Track

_DAY = 86_400 * SECOND
_NEVER = -(1 << 63)
PART = 100_000  # entries that are joined together


def judge(collected: Collected) -> None:
    """Adds what was found to `collected.findings`."""
    for track in collected.tracks:
        track.close()
    tolerance = _tolerance(collected)
    _join(collected, tolerance)
    _pair_flows(collected)
    times = sorted(collected.first_times)
    middle = times[len(times) // 2] if times else 0
    for track in collected.tracks:
        for start, name, _ in track.open:
            collected.findings.say("unbalanced", collected.example(track.number, start, name))
        _Sweep(collected, track, tolerance, middle).run()


def _tolerance(collected: Collected) -> int:
    """How far two times of the file may be wrong against each other."""
    ends = (abs(start) for track in collected.tracks for run in track.runs for start in run[:2])
    largest = max(ends, default=-1)
    if largest < 0:
        collected.findings.say("empty", None)
    resolution = math.ulp(largest / 1000) * 1000  # of a time in the file, ns
    return 1000 if not collected.fraction else 1 if resolution < 1 else math.ceil(2 * resolution)


class _Sweep:
    """One track, slice by slice."""

    def __init__(self, collected: Collected, track: Track, tolerance: int, middle: int) -> None:
        self._all = collected
        self._say = collected.findings.say
        self._track = track
        self._tolerance = tolerance
        self._middle = middle
        self._arrows = sorted(track.arrows, key=collected.flows.start.__getitem__)
        self._arrow = 0
        self._open: list[tuple[int, int, int]] = []  # end, name, kind: slices around the present time, innermost last
        self._work_end, self._work_name = _NEVER, -1  # the latest end of device work so far

    def run(self) -> None:
        tolerance, middle = self._tolerance, self._middle
        previous: tuple[int, int, int, int, int] | None = None
        for this in self._track.slices():
            start, shortest, name, text, kind = this
            end = start - shortest
            if self._arrow < len(self._arrows):
                self._bind(start)
            if previous is not None and this[:3] == previous[:3]:
                if text == previous[3] or (kind == previous[4] and kind in WORK and name >= 0):
                    self._say("duplicate", self._example(start, name, dur=-shortest / 1000))
                    continue
            previous = this
            if -shortest > _DAY:
                self._say("absurd-duration", self._example(start, name, dur=-shortest / 1000))
            if abs(start - middle) > _DAY:
                self._say("absurd-time", self._example(start, name))
                continue
            is_open = self._open
            while is_open and is_open[-1][0] <= start + tolerance:
                is_open.pop()
            crosses = bool(is_open) and end > is_open[-1][0] + tolerance
            if kind in WORK and self._work(start, end, name):
                crosses = False
            if crosses:
                self._cross(start, name, kind)
            self._open.append((end, name, kind))
        self._bind(None)

    def _example(self, start: int, name: int, **more: Any) -> dict[str, Any]:
        return self._all.example(self._track.number, start, name, **more)

    def _bind(self, until: int | None) -> None:
        """The arrows' ends before that time: each must be on an open slice."""
        flows = self._all.flows
        while self._arrow < len(self._arrows):
            number = self._arrows[self._arrow]
            at = flows.start[number]
            if until is not None and at >= until:
                return
            if not any(end + self._tolerance >= at for end, _, _ in self._open):
                self._say("flow-unbound", self._example(at, flows.name[number], id=flows.other[number]))
            self._arrow += 1

    def _work(self, start: int, end: int, name: int) -> bool:
        """Device work; returns whether it overlaps what came before."""
        window = self._all.window
        if window and (start < window[0] - SECOND or end > window[1] + SECOND):
            self._say("out-of-window", self._example(start, name, dur=(end - start) / 1000))
        overlaps = self._work_end > start + self._tolerance
        if overlaps:
            shared = (min(end, self._work_end) - start) / 1000
            other = self._all.name_of(self._work_name)
            self._say("device-overlap", self._example(start, name, overlaps=other, shared=shared))
        if end > self._work_end:
            self._work_end, self._work_name = end, name
        return overlaps

    def _cross(self, start: int, name: int, kind: int) -> None:
        """A slice that ends after the one in which it starts."""
        over_end, over_name, over_kind = self._open[-1]
        shared = {"overlaps": self._all.name_of(over_name), "shared": (over_end - start) / 1000}
        rule = "estimate-overlap" if ESTIMATE in (kind, over_kind) else "track-overlap"
        self._say(rule, self._example(start, name, **shared))
        self._open = [one for one in self._open if one[0] > start + self._tolerance]


def _join(collected: Collected, tolerance: int) -> None:
    """Launches and device work, by correlation id."""
    calls, device, flows = collected.calls, collected.device, collected.flows
    say = collected.findings.say
    # An arrow's end is found by what it has in common with its device event: id, track and time.
    closing = (i for i, opens in enumerate(flows.flags) if not opens)
    ends = array("q", sorted(hash((flows.other[i], flows.track[i], flows.start[i])) for i in closing))
    parts = 1 + max(len(calls), len(device)) // PART
    for work, hosts in zip(device.parts(parts), calls.parts(parts)):
        launch_of: dict[int, int] = {}  # the earliest call
        callers: Counter[int] = Counter()
        for call in hosts:
            correlation = calls.key[call]
            launch_of.setdefault(correlation, call)
            if not calls.flags[call] & DRIVER:
                callers[correlation] += 1
                if callers[correlation] > 1:
                    say("contract-launch", _call_example(collected, call))
        idle = set(launch_of)
        for i in work:
            call = launch_of.get(device.key[i], -1)
            if call >= 0:
                idle.discard(device.key[i])
                _pair(collected, i, call, ends, tolerance)
            elif device.flags[i]:
                say("orphan" if len(calls) else "no-launches", _work_example(collected, i))
        for correlation in idle:
            if calls.flags[launch_of[correlation]] & LAUNCHES:
                say("launch-without-work", _call_example(collected, launch_of[correlation]))


def _pair(collected: Collected, i: int, call: int, ends: array[int], tolerance: int) -> None:
    """A piece of device work and the call that launched it."""
    calls, device, say = collected.calls, collected.device, collected.findings.say
    start = device.start[i]
    launch = {"launch": collected.name_of(calls.name[call]), "launched": calls.start[call] / 1000}
    if start + tolerance < calls.start[call]:
        say("kernel-before-launch", _work_example(collected, i, **launch))
    if device.other[i] != calls.other[call] and device.other[i] >= 0 and calls.other[call] >= 0:
        both = {"External id": device.other[i], "External id of the launch": calls.other[call]}
        say("link-differs", _work_example(collected, i, **launch, **both))
    if device.flags[i]:
        spot = hash((device.key[i], device.track[i], start))
        at = bisect_left(ends, spot)
        if at == len(ends) or ends[at] != spot:
            say("missing-flow", _work_example(collected, i, **launch))


def _work_example(collected: Collected, i: int, **more: Any) -> dict[str, Any]:
    device = collected.device
    return collected.example(device.track[i], device.start[i], device.name[i], correlation=device.key[i], **more)


def _call_example(collected: Collected, i: int) -> dict[str, Any]:
    calls = collected.calls
    return collected.example(calls.track[i], calls.start[i], calls.name[i], correlation=calls.key[i])


def _pair_flows(collected: Collected) -> None:
    """The two ends of each arrow."""
    flows, say = collected.flows, collected.findings.say

    def example(i: int) -> dict[str, Any]:
        return collected.example(flows.track[i], flows.start[i], flows.name[i], id=flows.other[i])

    for part in flows.parts(1 + len(flows) // PART):
        for _, same in groupby(part, key=flows.key.__getitem__):
            both = list(same)
            starts = [i for i in both if flows.flags[i]]
            if not starts or len(starts) == len(both):
                for i in both:
                    on_device = collected.tracks[flows.track[i]].pid in collected.device_pids
                    for rule in ["flow-end"] if on_device else ["flow-stray", "contract-arrow"]:
                        say(rule, example(i))
            if len(starts) > 1:
                say("flow-reused", example(starts[1]), len(starts) - 1)
