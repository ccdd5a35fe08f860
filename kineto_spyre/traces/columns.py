"""From blocks of events to columns of numbers: what a trace is to everything that computes.

Each table is a dict of numpy arrays of one length, one entry an event, in the order of the file:

    slices    start, duration (ns), name, cat, track, correlation, external_id, stream, stream_text, device, bytes,
              bandwidth (GB/s), dims, types, grid, block, queued and submitted (ns since the epoch, of XPU in
              the time line of the file), python_id, python_parent, local_memory (the scratchpad that a kernel takes),
              collective, nelems (elements a collective sends), coll_bytes, coll_group and coll_algo (as a Spyre's
              records tell them of work that belongs to a collective),
              moving and executing (cycles of cycles_ts: in and out of the scratchpad, and computing),
    flows     start (ns), track, name, cat, id, opens (it is the arrow's start), binds (bp is "e")
    counters  start (ns), track, name, series, value
    memory    start (ns), track, device_type, device_id, address, bytes, allocated, reserved

A time is in whole nanoseconds of the file's own time line. `name`, `cat`, `track`, `dims` and the like are numbers of
entries in `Columns.names`, `.cats`, `.tracks`, `.texts`; -1 is none. Whole numbers that are not there are ABSENT (see
`events`). A column of `slices` that no event of a part has is left out of that part (OPTIONAL says with what it is
filled): a trace has some fifty arguments, and each kind of event a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from kineto_spyre.traces.blocks import Block, Odd, understood
from kineto_spyre.traces.events import (
    ABSENT,
    LIMIT,
    NOTHING,
    WRONG,
    Args,
    Counter,
    Event,
    FlowEnd,
    FlowStart,
    Instant,
    Meta,
    Slice,
)

Column = npt.NDArray[Any]
Table = dict[str, Column]

# Optional columns of slices, with what stands for "none".
OPTIONAL: dict[str, tuple[Any, Any]] = {
    "correlation": (np.int64, ABSENT),
    "external_id": (np.int64, ABSENT),
    "stream": (np.int64, ABSENT),
    "stream_text": (np.int32, -1),
    "device": (np.int64, ABSENT),
    "bytes": (np.int64, ABSENT),
    "bandwidth": (np.float64, np.nan),
    "dims": (np.int32, -1),
    "types": (np.int32, -1),
    "grid": (np.int32, -1),
    "block": (np.int32, -1),
    "queued": (np.int64, ABSENT),
    "submitted": (np.int64, ABSENT),
    "python_id": (np.int64, ABSENT),
    "python_parent": (np.int64, ABSENT),
    "local_memory": (np.int64, ABSENT),
    "collective": (np.int32, -1),
    "nelems": (np.int64, ABSENT),
    "coll_bytes": (np.int64, ABSENT),
    "coll_group": (np.int64, ABSENT),
    "coll_algo": (np.int64, ABSENT),
    "moving": (np.int64, ABSENT),
    "executing": (np.int64, ABSENT),
}
_FIELDS = [(field.name, field.default) for field in msgspec.structs.fields(Args)]
_STAMPS = {"queued": ("appended", "queued"), "submitted": ("submitted",)}
_NOT_AS_THEY_ARE = {"stream", "queue", "queued", "appended", "submitted"}
_WHOLE = {name for name, default in _FIELDS if default == ABSENT} - _NOT_AS_THEY_ARE
_TEXTS = {name for name, default in _FIELDS if default is NOTHING} - {"cycles"}
_NO_ARGS = Args()
_stamp_lists = msgspec.json.Decoder(list[tuple[int, int, int, int, int]]).decode


class Interner(dict[Any, int]):
    """Numbers things in the order in which they are first seen."""

    def __init__(self, most: int | None = None) -> None:
        """`most`: as many are kept; those that come later are -1."""
        super().__init__()
        self._most = most

    def __missing__(self, key: Any) -> int:
        if self._most is not None and len(self) >= self._most:
            return -1
        number = self[key] = len(self)
        return number

    def column(self, values: Sequence[Any]) -> Column:
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


class Part(NamedTuple):
    """The columns of one block, and the events that are not, or not only, in them."""

    slices: Table
    flows: Table
    counters: Table
    memory: Table
    odd: list[Odd]


class Columns:
    """Turns blocks into parts, and holds what the numbers in them mean."""

    def __init__(self, names: Interner | None = None) -> None:
        self.names = Interner() if names is None else names
        self.cats = Interner()
        self.texts = Interner()
        self.tracks = Interner()  # (pid, tid)
        self.metas: list[Meta] = []
        self._begun: dict[tuple[Any, Any], list[tuple[dict[str, Any], float]]] = {}

    def part(self, block: Block) -> Part:
        """The columns of a block's events."""
        events, odd = block
        try:
            return self._part(events, odd)
        except OverflowError:  # a number that is none of a trace: tell event by event
            checked: list[Event] = []
            odd = list(odd)
            for event in events:
                value = msgspec.to_builtins(event, builtin_types=())
                kept, whole = understood(value)
                if kept is not None:
                    checked.append(kept)
                if not whole:
                    odd.append(Odd(value, ""))
            return self._part(checked, odd)

    def _part(self, events: list[Event], odd: list[Odd]) -> Part:
        slices: list[Slice] = []
        flows: list[FlowStart | FlowEnd] = []
        rest: list[Event] = []
        put: dict[type[Event], Callable[[Any], None]]
        put = {Slice: slices.append, FlowStart: flows.append, FlowEnd: flows.append}
        other = rest.append
        for event in events:
            put.get(type(event), other)(event)
        self.metas += [event for event in rest if type(event) is Meta]
        return Part(
            self._slices(slices + self._pairs(odd)),
            self._flows(flows),
            self._counters([event for event in rest if type(event) is Counter]),
            self._memory([event for event in rest if type(event) is Instant and event.name == "[memory]"]),
            odd,
        )

    def _times(self, values: Sequence[float]) -> Column:
        """Microseconds of the file as whole nanoseconds."""
        times = np.fromiter(values, np.float64, len(values))
        if len(times) and not (-LIMIT < times.min() and times.max() < LIMIT):
            raise OverflowError
        return np.rint(times * 1000).astype(np.int64)

    def _tracks(self, pids: Sequence[Any], tids: Sequence[Any]) -> Column:
        count = len(pids)
        try:
            pid, tid = np.fromiter(pids, np.int64, count), np.fromiter(tids, np.int64, count)
        except ValueError:  # texts among them
            return self.tracks.column(list(zip(pids, tids)))
        if count == 0 or max(pid.max(), tid.max()) >= 1 << 31 or min(pid.min(), tid.min()) < 0:
            return self.tracks.column(list(zip(pid.tolist(), tid.tolist())))
        both = pid << 32 | tid
        keys = np.sort(both)
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        numbers = self.tracks.column([(key >> 32, key & 0xFFFFFFFF) for key in keys.tolist()])
        return numbers[np.searchsorted(keys, both)]

    def _slices(self, slices: list[Slice]) -> Table:
        count = len(slices)
        name, ts, dur, pid, tid, cat, args = zip(*map(astuple, slices)) if slices else [()] * 7
        table: Table = {
            "start": self._times(ts),
            "duration": self._times(dur),
            "name": self.names.column(name),
            "cat": self.cats.column(cat),
            "track": self._tracks(pid, tid),
        }
        columns = zip(_FIELDS, zip(*map(astuple, [one or _NO_ARGS for one in args])))
        given = {field: values for (field, default), values in columns if values.count(default) < count}
        for field in _WHOLE & given.keys():
            table[field] = np.fromiter(given[field], np.int64, count)
        for field, spellings in _STAMPS.items():
            if stamps := [given[one] for one in spellings if one in given]:
                table[field] = np.fromiter(map(_stamp, stamps[0]), np.int64, count)
        for field in _TEXTS & given.keys():
            table[field] = self._texts(given[field])
        if "stream" in given:
            self._streams(table, given["stream"])
        elif "queue" in given:
            table["stream"] = np.fromiter(given["queue"], np.int64, count)
        self._rare(table, given, count)
        return table

    def _rare(self, table: Table, given: dict[str, tuple[Any, ...]], count: int) -> None:
        """The arguments that few traces have, or that are not kept as they are."""
        if "bandwidth" in given:
            widths = given["bandwidth"]
            numbers = (one if type(one) in (int, float) else np.nan for one in widths)
            table["bandwidth"] = np.fromiter(numbers, np.float64, count)  # a text is the rules' concern
            texts = [type(one) is str for one in widths]
            if any(texts):
                table.setdefault("bytes", np.full(count, ABSENT))[texts] = WRONG
        if "collective" in given:
            numbered = (-1 if one is None else self.texts[str(one)] for one in given["collective"])
            table["collective"] = np.fromiter(numbered, np.int32, count)
        if "nelems" in given:
            numbers = (one if type(one) is int and abs(one) < LIMIT else ABSENT for one in given["nelems"])
            table["nelems"] = np.fromiter(numbers, np.int64, count)
        if "cycles" in given:
            table["moving"], table["executing"] = _phases(given["cycles"])

    def _streams(self, table: Table, streams: Sequence[Any]) -> None:
        count = len(streams)
        try:
            table["stream"] = np.fromiter(streams, np.int64, count)
        except ValueError:
            table["stream"] = np.fromiter((one if type(one) is int else WRONG for one in streams), np.int64, count)
            texts = (self.texts[one] if type(one) is str else -1 for one in streams)
            table["stream_text"] = np.fromiter(texts, np.int32, count)

    def _texts(self, raws: Sequence[msgspec.Raw]) -> Column:
        column = np.full(len(raws), -1, np.int32)
        present, places = _present(raws)
        column[places] = self.texts.column(list(map(bytes, present)))
        return column

    def _flows(self, flows: list[FlowStart | FlowEnd]) -> Table:
        if not flows:
            return {}
        count = len(flows)
        name, ts, pid, tid, flow_id, cat, bp = zip(*map(astuple, flows))
        try:
            ids = np.fromiter(flow_id, np.int64, count)
        except ValueError:  # a text is a number below -1 of its own
            ids = np.fromiter((_flow_id(one, self.texts) for one in flow_id), np.int64, count)
        return {
            "start": self._times(ts),
            "track": self._tracks(pid, tid),
            "name": self.names.column(name),
            "cat": self.cats.column(cat),
            "id": ids,
            "opens": np.fromiter([type(one) is FlowStart for one in flows], np.bool_, count),
            "binds": np.fromiter([one == "e" for one in bp], np.bool_, count),
        }

    def _counters(self, counters: list[Counter]) -> Table:
        if not counters:
            return {}
        flat = [(one, series, value) for one in counters for series, value in one.args.items()]
        return {
            "start": self._times([one.ts for one, _, _ in flat]),
            "track": self._tracks([one.pid for one, _, _ in flat], [one.tid for one, _, _ in flat]),
            "name": self.names.column([one.name for one, _, _ in flat]),
            "series": self.texts.column([series for _, series, _ in flat]),
            "value": np.fromiter((value for _, _, value in flat), np.float64, len(flat)),
        }

    def _memory(self, instants: list[Instant]) -> Table:
        if not instants:
            return {}
        args = [one.args for one in instants if one.args is not None]
        kept = [one for one in instants if one.args is not None]
        table = {
            "start": self._times([one.ts for one in kept]),
            "track": self._tracks([one.pid for one in kept], [one.tid for one in kept]),
        }
        for name in ("device_type", "device_id", "address", "bytes", "allocated", "reserved"):
            values = [getattr(one, name) for one in args]
            table[name] = np.array(values, np.uint64).view(np.int64) if name == "address" and min(
                values, default=0
            ) >= 0 else np.array(values, np.int64)  # fmt: skip
        return table

    def _pairs(self, odd: Iterable[Odd]) -> list[Slice]:
        """Slices made of B events and their E."""
        made = []
        for event, _ in odd:
            if type(event) is not dict or event.get("ph") not in ("B", "E"):
                continue
            try:
                place = {key: event[key] for key in ("ts", "pid", "tid") if key in event}
                begin = msgspec.convert({"name": "", "dur": 0} | place, Slice)
            except msgspec.ValidationError:
                continue
            if not -LIMIT < begin.ts < LIMIT:
                continue
            is_open = self._begun.setdefault((begin.pid, begin.tid), [])
            if event["ph"] == "B":
                if type(event.get("name")) is str:
                    is_open.append((event, begin.ts))
            elif is_open:
                first, start = is_open.pop()
                cat = first.get("cat")
                made.append(
                    Slice(first["name"], start, begin.ts - start, begin.pid, begin.tid, cat if type(cat) is str else "")
                )
        return made


