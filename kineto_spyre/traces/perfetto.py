"""A trace as Perfetto's own protobuf, which its UI opens without converting it, and which is a small part of the JSON.

In goes a Trace, out go the bytes of perfetto.protos.Trace (the messages are those of the package perfetto):

    clock      the file's time line, beside the time of day if the trace has baseTimeNanoseconds
    tracks     a process and its threads as such; a device as a group, whose tracks are named as in the trace. Slices
               that cross others of their track (see `nesting`) are on a further track beside it
    slices     begin and end in whole nanoseconds, with category, name, and the arguments that are columns of a Trace
    flows      an id an arrow, from the slice it leaves to the slice it reaches
    counters   the trace's own, and what PyTorch's allocator had allocated and reserved on each device

One sequence of packets holds them all, in the order of time: names are written once, a time is the distance from the
one before. What no column of a Trace holds (see `columns`) is not written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.traces.columns import OPTIONAL, Column
from kineto_spyre.traces.events import ABSENT
from kineto_spyre.traces.nesting import Nested, nest
from kineto_spyre.traces.trace import Trace

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
except Exception as error:  # not only ImportError: a protobuf that is too old for the messages raises its own
    raise SpyreProfilerError(
        f"Perfetto's format needs the package perfetto ({error}). Install it with pip install 'kineto-spyre[viewers]'."
    ) from error

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
_PACKETS_AT_ONCE = 4096
_NAMES_AT_ONCE = 4096
_SEQUENCE = 1
_BOOT, _REALTIME, _OURS = 6, 1, 64  # Perfetto's ids of clocks; 64 and up are a sequence's own
_INT32 = 1 << 31
# (column, name in the trace, field of DebugAnnotation, none); numbers of `texts` are interned.
_ARGUMENTS = (
    ("correlation", "correlation", "int_value"),
    ("external_id", "External id", "int_value"),
    ("stream", "stream", "int_value"),
    ("stream_text", "stream", "string_value_iid"),
    ("device", "device", "int_value"),
    ("bytes", "bytes", "int_value"),
    ("bandwidth", "memory bandwidth (GB/s)", "double_value"),
    ("dims", "Input Dims", "string_value_iid"),
    ("grid", "grid", "string_value_iid"),
    ("block", "block", "string_value_iid"),
    ("queued", "queued", "int_value"),
    ("submitted", "submitted", "int_value"),
    ("python_id", "Python id", "int_value"),
    ("python_parent", "Python parent id", "int_value"),
    ("collective", "Collective name", "string_value_iid"),
)
_DEVICE_TYPES = {0: "CPU", 1: "CUDA", 12: "XPU", 20: ""}  # c10::DeviceType; "": the process's label says which


@dataclass
class Written:
    """What `write` did: how much is in the file, and what had no place there."""

    slices: int = 0
    arrows: int = 0
    counters: int = 0
    unplaced_slices: int = 0  # of a negative time or duration
    unplaced_flow_ends: int = 0  # no slice, or no other end


def write(trace: Trace, out: BinaryIO, progress: Callable[[float], None] | None = None) -> Written:
    """Writes a trace.

    Args:
        out: takes the bytes; the caller opens and closes it.
        progress: called now and then with the part that is written, 0 to 1.

    Raises:
        OSError: `out` can't be written.
        SpyreProfilerError: the package perfetto is not installed (raised when this module is imported).
    """
    done = Written()
    tracks = _Tracks(trace)
    kept = np.zeros(0, np.bool_)
    if len(trace):
        kept = (trace.slices["start"] >= 0) & (trace.slices["duration"] >= 0)
    nested = nest(trace, kept)
    done.slices, done.unplaced_slices = int(kept.sum()), int(len(kept) - kept.sum())
    leaving, reaching = _arrows(trace, nested, done)
    times, edges, places, values = _in_order(trace, nested, tracks, done)
    packets = _Packets(out)
    _head(packets, trace, tracks, int(times[0]) if len(times) else 0)
    slice_edges = _SliceEdges(trace, leaving, reaching)
    before = int(times[0]) if len(times) else 0
    for index in range(0, len(times), _PACKETS_AT_ONCE):
        part = slice(index, index + _PACKETS_AT_ONCE)
        slice_edges.look_at(edges[part])
        for time, edge, place, value in zip(*(one[part].tolist() for one in (times, edges, places, values))):
            packet = packets.add()
            packet.timestamp = time - before
            before = time
            event = packet.track_event
            event.track_uuid = place
            if edge == _COUNTER:
                event.type = event.TYPE_COUNTER
                event.double_counter_value = value
            elif edge < 0:
                event.type = event.TYPE_SLICE_END
            else:
                slice_edges.fill(event, edge)
        packets.flush()
        if progress is not None:
            progress(min(1.0, part.stop / len(times)))
    packets.flush()
    return done


_COUNTER = np.iinfo(np.int64).min  # in the column of edges: no slice, a counter's value


class _Packets:
    """Packets of the one sequence; `flush` writes them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._trace = protos.Trace()

    def add(self, flags: int = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE) -> Any:
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = flags
        return packet

    def flush(self) -> None:
        self._out.write(self._trace.SerializeToString())
        self._trace = protos.Trace()  # Clear would keep the memory of every packet so far


