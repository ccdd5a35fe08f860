"""From blocks of events to columns of numbers: what a trace is to everything that computes.

Each table is a dict of numpy arrays of one length, one entry an event, in the order of the file:

    slices    start, duration (ns), name, cat, track, correlation, external_id, stream, stream_text, device, bytes,
              bandwidth (GB/s), dims, types, grid, block, queued and submitted (ns since the epoch, of XPU in
              the time line of the file), python_id, python_parent, local_memory (the scratchpad that a kernel takes),
              collective, nelems (elements a collective sends), coll_bytes, coll_group and coll_algo (as a Spyre's
              records tell them of work that belongs to a collective),
              moving and executing (cycles of cycles_ts: in and out of the scratchpad, and computing),
              stamps (of TS1..TS5: 0 none, 1 five texts, 2 anything else), pair (made of a B and an E)
    flows     start (ns), track, name, cat, id, opens (it is the arrow's start), binds (bp is "e")
    counters  start (ns), track, name, series, value
    memory    start (ns), track, device_type, device_id, address, bytes, allocated, reserved

A time is in whole nanoseconds of the file's own time line. `name`, `cat`, `track`, `dims` and the like are numbers of
entries in `Columns.names`, `.cats`, `.tracks`, `.texts`; -1 is none. Whole numbers that are not there are ABSENT (see
`events`). A column of `slices` that no event of a part has is left out of that part (OPTIONAL says with what it is
filled): a trace has some fifty arguments, and each kind of event a few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

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
    "stamps": (np.int8, 0),
    "pair": (np.bool_, False),
}
_WHOLE = ("correlation", "external_id", "device", "bytes", "python_id", "python_parent", "local_memory")
_NO_ARGS = Args()
_stamp_lists = msgspec.json.Decoder(list[list[int]]).decode


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
        self.fraction = False  # whether some time is no whole microsecond
        self.unpaired: list[dict[str, Any]] = []  # E without a B; after `finish`, B without an E, too
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
        slices = [event for event in events if type(event) is Slice]
        flows = [event for event in events if type(event) is FlowStart or type(event) is FlowEnd]
        rest: list[Event] = []
        if len(slices) + len(flows) < len(events):
            rest = [event for event in events if type(event) not in (Slice, FlowStart, FlowEnd)]
        pairs = self._pairs(odd)
        table = self._slices(slices + pairs)
        if pairs:
            table["pair"] = np.arange(len(slices) + len(pairs)) >= len(slices)
        self.metas += [event for event in rest if type(event) is Meta]
        return Part(
            table,
            self._flows(flows),
            self._counters([event for event in rest if type(event) is Counter]),
            self._memory([event for event in rest if type(event) is Instant and event.name == "[memory]"]),
            odd,
        )

    def _times(self, values: list[float]) -> Column:
        """Microseconds of the file as whole nanoseconds."""
        times = np.fromiter(values, np.float64, len(values))
        if len(times) and not (-LIMIT < times.min() and times.max() < LIMIT):
            raise OverflowError
        if not self.fraction:
            self.fraction = bool((times != np.floor(times)).any())
        return np.rint(times * 1000).astype(np.int64)

    def _tracks(self, events: Sequence[Any]) -> Column:
        count = len(events)
        try:
            pid = np.fromiter([event.pid for event in events], np.int64, count)
            tid = np.fromiter([event.tid for event in events], np.int64, count)
        except ValueError:  # texts among them
            return self.tracks.column([(event.pid, event.tid) for event in events])
        if count == 0 or max(pid.max(), tid.max()) >= 1 << 31 or min(pid.min(), tid.min()) < 0:
            return self.tracks.column(list(zip(pid.tolist(), tid.tolist())))
        both = pid << 32 | tid
        keys = np.sort(both)
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        numbers = self.tracks.column([(key >> 32, key & 0xFFFFFFFF) for key in keys.tolist()])
        return numbers[np.searchsorted(keys, both)]

    def _slices(self, slices: list[Slice]) -> Table:
        count = len(slices)
        table: Table = {
            "start": self._times([one.ts for one in slices]),
            "duration": self._times([one.dur for one in slices]),
            "name": self.names.column([one.name for one in slices]),
            "cat": self.cats.column([one.cat for one in slices]),
            "track": self._tracks(slices),
        }
        args = [one.args or _NO_ARGS for one in slices]
        whole: tuple[list[int], ...] = (
            [one.correlation for one in args],
            [one.external_id for one in args],
            [one.device for one in args],
            [one.bytes for one in args],
            [one.python_id for one in args],
            [one.python_parent for one in args],
            [one.local_memory for one in args],
        )
        for name, values in zip(_WHOLE, whole):
            if values.count(ABSENT) < count:
                table[name] = np.fromiter(values, np.int64, count)
        streams = [one.stream for one in args]
        if streams.count(ABSENT) < count:
            self._streams(table, streams)
        queues = [one.queue for one in args]
        if "stream" not in table and queues.count(ABSENT) < count:
            table["stream"] = np.fromiter(queues, np.int64, count)
        for name, stamps in (
            ("queued", [one.appended for one in args]),
            ("queued", [one.queued for one in args]),
            ("submitted", [one.submitted for one in args]),
        ):
            if stamps.count(ABSENT) < count and name not in table:
                table[name] = np.fromiter([_stamp(one) for one in stamps], np.int64, count)
        for name, raws in (
            ("dims", [one.dims for one in args]),
            ("types", [one.types for one in args]),
            ("grid", [one.grid for one in args]),
            ("block", [one.block for one in args]),
        ):
            if any(raw is not NOTHING for raw in raws):
                table[name] = self._texts(raws)
        self._rare(table, args)
        return table

    def _rare(self, table: Table, args: list[Args]) -> None:
        count = len(args)
        widths = [one.bandwidth for one in args]
        if widths.count(None) < count:
            numbers = (one if type(one) in (int, float) else np.nan for one in widths)
            table["bandwidth"] = np.fromiter(numbers, np.float64, count)  # a text is the rules' concern
            if any(type(one) is str for one in widths):
                table["bytes"] = table.get("bytes", np.full(count, ABSENT))
                table["bytes"][[type(one) is str for one in widths]] = WRONG
        collectives = [one.collective for one in args]
        if collectives.count(None) < count:
            table["collective"] = np.fromiter(
                (-1 if one is None else self.texts[str(one)] for one in collectives), np.int32, count
            )
        sent = [one.nelems for one in args]
        if sent.count(None) < count:
            numbers = (one if type(one) is int and abs(one) < LIMIT else ABSENT for one in sent)
            table["nelems"] = np.fromiter(numbers, np.int64, count)
        contributed = [one.coll_bytes for one in args]
        if contributed.count(ABSENT) < count:
            table["coll_bytes"] = np.fromiter(contributed, np.int64, count)
            table["coll_group"] = np.fromiter((one.coll_group for one in args), np.int64, count)
            table["coll_algo"] = np.fromiter((one.coll_algo for one in args), np.int64, count)
        cycles = [one.cycles for one in args]
        if any(raw is not NOTHING for raw in cycles):
            table["moving"], table["executing"] = _phases(cycles)
        stamps = [one.ts1 for one in args]
        if stamps.count(None) < count:
            table["stamps"] = np.fromiter(map(_stamps, args), np.int8, count)

    def _streams(self, table: Table, streams: list[Any]) -> None:
        count = len(streams)
        try:
            table["stream"] = np.fromiter(streams, np.int64, count)
        except ValueError:
            table["stream"] = np.fromiter((one if type(one) is int else WRONG for one in streams), np.int64, count)
            texts = (self.texts[one] if type(one) is str else -1 for one in streams)
            table["stream_text"] = np.fromiter(texts, np.int32, count)

    def _texts(self, raws: list[msgspec.Raw]) -> Column:
        number = self.texts.__getitem__
        return np.fromiter([-1 if raw is NOTHING else number(bytes(raw)) for raw in raws], np.int32, len(raws))

    def _flows(self, flows: list[FlowStart | FlowEnd]) -> Table:
        if not flows:
            return {}
        count = len(flows)
        try:
            ids = np.fromiter([one.id for one in flows], np.int64, count)
        except ValueError:  # a text is a number below -1 of its own
            ids = np.fromiter((_flow_id(one.id, self.texts) for one in flows), np.int64, count)
        return {
            "start": self._times([one.ts for one in flows]),
            "track": self._tracks(flows),
            "name": self.names.column([one.name for one in flows]),
            "cat": self.cats.column([one.cat for one in flows]),
            "id": ids,
            "opens": np.fromiter([type(one) is FlowStart for one in flows], np.bool_, count),
            "binds": np.fromiter([one.bp == "e" for one in flows], np.bool_, count),
        }

    def _counters(self, counters: list[Counter]) -> Table:
        if not counters:
            return {}
        flat = [(one, series, value) for one in counters for series, value in one.args.items()]
        return {
            "start": self._times([one.ts for one, _, _ in flat]),
            "track": self._tracks([one for one, _, _ in flat]),
            "name": self.names.column([one.name for one, _, _ in flat]),
            "series": self.texts.column([series for _, series, _ in flat]),
            "value": np.fromiter((value for _, _, value in flat), np.float64, len(flat)),
        }

    def _memory(self, instants: list[Instant]) -> Table:
        if not instants:
            return {}
        args = [one.args for one in instants if one.args is not None]
        kept = [one for one in instants if one.args is not None]
        table = {"start": self._times([one.ts for one in kept]), "track": self._tracks(kept)}
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
            elif not is_open:
                self.unpaired.append(event)
            else:
                first, start = is_open.pop()
                cat = first.get("cat")
                made.append(
                    Slice(first["name"], start, begin.ts - start, begin.pid, begin.tid, cat if type(cat) is str else "")
                )
        return made

    def finish(self) -> None:
        """No block is left."""
        self.unpaired += [event for is_open in self._begun.values() for event, _ in is_open]
        self._begun = {}


def _stamp(value: int | str) -> int:
    """A time among the arguments: whole nanoseconds since the epoch, or, of XPU, microseconds of the file as a text."""
    if type(value) is int:
        return value
    try:
        return round(float(value) * 1000)
    except (ValueError, OverflowError):
        return WRONG


def _phases(raws: list[msgspec.Raw]) -> tuple[Column, Column]:
    """Of five stamps (TS1 -in- TS2 -prepare- TS3 -execute- TS4 -out- TS5): cycles of in and out, and of execute.

    A stamp has 32 bits and wraps. Stamps that are all zero, as a copy's are, and what is no five numbers count as none.
    """
    moving, executing = np.full(len(raws), ABSENT), np.full(len(raws), ABSENT)
    places = [place for place, raw in enumerate(raws) if raw is not NOTHING]
    try:
        five = np.array(_stamp_lists(b"[" + b",".join(bytes(raws[place]) for place in places) + b"]"), np.int64)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return moving, executing
    if five.ndim == 2 and five.shape[1] == 5:
        parts = np.diff(five, axis=1) & 0xFFFFFFFF
        known = five.any(axis=1)
        kept = np.array(places)[known]
        moving[kept] = (parts[:, 0] + parts[:, 3])[known]
        executing[kept] = parts[:, 2][known]
    return moving, executing


def _stamps(args: Args) -> int:
    if args.ts1 is None:
        return 0
    return 1 if all(type(one) is str for one in (args.ts1, args.ts2, args.ts3, args.ts4, args.ts5)) else 2


def _flow_id(value: Any, texts: Interner) -> int:
    return value if type(value) is int else -2 - texts[value]