def _stamp(value: int | str) -> int:
    """A time among the arguments: whole nanoseconds since the epoch, or, of XPU, microseconds of the file as a text."""
    if type(value) is int:
        return value
    try:
        return round(float(value) * 1000)
    except (ValueError, OverflowError):
        return WRONG


def _present(raws: Sequence[msgspec.Raw]) -> tuple[list[msgspec.Raw], Column]:
    """Those that hold a text, and which they are."""
    places = [raw is not NOTHING for raw in raws]
    return list(compress(raws, places)), np.fromiter(places, np.bool_, len(raws)).nonzero()[0]


def _phases(raws: Sequence[msgspec.Raw]) -> tuple[Column, Column]:
    """Of five stamps (TS1 -in- TS2 -prepare- TS3 -execute- TS4 -out- TS5): cycles of in and out, and of execute.

    A stamp has 32 bits and wraps. Stamps that are all zero, as a copy's are, and what is no five numbers count as none.
    """
    moving, executing = np.full(len(raws), ABSENT), np.full(len(raws), ABSENT)
    present, places = _present(raws)
    try:
        lists = _stamp_lists(b"[" + b",".join(present) + b"]")
        five = np.fromiter(chain.from_iterable(lists), np.int64, 5 * len(places)).reshape(-1, 5)
    except (msgspec.DecodeError, OverflowError):
        if len(raws) == 1:
            return moving, executing
        each = [_phases([raw]) for raw in raws]  # some are none
        return np.concatenate([one for one, _ in each]), np.concatenate([one for _, one in each])
    parts = np.diff(five, axis=1) & 0xFFFFFFFF
    known = five.any(axis=1)
    kept = places[known]
    moving[kept] = (parts[:, 0] + parts[:, 3])[known]
    executing[kept] = parts[:, 2][known]
    return moving, executing


def _flow_id(value: Any, texts: Interner) -> int:
    return value if type(value) is int else -2 - texts[value]