class _Tracks:
    """Numbers the tracks that are written, and describes them. A process or a group comes before what lies in it."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.descriptors: list[Any] = []
        self._parents: dict[Any, int] = {}
        self._rows: dict[tuple[Any, ...], int] = {}
        self._device_pids = set()
        if len(trace):
            device = np.isin(trace.slices["cat"], [i for i, cat in enumerate(trace.cats) if cat in DEVICE_CATEGORIES])
            self._device_pids = {trace.tracks[track][0] for track in np.unique(trace.slices["track"][device])}

    def _new(self, parent: int | None, name: str) -> Any:
        descriptor = protos.TrackDescriptor(uuid=len(self.descriptors) + 1)
        if parent is not None:
            descriptor.parent_uuid = parent
        if name:
            descriptor.name = _valid(name)
        # Tracks of one name (two streams of that name, or a range beside a stream) stay apart.
        descriptor.sibling_merge_behavior = descriptor.SIBLING_MERGE_BEHAVIOR_NONE
        self.descriptors.append(descriptor)
        return descriptor

    def process_name(self, pid: Any) -> str:
        """The label, which tells devices apart, else the name."""
        trace = self._trace
        named = trace.process_names.get(pid) or ""
        label = trace.process_labels.get(pid) or ""
        return (label or named or str(pid)) if self._is_group(pid) else named or label

    def _is_group(self, pid: Any) -> bool:
        """Whether this is no process of the system: a device, or a text such as Spans."""
        return type(pid) is not int or not 0 < pid < _INT32 or pid in self._device_pids

    def parent(self, pid: Any) -> int:
        """The track of a process, or of a group."""
        if pid not in self._parents:
            if self._is_group(pid):
                descriptor = self._new(None, self.process_name(pid))
                descriptor.child_ordering = descriptor.EXPLICIT
            else:
                descriptor = self._new(None, "")
                descriptor.process.pid = pid
                descriptor.process.process_name = _valid(self.process_name(pid))
                label = self._trace.process_labels.get(pid)
                if label:
                    descriptor.process.process_labels.append(_valid(label))
            self._parents[pid] = descriptor.uuid
        return self._parents[pid]

    def row(self, track: int, layer: int) -> int:
        """The track of a layer of one of the trace's tracks."""
        key = (track, layer)
        if key not in self._rows:
            pid, tid = self._trace.tracks[track]
            parent = self.parent(pid)
            named = self._trace.thread_names.get((pid, tid)) or ""
            if layer == 0 and not self._is_group(pid) and type(tid) is int and 0 < tid < _INT32:
                descriptor = self._new(parent, "")
                descriptor.thread.pid, descriptor.thread.tid = pid, tid
                if named:
                    descriptor.thread.thread_name = _valid(named)
            else:
                beside = f", crossing {layer}" if layer else ""
                descriptor = self._new(parent, f"{named or tid}{beside}")
                if type(tid) is int and abs(tid) < _INT32:
                    descriptor.sibling_order_rank = tid
            self._rows[key] = descriptor.uuid
        return self._rows[key]

    def counter(self, pid: Any, name: str, in_bytes: bool = False) -> int:
        """The track of a counter."""
        key = (pid, name, "counter")
        if key not in self._rows:
            descriptor = self._new(self.parent(pid), name)
            if in_bytes:
                descriptor.counter.unit = descriptor.counter.UNIT_SIZE_BYTES
            else:
                descriptor.counter.SetInParent()
            self._rows[key] = descriptor.uuid
        return self._rows[key]


