"""The layer "stamps": what each kernel did when, as the card's own cycle stamps tell: a track of its own.

In: the trace, whose kernels have five stamps (TS1 -data in- TS2 -prepare- TS3 -compute- TS4 -data out- TS5) where
libaiupti's records do. Out: four slices a kernel, which divide its recorded time as the stamps say. Kernels without
stamps are counted. Errors: ValueError where no kernel has any.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kineto_spyre.phases._layer import CAT, on_tracks, sums
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile

_TRACK = "cycle stamps"
_FIRST_TRACK = 1_650_000_000  # no thread of Linux, no stream and no other layer has such a number
_PARTS = ("data in", "prepare", "compute", "data out")


class _Event(msgspec.Struct):
    cat: Any = None
    name: Any = ""
    pid: Any = 0
    tid: Any = 0
    ts: Any = 0
    dur: Any = 0
    args: Any = None


class _File(msgspec.Struct):
    traceEvents: list[_Event]


class StampsLayer:
    name = "stamps"

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def additions(self, trace: TraceFile) -> Additions:
        with open(trace.path, "rb") as file:
            kernels = [one for one in msgspec.json.decode(file.read(), type=_File).traceEvents if one.cat == "kernel"]
        events: list[dict[str, Any]] = []
        unstamped = 0
        for kernel in kernels:
            shares = _shares(kernel.args.get("cycles_ts") if isinstance(kernel.args, dict) else None)
            unstamped += not shares
            events += _slices(kernel, shares, trace.base_ns)
        if kernels and not events:
            raise ValueError("no kernel's record has cycle stamps, which older releases of libaiupti do not write")
        about = {"phases": len(events), "kernels_without": unstamped, "kernels": sums(events)}
        return Additions([*on_tracks(_TRACK, _FIRST_TRACK, events)], about)


def _shares(stamps: Any) -> list[float]:
    """Where each part ends, from 0 to 1; [] if these are no stamps. Stamps have 32 bits and wrap."""
    if not isinstance(stamps, list) or len(stamps) != 5 or not all(type(one) is int for one in stamps):
        return []
    parts = [(after - before) & 0xFFFFFFFF for before, after in zip(stamps, stamps[1:])]
    total = sum(parts)
    return [sum(parts[: i + 1]) / total for i in range(4)] if total else []


def _slices(kernel: _Event, shares: list[float], base_ns: int) -> list[dict[str, Any]]:
    begin = base_ns + round(kernel.ts * 1000)
    ends = [begin + round(kernel.dur * 1000 * share) for share in shares]
    place = f"device {kernel.pid}, stream {kernel.tid}"
    return [
        {"ph": "X", "cat": CAT, "name": name, "place": place, "time_ns": first, "duration_ns": last - first,
         "args": {"kernel": kernel.name}}
        for name, first, last in zip(_PARTS, [begin, *ends], ends)
    ]  # fmt: skip


def layer() -> StampsLayer:
    return StampsLayer()
