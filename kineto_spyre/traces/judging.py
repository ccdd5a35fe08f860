"""Judging a trace: takes each event once, keeps numbers only, and says what is wrong at the end."""

from __future__ import annotations

import heapq
import json
import math
import re
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, TypeGuard

from kineto_spyre.traces.rules import RULES

_DAY = 86_400 * 10**9
_SECOND = 10**9
_RUN = 1 << 16  # slices that are sorted together
_BLOCK = 1 << 12  # slices that are packed together
_COLUMNS = "qqiib"  # start, duration, name, hash of the text, kind
_NAMES = 100_000
_LIMIT = 1 << 53  # beyond it a double, and so a browser, no longer tells whole numbers apart

# What kind of slice a row holds: only these matter to the rules.
_HOST, _RANGE, _KERNEL, _COPY, _MEMSET, _MEMORY, _ESTIMATE, _CALL = range(8)
_KINDS = {
    "kernel": _KERNEL,
    "gpu_memcpy": _COPY,
    "gpu_memset": _MEMSET,
    "memcpy": _COPY,
    "memset": _MEMSET,
    "gpu_user_annotation": _RANGE,
    "python_function": _ESTIMATE,
    "cuda_sync": _ESTIMATE,
}
_WORK = (_KERNEL, _COPY, _MEMSET)
_CATEGORIES = {
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "privateuse1_runtime",
    "privateuse1_driver",
}  # that readers know on a Spyre's rows
_CALLS = re.compile(r"(^|_)(runtime|driver)$")
_LAUNCHING = re.compile(r"launch|memcpy|memset|datatransfer|filetransfer", re.IGNORECASE)


class _Row:
    """The slices of one (pid, tid). Columns; when they are full, a run: sorted, and packed in blocks."""

    __slots__ = (
        "arrows",
        "counts",
        "duration",
        "kind",
        "name",
        "number",
        "open",
        "ordered",
        "pid",
        "runs",
        "start",
        "text",
        "tid",
    )

    def __init__(self, pid: Any, tid: Any, number: int) -> None:
        self.pid, self.tid, self.number = pid, tid, number
        self.runs: list[tuple[int, int, list[bytes]]] = []  # first and last start, blocks
        self.open: list[tuple[int, int, int]] = []  # B events that wait for their E: start, name, text
        self.counts: dict[str, int] = {}  # X events by category
        self.arrows = array("i")  # numbers of flow ends that must lie on a slice of this row
        self._new()

    def _new(self) -> None:
        columns: list[array[int]] = [array(code) for code in _COLUMNS]
        self.start, self.duration, self.name, self.text, self.kind = columns
        self.ordered = True

    def add(self, start: int, duration: int, name: int, text: int, kind: int) -> None:
        starts = self.start
        if starts and self.ordered:
            last = starts[-1]
            if start < last or (start == last and duration >= self.duration[-1]):
                self.ordered = False
        starts.append(start)
        self.duration.append(duration)
        self.name.append(name)
        self.text.append(text)
        self.kind.append(kind)
        if len(starts) == _RUN:
            self.close()

    def close(self) -> None:
        """Packs what was added since the last run."""
        if not self.start:
            return
        columns: list[array[int]] = [self.start, self.duration, self.name, self.text, self.kind]
        if not self.ordered:
            start, duration, name, text, _ = columns
            order = sorted(range(len(start)), key=lambda i: (start[i], -duration[i], name[i], text[i]))
            columns = [array(column.typecode, map(column.__getitem__, order)) for column in columns]
        blocks = []
        for begin in range(0, len(self.start), _BLOCK):
            plain = b"".join(column[begin : begin + _BLOCK].tobytes() for column in columns)
            blocks.append(zlib.compress(plain, 1))
        self.runs.append((columns[0][0], columns[0][-1], blocks))
        self._new()

    @staticmethod
    def _unpacked(blocks: list[bytes]) -> Iterator[tuple[int, int, int, int, int]]:
        for block in blocks:
            plain = zlib.decompress(block)
            count = len(plain) // sum(array(code).itemsize for code in _COLUMNS)
            columns, at = [], 0
            for code in _COLUMNS:
                column = array(code)
                column.frombytes(plain[at : at + count * column.itemsize])
                at += count * column.itemsize
                columns.append(column)
            for start, duration, name, text, kind in zip(*columns):
                yield start, -duration, name, text, kind

    def slices(self) -> Iterable[tuple[int, int, int, int, int]]:
        """(start, -duration, name, text, kind) in that order."""
        self.close()
        follows = all(before[1] < after[0] for before, after in zip(self.runs, self.runs[1:]))
        runs = [self._unpacked(blocks) for _, _, blocks in self.runs]
        return (one for run in runs for one in run) if follows else heapq.merge(*runs)


