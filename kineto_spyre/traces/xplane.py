"""A trace as XProf's protobuf (XSpace), which XProf's Trace Viewer shows inside TensorBoard without internet.

Out go the bytes of tensorflow.profiler.XSpace, whose messages are few: their fields have the numbers of the published
xplane.proto, since no small package has the messages. XProf itself reads the files in the tests.

    planes     /host:CPU for the processes of the host, /device:CUSTOM:NAME for each device (NAME is its label)
    lines      a thread or a track each; slices that cross others of their line are on a further line beside it
    events     begin and duration in ps from the line's start; the name is written once a plane
    stats      correlation, External id, stream, bytes and Input Dims, as far as an event has them; its category

Times are whole ns in a Trace, so nothing is rounded. Arrows and counters have no place in the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from kineto_spyre.traces.columns import OPTIONAL
from kineto_spyre.traces.nesting import nest
from kineto_spyre.traces.trace import Trace

_PS = 1000  # in a ns
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
# (column, name of the stat)
_NUMBERS = (("correlation", "correlation"), ("external_id", "External id"), ("stream", "stream"), ("bytes", "bytes"))


def write(trace: Trace, out: BinaryIO) -> int:
    """Writes a trace; returns how many slices were left out because their time or duration is negative.

    Raises:
        OSError: `out` can't be written.
    """
    kept = np.zeros(0, np.bool_)
    if len(trace):
        kept = (trace.slices["start"] >= 0) & (trace.slices["duration"] >= 0)
    planes: dict[str, _Plane] = {}
    names = _plane_names(trace)
    base = trace.metadata.get("baseTimeNanoseconds")
    first = int(trace.slices["start"][kept].min()) if kept.any() else 0
    begin = first + (base if type(base) is int else 0)
    fields = _Fields(trace, first)
    for track, layers in nest(trace, kept).layers.items():
        pid, tid = trace.tracks[track]
        plane = planes.setdefault(names[pid], _Plane(names[pid]))
        called = trace.thread_names.get((pid, tid)) or str(tid)
        for number, layer in enumerate(layers):
            title = f"{called}, crossing {number}" if number else called
            slices = [edge for edge in layer.edges if edge >= 0]
            plane.line(title, begin, (fields.event(plane, slice_) for slice_ in slices))
    for number, plane in enumerate(planes.values(), 1):
        out.write(_bytes(_SPACE_PLANES, plane.encoded(number)))
    return int(len(kept) - kept.sum())


def _plane_names(trace: Trace) -> dict[Any, str]:
    """By pid: a plane for each device, and one for all processes of the host."""
    if not len(trace):
        return {}
    device = np.isin(trace.slices["cat"], [i for i, cat in enumerate(trace.cats) if cat in _DEVICE_CATEGORIES])
    devices = {trace.tracks[track][0] for track in np.unique(trace.slices["track"][device])}
    names = {}
    for pid, _ in trace.tracks:
        label = trace.process_labels.get(pid) or trace.process_names.get(pid) or str(pid)
        names[pid] = f"/device:CUSTOM:{label}" if pid in devices else "/host:CPU"
    return names


# Numbers of fields in xplane.proto.
_SPACE_PLANES = 1
_PLANE_ID, _PLANE_NAME, _PLANE_LINES, _PLANE_EVENT_NAMES, _PLANE_STAT_NAMES = 1, 2, 3, 4, 5
_LINE_ID, _LINE_NAME, _LINE_BEGIN_NS, _LINE_EVENTS = 1, 2, 3, 4
_EVENT_NAME, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_STAT_NAME, _STAT_INT64, _STAT_REF = 1, 4, 7
_KEY, _VALUE = 1, 2  # of an entry of a map
_METADATA_ID, _METADATA_NAME = 1, 2


class _Plane:
    """A plane that grows, line by line; names are written once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[bytes] = []
        self._events: dict[str, int] = {}
        self._stats: dict[str, int] = {}

    def event_name(self, name: str) -> int:
        return self._events.setdefault(name, len(self._events) + 1)

    def stat_name(self, name: str) -> int:
        return self._stats.setdefault(name, len(self._stats) + 1)

    def line(self, name: str, begin: int, events: Iterator[bytes]) -> None:
        parts = [_number(_LINE_ID, len(self._lines) + 1), _text(_LINE_NAME, name), _number(_LINE_BEGIN_NS, begin)]
        parts += [_bytes(_LINE_EVENTS, event) for event in events]
        self._lines.append(b"".join(parts))

    def encoded(self, number: int) -> bytes:
        parts = [_number(_PLANE_ID, number), _text(_PLANE_NAME, self._name)]
        parts += [_bytes(_PLANE_LINES, line) for line in self._lines]
        for field, names in ((_PLANE_EVENT_NAMES, self._events), (_PLANE_STAT_NAMES, self._stats)):
            for name, key in names.items():
                metadata = _number(_METADATA_ID, key) + _text(_METADATA_NAME, name)
                parts.append(_bytes(field, _number(_KEY, key) + _bytes(_VALUE, metadata)))
        return b"".join(parts)


class _Fields:
    """Encodes a slice of a trace as an event of a plane."""

    def __init__(self, trace: Trace, first: int) -> None:
        self._trace = trace
        self._start = ((trace.slices["start"] - first) * _PS).tolist() if len(trace) else []
        self._duration = (trace.slices["duration"] * _PS).tolist() if len(trace) else []
        self._numbers = [(trace.column(column), stat, OPTIONAL[column][1]) for column, stat in _NUMBERS]
        self._dims = trace.column("dims")

    def event(self, plane: _Plane, slice_: int) -> bytes:
        trace, slices = self._trace, self._trace.slices
        parts = [
            _number(_EVENT_NAME, plane.event_name(trace.names[slices["name"][slice_]])),
            _number(_EVENT_OFFSET_PS, self._start[slice_]),
            _number(_EVENT_DURATION_PS, self._duration[slice_]),
            self._said(plane, "category", trace.cats[slices["cat"][slice_]]),
        ]
        for column, stat, none in self._numbers:
            if column[slice_] != none:
                value = _number(_STAT_NAME, plane.stat_name(stat)) + _number(_STAT_INT64, int(column[slice_]))
                parts.append(_bytes(_EVENT_STATS, value))
        if self._dims[slice_] >= 0:
            parts.append(self._said(plane, "Input Dims", trace.texts[self._dims[slice_]]))
        return b"".join(parts)

    @staticmethod
    def _said(plane: _Plane, stat: str, text: str) -> bytes:
        value = _number(_STAT_NAME, plane.stat_name(stat)) + _number(_STAT_REF, plane.stat_name(text))
        return _bytes(_EVENT_STATS, value)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative int64 has ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))
