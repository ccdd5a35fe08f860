"""The layer "memory": counters of what PyTorch's allocator holds of each device.

From the allocator's calls in the trace; what was held when the recording began and ended is asked of the allocator, so
that the counters begin with the window and not with the first call.
"""

from __future__ import annotations

import time
from typing import Any

from kineto_spyre.memory.now import sample
from kineto_spyre.memory.timeline import curves
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile
from kineto_spyre.traces import Trace, read

ALLOCATED = "device memory allocated (bytes)"
RESERVED = "device memory reserved (bytes)"


def columns(trace: TraceFile) -> Trace:
    """The trace as columns, read once for all layers of an export."""
    if "columns" not in trace.shared:
        trace.shared["columns"] = read(trace.path)
    found: Trace = trace.shared["columns"]
    return found


class MemoryLayer:
    name = "memory"

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[int, tuple[int, int]]]] = []

    def start(self) -> None:
        self._samples = [(time.time_ns(), sample())]

    def stop(self) -> None:
        self._samples.append((time.time_ns(), sample()))

    def additions(self, trace: TraceFile) -> Additions:
        points: dict[int, list[tuple[int, int, int]]] = {}
        for when, held in self._samples:
            for device, (allocated, reserved) in held.items():
                points.setdefault(device, []).append((when, allocated, reserved))
        for device, curve in curves(columns(trace)).items():
            points.setdefault(device, []).extend(
                zip((curve.time + trace.base_ns).tolist(), curve.allocated.tolist(), curve.reserved.tolist())
            )
        events: list[dict[str, Any]] = []
        about: dict[str, Any] = {}
        for device, all_of in sorted(points.items()):
            if not any(allocated or reserved for _, allocated, reserved in all_of):
                continue
            about[str(device)] = {
                "peak_allocated": max(allocated for _, allocated, _ in all_of),
                "peak_reserved": max(reserved for _, _, reserved in all_of),
            }
            for when, allocated, reserved in sorted(all_of, key=lambda point: point[0]):
                events += [counter(ALLOCATED, device, when, allocated), counter(RESERVED, device, when, reserved)]
        return Additions(events, {"devices": about})


def counter(name: str, device: int, time_ns: int, value: float) -> dict[str, Any]:
    """A counter on a device's tracks."""
    return {"ph": "C", "name": name, "pid": device, "time_ns": time_ns, "args": {"bytes": value}}


def layer() -> MemoryLayer:
    return MemoryLayer()