class _Joinable:
    """What is joined later: columns of device work, of calls, or of the ends of arrows; joined by `key`."""

    __slots__ = ("flags", "key", "name", "other", "row", "start")

    def __init__(self) -> None:
        self.key, self.other, self.start = array("q"), array("q"), array("q")
        self.row, self.name, self.flags = array("i"), array("i"), array("b")

    def add(self, key: int, other: int, start: int, row: int, name: int, flags: int) -> None:
        self.key.append(key)
        self.other.append(other)
        self.start.append(start)
        self.row.append(row)
        self.name.append(name)
        self.flags.append(flags)

    def __len__(self) -> int:
        return len(self.key)

    def parts(self, count: int) -> Iterator[list[int]]:
        """The entries' numbers in `count` parts, so that only one part at a time is held as Python objects; equal keys
        are in the same part, side by side, in the order of time."""
        for part in range(count):
            numbers = [i for i, key in enumerate(self.key) if key % count == part]
            numbers.sort(key=self.start.__getitem__)
            numbers.sort(key=self.key.__getitem__)
            yield numbers


_PART = 100_000
_DRIVER, _LAUNCHES = 1, 2


def _number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and -_LIMIT < value < _LIMIT  # NaN compares false


def _whole(value: Any, least: int) -> TypeGuard[int]:
    return type(value) is int and least <= value < _LIMIT