def _arrows(trace: Trace, nested: Nested, done: Written) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """By slice, the ids of the arrows that leave it, and that reach it.

    An end joins the last start of its id, name and category at or before it (the first one if all come later). Each
    pair has an id of its own, so that a launch with three pieces of work has three arrows, not a chain.
    """
    flows = trace.flows
    leaving: dict[int, list[int]] = defaultdict(list)
    reaching: dict[int, list[int]] = defaultdict(list)
    if not flows:
        return leaving, reaching
    order = np.argsort(flows["start"], kind="stable")
    keys = list(zip(*(flows[name].tolist() for name in ("id", "name", "cat"))))
    times, opens, slices = flows["start"].tolist(), flows["opens"].tolist(), nested.flow_slices.tolist()
    starts: dict[Any, list[int]] = defaultdict(list)
    for row in order.tolist():
        if opens[row] and slices[row] >= 0:
            starts[keys[row]].append(row)
    used = set()
    for row in order.tolist():
        if opens[row]:
            continue
        candidates = starts.get(keys[row])
        if slices[row] < 0 or not candidates:
            done.unplaced_flow_ends += 1
            continue
        start = next((one for one in reversed(candidates) if times[one] <= times[row]), candidates[0])
        used.add(start)
        done.arrows += 1
        leaving[slices[start]].append(done.arrows)
        reaching[slices[row]].append(done.arrows)
    done.unplaced_flow_ends += int(flows["opens"].sum()) - len(used)
    return leaving, reaching


def _in_order(trace: Trace, nested: Nested, tracks: _Tracks, done: Written) -> tuple[Column, Column, Column, Column]:
    """Of everything that is written the times, edges (a slice, ~slice, _COUNTER), tracks and values, in order of time.

    The sort is stable, and each track's edges are in order already: brackets of one time still match. Host tracks come
    first, so that an arrow leaves before it reaches.
    """
    times, edges, places, values = [], [], [], []

    def add(time: Any, edge: Any, place: Any, value: Any = 0.0) -> None:
        count = len(time)
        times.append(np.asarray(time, np.int64))
        edges.append(np.broadcast_to(np.asarray(edge, np.int64), count))
        places.append(np.broadcast_to(np.asarray(place, np.int64), count))
        values.append(np.broadcast_to(np.asarray(value, np.float64), count))

    hosts_first = sorted(nested.layers.items(), key=lambda item: tracks._is_group(trace.tracks[item[0]][0]))
    for track, layers in hosts_first:
        for number, layer in enumerate(layers):
            add(layer.times, layer.edges, tracks.row(track, number))
    for time, place, value in _counters(trace, tracks):
        fit = time >= 0
        done.counters += int(fit.sum())
        add(time[fit], _COUNTER, place, value[fit])
    if not times:
        return (np.zeros(0, np.int64),) * 3 + (np.zeros(0, np.float64),)
    whole = [np.concatenate(one) for one in (times, edges, places, values)]
    order = np.argsort(whole[0], kind="stable")
    return whole[0][order], whole[1][order], whole[2][order], whole[3][order]


def _counters(trace: Trace, tracks: _Tracks) -> Iterator[tuple[Column, int, Column]]:
    """(times, track, values) of each counter."""
    table = trace.counters
    if table:
        for track, name, series in sorted(set(zip(*(table[key].tolist() for key in ("track", "name", "series"))))):
            mine = (table["track"] == track) & (table["name"] == name) & (table["series"] == series)
            called = trace.names[name] if trace.names[name] == trace.texts[series] else (
                f"{trace.names[name]} {trace.texts[series]}"
            )  # fmt: skip
            yield table["start"][mine], tracks.counter(trace.tracks[track][0], called), table["value"][mine]
    memory = trace.memory
    if memory:
        devices = sorted(set(zip(*(memory[key].tolist() for key in ("track", "device_type", "device_id")))))
        for track, kind, device in devices:
            mine = (memory["track"] == track) & (memory["device_type"] == kind) & (memory["device_id"] == device)
            for column in ("allocated", "reserved"):
                known = mine & (memory[column] > ABSENT)
                if memory[column][known].any():  # PyTorch reserves nothing on the CPU: no track that is always 0
                    place = tracks.counter(trace.tracks[track][0], f"{_device(trace, kind, device)} {column}", True)
                    yield memory["start"][known], place, memory[column][known].astype(np.float64)