class Judge:
    """Takes events, then says what is wrong with them."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self._kinds: dict[str, int] = {}
        self.found: dict[str, dict[str, Any]] = {}
        self._names: dict[str, int] = {}
        self._name_list: list[str] = []
        self._rows: dict[tuple[Any, Any], _Row] = {}
        self._row_list: list[_Row] = []
        self._device = _Joinable()  # correlation, external id, flag: an arrow must lead here
        self._calls = _Joinable()  # correlation, external id, flags: _DRIVER, _LAUNCHES
        self._flows = _Joinable()  # hash of category, name and id; the id; flag: it starts here
        self._process_names: dict[Any, str] = {}
        self._labels: dict[Any, Any] = {}
        self._device_pids: dict[Any, dict[str, Any]] = {}  # pid -> an example of its work
        # pid, stream -> start, end, row, name of each of its ranges, one after another
        self._ranges: dict[tuple[Any, str], array[int]] = {}
        self._stream_rows: dict[tuple[Any, Any], int] = {}
        self._spyre = False
        self._fraction = False
        self._first_times = array("q")
        self._window: list[int] | None = None
        self._highest_fwdbwd = 0
        self._lowest_ac2g: tuple[int, dict[str, Any]] | None = None

    # Findings

    def say(self, rule: str, first: dict[str, Any] | None, count: int = 1) -> None:
        found = self.found.get(rule)
        if found is None:
            self.found[rule] = {"count": count, "first": first}
            return
        found["count"] += count
        before = found["first"]
        if first and before and _number(first.get("ts")) and _number(before.get("ts")) and first["ts"] < before["ts"]:
            found["first"] = first

    def _example(self, row: int, start: int, name: int, **more: Any) -> dict[str, Any]:
        where = self._row_list[row]
        return {"name": self._name_of(name), "ts": start / 1000, "pid": where.pid, "tid": where.tid, **more}

    def _name_of(self, number: int) -> str | None:
        if number < 0:
            return None
        if len(self._name_list) != len(self._names):
            self._name_list = list(self._names)
        return self._name_list[number]

    def _intern(self, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            if len(self._names) >= _NAMES:
                return -1
            number = self._names[name] = len(self._names)
        return number

    def _row(self, pid: Any, tid: Any) -> _Row:
        row = self._rows.get((pid, tid))
        if row is None:
            if type(pid) not in (int, str) or type(tid) not in (int, str):
                raise TypeError
            row = self._rows[pid, tid] = _Row(pid, tid, len(self._row_list))
            self._row_list.append(row)
        return row

    # Taking events

    def take(self, event: Any, text: str) -> None:
        self.events += 1
        if type(event) is not dict:
            self.say("malformed-event", {"name": None, "event": text[:80]})
            return
        phase = event.get("ph")
        if phase == "X" or phase == "B" or phase == "E":
            self._slice(event, phase, text)
        elif phase == "s" or phase == "f":
            self._arrow(event, phase)
        elif phase == "M":
            self._named(event)
        elif phase == "C":
            self._counter(event)
        elif phase == "i" and event.get("name") == "[memory]":
            args = event.get("args")
            if type(args) is dict and args.get("Device Type") == 20:
                self.say("contract-memory", _place(event))
        elif type(phase) is not str or not phase:
            self.say("malformed-event", _place(event))
        if phase not in ("X", "M", "s", "f", "i", "C") and type(phase) is str:
            self.say("contract-phase", _place(event))

    def _time(self, value: Any) -> int:
        """Microseconds of the file as whole nanoseconds."""
        if not self._fraction and type(value) is float and not value.is_integer():
            self._fraction = True
        nanoseconds: int = round(value * 1000)
        return nanoseconds

    def _slice(self, event: dict[str, Any], phase: str, text: str) -> None:
        name: Any = event.get("name")
        ts = event.get("ts")
        try:
            row = self._row(event["pid"], event["tid"])
        except (KeyError, TypeError):  # missing, or neither number nor string
            self.say("malformed-event", _place(event))
            return
        if not _number(ts) or (type(name) is not str and phase != "E"):
            self.say("malformed-event", _place(event))
            return
        start = self._time(ts)
        if phase == "B":
            row.open.append((start, self._intern(name), hash(text) & 0x7FFFFFFF))
            return
        if phase == "E":
            if not row.open:
                self.say("unbalanced", _place(event))
                return
            began, number, hashed = row.open.pop()
            if start < began:
                self.say("negative-duration", self._example(row.number, began, number, dur=(start - began) / 1000))
                return
            row.add(began, start - began, number, hashed, _HOST)
            return
        dur = event.get("dur")
        if not _number(dur):
            self.say("malformed-event", _place(event))
            return
        duration = self._time(dur)
        category = event.get("cat")
        if type(category) is not str:
            category = ""
        row.counts[category] = row.counts.get(category, 0) + 1
        kind = self._kinds.get(category, -1)
        if kind < 0:
            lower = category.lower()
            kind = self._kinds[category] = _KINDS.get(lower) or (_CALL if _CALLS.search(lower) else _HOST)
        if (kind == _MEMSET or kind == _COPY) and name.startswith("Memory ("):
            kind = _MEMORY
        if duration < 0:
            self.say("negative-duration", _place(event))
            duration = 0
        number = self._intern(name)
        if len(self._first_times) < 1001:
            self._first_times.append(start)
        row.add(start, duration, number, hash(text) & 0x7FFFFFFF, kind)

        if kind == _CALL:
            self._call(event, row, start, number, category.lower())
        elif kind != _HOST and kind != _ESTIMATE:
            self._device_event(event, row, start, duration, number, kind)
        elif category == "Trace" and name.startswith("PyTorch Profiler"):
            window = self._window
            end = start + duration
            self._window = [min(window[0], start), max(window[1], end)] if window else [start, end]
        if "Cmpt Exec" in name or "TS1" in text:
            args = event.get("args")
            stamps = [args.get(f"TS{i}") for i in range(1, 6)] if type(args) is dict else [None] * 5
            if stamps[0] is not None and not all(type(stamp) is str for stamp in stamps):
                self.say("contract-ts", _place(event))
            elif "Cmpt Exec" in name and stamps[0] is None:
                self.say("contract-name", _place(event))

    def _call(self, event: dict[str, Any], row: _Row, start: int, name: int, category: str) -> None:
        args = event.get("args")
        if type(args) is not dict:
            args = {}
        correlation = args.get("correlation")
        if not self._spyre and category.startswith("privateuse1") and str(event["name"]).startswith("aiu"):
            self._spyre = True
        if not _whole(correlation, 1):
            if correlation is not None and correlation != 0:
                self.say("contract-correlation", _place(event))
            return
        external = args.get("External id")
        self._calls.add(
            correlation,
            external if _whole(external, 0) else -1,
            start,
            row.number,
            name,
            (_DRIVER if category.endswith("driver") else 0) | (_LAUNCHES if _LAUNCHING.search(event["name"]) else 0),
        )

    def _device_event(self, event: dict[str, Any], row: _Row, start: int, duration: int, name: int, kind: int) -> None:
        args = event.get("args")
        if type(args) is not dict:
            args = {}
        pid = row.pid
        if pid not in self._device_pids:
            self._device_pids[pid] = _place(event)
        if kind == _RANGE:
            # As acelyzer tells them apart: by the stream, and all that have none are one.
            key = (pid, str(args.get("stream", 0)))
            self._ranges.setdefault(key, array("q")).extend((start, start + duration, row.number, name))
            if event["name"].startswith("ProfilerStep#"):
                self.say("contract-steps", _place(event))
            return
        if kind == _KERNEL and duration > _SECOND:
            self.say("long-kernel", _place(event))
        correlation = args.get("correlation")
        if _whole(correlation, 1):
            external = args.get("External id")
            self._device.add(
                correlation,
                external if _whole(external, 0) else -1,
                start,
                row.number,
                name,
                kind != _MEMORY,
            )
        else:
            if kind != _MEMORY:
                self.say("unlinked", _place(event))
            self.say("contract-correlation", _place(event))

        # What only a Spyre's readers need; said only if this turns out to be a Spyre's trace.
        stream = args.get("stream")
        if kind == _MEMORY:
            if stream is not None and event["name"] == "Memory (Release)":
                self.say("contract-stream", _place(event))
        elif not _whole(stream, 1):
            self.say("contract-stream", _place(event))
        elif self._stream_rows.setdefault((pid, stream), row.number) != row.number:
            self.say("contract-row", _place(event))
        if kind == _KERNEL:
            device = args.get("device")
            if not _whole(device, 0) or device > 63:
                self.say("contract-device", _place(event))
        else:
            if (kind == _COPY and event["name"] not in ("Memcpy (HtoD)", "Memcpy (DtoH)", "Memcpy (PtoP)")) or (
                kind == _MEMSET and event["name"] != "Memset (Device)"
            ):
                self.say("contract-name", _place(event))
            bandwidth = args.get("memory bandwidth (GB/s)", 0)
            if not _whole(args.get("bytes", 0), 0) or not _number(bandwidth):
                self.say("contract-bytes", _place(event))

    def _arrow(self, event: dict[str, Any], phase: str) -> None:
        ts, flow, name = event.get("ts"), event.get("id"), event.get("name")
        try:
            row = self._row(event["pid"], event["tid"])
            key = hash((event.get("cat"), name, flow))
        except (KeyError, TypeError):
            self.say("malformed-event", _place(event))
            return
        if not _number(ts) or type(flow) not in (int, str) or type(name) is not str:
            self.say("malformed-event", _place(event))
            return
        if phase == "s" or event.get("bp") == "e":
            row.arrows.append(len(self._flows))
        self._flows.add(
            key, flow if _whole(flow, 0) else -1, self._time(ts), row.number, self._intern(name), phase == "s"
        )
        if type(flow) is int:
            if name == "fwdbwd":
                self._highest_fwdbwd = max(self._highest_fwdbwd, flow)
            elif name == "ac2g" and (self._lowest_ac2g is None or flow < self._lowest_ac2g[0]):
                self._lowest_ac2g = (flow, _place(event))

    def _named(self, event: dict[str, Any]) -> None:
        args, pid = event.get("args"), event.get("pid")
        if type(args) is not dict or type(pid) not in (int, str):
            return
        if event.get("name") == "process_name":
            self._process_names[pid] = str(args.get("name") or "")
        elif event.get("name") == "process_labels":
            self._labels[pid] = args.get("labels")
            if str(args.get("labels")).startswith("AIU"):
                self._spyre = True

    def _counter(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if type(args) is not dict or not args or not all(_number(value) for value in args.values()):
            self.say("counter-value", _place(event))
        if event.get("name") == "Power":
            self.say("contract-counter", _place(event))

    # Judging what was taken

    def finish(self, tail: bool, offences: Counter[str]) -> None:
        if offences:
            self.say("not-strict-json", {"name": ", ".join(sorted(offences))}, sum(offences.values()))
        for row in self._row_list:
            row.close()
        ends = (abs(start) for row in self._row_list for run in row.runs for start in run[:2])
        largest = max(ends, default=-1)
        if largest < 0:
            self.say("empty", None)
        resolution = math.ulp(largest / 1000) * 1000  # of a time in the file, ns
        self._tolerance = 1000 if not self._fraction else 1 if resolution < 1 else math.ceil(2 * resolution)
        self._join()
        self._pair_flows()
        times = sorted(self._first_times)
        middle = times[len(times) // 2] if times else 0
        for row in self._row_list:
            for start, name, _ in row.open:
                self.say("unbalanced", self._example(row.number, start, name))
            self._sweep(row, middle)
        self._contract(tail)

    def _sweep(self, row: _Row, middle: int) -> None:
        tolerance, window = self._tolerance, self._window
        flows = self._flows
        arrows = sorted(row.arrows, key=flows.start.__getitem__)
        arrow = 0
        is_open: list[tuple[int, int, int]] = []  # end, name, kind: slices around the present time, innermost last
        previous: tuple[int, int, int, int, int] | None = None
        work_end, work_name = -(1 << 63), -1  # the latest end of device work so far

        def bind(until: int | None) -> None:
            nonlocal arrow
            while arrow < len(arrows):
                number = arrows[arrow]
                at = flows.start[number]
                if until is not None and at >= until:
                    return
                if not any(end + tolerance >= at for end, _, _ in is_open):
                    self.say("flow-unbound", self._example(row.number, at, flows.name[number], id=flows.other[number]))
                arrow += 1

        for this in row.slices():
            start, shortest, name, text, kind = this
            end = start - shortest
            if arrow < len(arrows):
                bind(start)
            if previous is not None and this[:3] == previous[:3]:
                if text == previous[3] or (kind == previous[4] and kind in _WORK and name >= 0):
                    self.say("duplicate", self._example(row.number, start, name, dur=-shortest / 1000))
                    continue
            previous = this
            if -shortest > _DAY:
                self.say("absurd-duration", self._example(row.number, start, name, dur=-shortest / 1000))
            if abs(start - middle) > _DAY:
                self.say("absurd-time", self._example(row.number, start, name))
                continue
            while is_open and is_open[-1][0] <= start + tolerance:
                is_open.pop()
            crosses = bool(is_open) and end > is_open[-1][0] + tolerance
            if kind in _WORK:
                if window and (start < window[0] - _SECOND or end > window[1] + _SECOND):
                    self.say("outside-window", self._example(row.number, start, name, dur=-shortest / 1000))
                if work_end > start + tolerance:
                    self.say(
                        "device-overlap",
                        self._example(
                            row.number,
                            start,
                            name,
                            overlaps=self._name_of(work_name),
                            shared=(min(end, work_end) - start) / 1000,
                        ),
                    )
                    crosses = False
                if end > work_end:
                    work_end, work_name = end, name
            if crosses:
                over_end, over_name, over_kind = is_open[-1]
                shared = {"overlaps": self._name_of(over_name), "shared": (over_end - start) / 1000}
                self.say(
                    "estimate-overlap" if _ESTIMATE in (kind, over_kind) else "row-overlap",
                    self._example(row.number, start, name, **shared),
                )
                is_open = [one for one in is_open if one[0] > start + tolerance]
            is_open.append((end, name, kind))
        bind(None)

    def _join(self) -> None:
        """Launches and device work, by correlation id."""
        calls, device, flows = self._calls, self._device, self._flows
        # An arrow's end is found by what it has in common with its device event: id, row and time.
        closing = (i for i, opens in enumerate(flows.flags) if not opens)
        ends = array("q", sorted(self._spot(flows.other[i], flows.row[i], flows.start[i]) for i in closing))

        def example(i: int, **more: Any) -> dict[str, Any]:
            return self._example(device.row[i], device.start[i], device.name[i], correlation=device.key[i], **more)

        parts = 1 + max(len(calls), len(device)) // _PART
        for work, hosts in zip(device.parts(parts), calls.parts(parts)):
            launch_of: dict[int, int] = {}  # the earliest call
            callers: Counter[int] = Counter()
            for call in hosts:
                correlation = calls.key[call]
                launch_of.setdefault(correlation, call)
                if not calls.flags[call] & _DRIVER:
                    callers[correlation] += 1
                    if callers[correlation] > 1:
                        self.say("contract-launch", self._call_example(call))
            idle = set(launch_of)
            for i in work:
                correlation, start = device.key[i], device.start[i]
                call = launch_of.get(correlation, -1)
                if call < 0:
                    if device.flags[i]:
                        self.say("orphan" if len(calls) else "no-launches", example(i))
                    continue
                idle.discard(correlation)
                launch = {"launch": self._name_of(calls.name[call]), "launched": calls.start[call] / 1000}
                if start + self._tolerance < calls.start[call]:
                    self.say("kernel-before-launch", example(i, **launch))
                if device.other[i] != calls.other[call] and device.other[i] >= 0 and calls.other[call] >= 0:
                    both = {"External id": device.other[i], "External id of the launch": calls.other[call]}
                    self.say("link-differs", example(i, **launch, **both))
                spot = self._spot(correlation, device.row[i], start)
                at = bisect_left(ends, spot)
                if device.flags[i] and (at == len(ends) or ends[at] != spot):
                    self.say("missing-flow", example(i, **launch))
            for correlation in idle:
                if calls.flags[launch_of[correlation]] & _LAUNCHES:
                    self.say("launch-without-work", self._call_example(launch_of[correlation]))

    @staticmethod
    def _spot(flow: int, row: int, start: int) -> int:
        return hash((flow, row, start))

    def _call_example(self, i: int) -> dict[str, Any]:
        calls = self._calls
        return self._example(calls.row[i], calls.start[i], calls.name[i], correlation=calls.key[i])

    def _pair_flows(self) -> None:
        flows = self._flows
        for part in flows.parts(1 + len(flows) // _PART):
            for _, same in groupby(part, key=flows.key.__getitem__):
                both = list(same)
                starts = [i for i in both if flows.flags[i]]
                if not starts or len(starts) == len(both):
                    for i in both:
                        on_device = self._row_list[flows.row[i]].pid in self._device_pids
                        for rule in ["flow-end"] if on_device else ["flow-stray", "contract-arrow"]:
                            self.say(rule, self._flow_example(i))
                if len(starts) > 1:
                    self.say("flow-reused", self._flow_example(starts[1]), len(starts) - 1)

    def _flow_example(self, i: int) -> dict[str, Any]:
        flows = self._flows
        return self._example(flows.row[i], flows.start[i], flows.name[i], id=flows.other[i])

    def _contract(self, tail: bool) -> None:
        metadata = self.metadata
        ours = metadata.get("kineto_spyre")
        properties = metadata.get("deviceProperties")
        entries = properties if isinstance(properties, list) else []
        if ours is not None or any(isinstance(entry, dict) and entry.get("type") == "AIU" for entry in entries):
            self._spyre = True
        if isinstance(ours, str):
            try:
                ours = json.loads(ours)
            except (ValueError, RecursionError):
                ours = None
        if isinstance(ours, dict):
            missing = sum(_total(ours.get(key)) for key in ("dropped", "invalid"))
            if missing:
                self.say("lost", None, missing)
        if not self._spyre:
            for rule in [rule for rule in self.found if rule.startswith("contract-")]:
                del self.found[rule]
            return
        self.found.pop("flow-stray", None)  # contract-arrow says it
        if len(entries) != 1 or not isinstance(entries[0], dict) or entries[0].get("type") != "AIU":
            self.say("contract-properties", {"name": "deviceProperties", "entries": len(entries)})
        for pid, example in self._device_pids.items():
            if not _whole(pid, 0) or not self._process_names.get(pid) or not self._labels.get(pid):
                self.say("contract-process", example)
        if self._lowest_ac2g is not None and self._lowest_ac2g[0] <= self._highest_fwdbwd:
            self.say("contract-flow", self._lowest_ac2g[1] | {"id": self._lowest_ac2g[0]})
        for row in self._row_list:
            if row.pid in self._device_pids:
                for category in row.counts.keys() - _CATEGORIES:
                    place = {"name": None, "category": category, "pid": row.pid, "tid": row.tid}
                    self.say("contract-category", place, row.counts[category])
        for flat in self._ranges.values():
            until = -(1 << 63)
            for start, end, number, name in sorted(zip(flat[0::4], flat[1::4], flat[2::4], flat[3::4])):
                if start < until:
                    self.say("contract-ranges", self._example(number, start, name))
                until = max(until, end)
        info = metadata.get("distributedInfo")
        if info is not None and not (isinstance(info, dict) and _whole(info.get("rank"), 0)):
            self.say("contract-rank", {"name": "distributedInfo"})
        if tail:
            self.say("contract-tail", None)

    # Telling

    def report(self, trace: str, size: int) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        for row in self._row_list:
            counts.update(row.counts)
        findings = [
            {"rule": rule, "severity": "fault" if RULES[rule].fault else "note", **self.found[rule]}
            | {"what": RULES[rule].what, "means": RULES[rule].means, "do": RULES[rule].do}
            for rule in RULES
            if rule in self.found
        ]
        findings.sort(key=lambda finding: finding["severity"])
        return {
            "trace": trace,
            "sound": not any(finding["severity"] == "fault" for finding in findings),
            "bytes": size,
            "events": self.events,
            "rows": sum(1 for row in self._row_list if row.runs),
            "devices": sorted(map(str, self._device_pids)),
            "spyre": self._spyre,
            "slices": {category or "(none)": count for category, count in sorted(counts.items())},
            "findings": findings,
        }


def _total(value: Any) -> int:
    numbers = value.values() if isinstance(value, dict) else [value]
    return sum(number for number in numbers if _whole(number, 0))


def _place(event: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value if value is None or type(value) in (str, int) or _number(value) else type(value).__name__

    return {key: plain(event.get(key)) for key in ("name", "ts", "pid", "tid")}