def _device(trace: Trace, kind: int, index: int) -> str:
    """What a device of PyTorch is called: CPU, CUDA 0, and a card by the label of its process."""
    named = _DEVICE_TYPES.get(kind, f"device type {kind}")
    if kind == 0:
        return named
    return f"{named} {index}" if named else trace.process_labels.get(index) or f"device {index}"


def _head(packets: _Packets, trace: Trace, tracks: _Tracks, first: int) -> None:
    """The packets before the events: clock, what names mean, tracks."""
    packet = packets.add(protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
    packet.clock_snapshot.primary_trace_clock = protos.BUILTIN_CLOCK_BOOTTIME
    packet.clock_snapshot.clocks.add(clock_id=_BOOT, timestamp=first)
    packet.clock_snapshot.clocks.add(clock_id=_OURS, timestamp=first, is_incremental=True)
    base = trace.metadata.get("baseTimeNanoseconds")
    if type(base) is int and base > 0:
        packet.clock_snapshot.clocks.add(clock_id=_REALTIME, timestamp=base + first)
    packet.trace_packet_defaults.timestamp_clock_id = _OURS
    argument_names = list(dict.fromkeys(name for _, name, _ in _ARGUMENTS))
    for table, texts in (
        ("event_names", trace.names),
        ("event_categories", trace.cats),
        ("debug_annotation_names", argument_names),
        ("debug_annotation_string_values", trace.texts),
    ):
        for index in range(0, len(texts), _NAMES_AT_ONCE):
            interned = getattr(packets.add().interned_data, table)
            for iid, text in enumerate(texts[index : index + _NAMES_AT_ONCE], index + 1):
                if table.endswith("values"):
                    interned.add(iid=iid, str=_valid(text).encode())
                else:
                    interned.add(iid=iid, name=_valid(text))
            packets.flush()
    for descriptor in tracks.descriptors:
        packets.add().track_descriptor.CopyFrom(descriptor)
    packets.flush()


def _valid(text: str) -> str:
    """JSON can hold half of a surrogate pair, protobuf can't."""
    return text.encode("utf-8", "replace").decode()


class _SliceEdges:
    """Fills in where a slice begins."""

    def __init__(self, trace: Trace, leaving: dict[int, list[int]], reaching: dict[int, list[int]]) -> None:
        self._trace, self._leaving, self._reaching = trace, leaving, reaching
        iids: dict[str, int] = {}
        self._arguments = [
            (trace.slices[column], iids.setdefault(name, len(iids) + 1), field, OPTIONAL[column][1])
            if column in trace.slices
            else (None, iids.setdefault(name, len(iids) + 1), field, None)
            for column, name, field in _ARGUMENTS
        ]
        self._known: dict[int, tuple[int, int, list[tuple[int, str, Any]]]] = {}

    def look_at(self, edges: Column) -> None:
        """Takes out of the columns what the slices that begin among these edges need."""
        begun = edges[edges >= 0]
        slices = self._trace.slices
        numbers = begun.tolist()
        found: dict[int, list[tuple[int, str, Any]]] = {number: [] for number in numbers}
        for column, iid, field, none in self._arguments:
            if column is None:
                continue
            values = column[begun]
            there = ~np.isnan(values) if field == "double_value" else values > none
            shift = 1 if field == "string_value_iid" else 0
            for number, value in zip(begun[there].tolist(), values[there].tolist()):
                found[number].append((iid, field, value + shift))
        names, cats = slices["name"][begun].tolist(), slices["cat"][begun].tolist()
        self._known = {number: (name, cat, found[number]) for number, name, cat in zip(numbers, names, cats)}

    def fill(self, event: Any, number: int) -> None:
        name, cat, arguments = self._known[number]
        event.type = event.TYPE_SLICE_BEGIN
        event.name_iid = name + 1
        event.category_iids.append(cat + 1)
        for iid, field, value in arguments:
            event.debug_annotations.add(name_iid=iid, **{field: value})
        if number in self._leaving:
            event.flow_ids.extend(self._leaving[number])
        if number in self._reaching:
            event.terminating_flow_ids.extend(self._reaching[number])
