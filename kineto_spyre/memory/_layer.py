"""The layer "memory": counters of what PyTorch's allocator holds of each device.

From the allocator's calls in the trace; what was held when the recording began and ended is asked of the allocator, so
that the counters begin with the window and not with the first call.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.memory.now import sample
from kineto_spyre.memory.timeline import curves
from kineto_spyre.profiler._layers import Additions, Counter
from kineto_spyre.profiler._trace_file import TraceFile
from kineto_spyre.traces import Trace, read

Array = npt.NDArray[Any]

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
        parts: dict[int, list[Array]] = {}
        for when, held in self._samples:
            for device, figures in held.items():
                parts.setdefault(device, []).append(np.array([[when], *([one] for one in figures)], np.int64))
        for device, curve in curves(columns(trace)).items():
            calls = np.stack((curve.time + trace.base_ns, curve.allocated, curve.reserved))
            parts.setdefault(device, []).append(calls)
        added = Additions(about={"devices": {}})
        for device, all_of in sorted(parts.items()):
            points = np.concatenate(all_of, axis=1)
            if not points[1:].any():
                continue
            times, allocated, reserved = points[:, np.argsort(points[0], kind="stable")]
            added.about["devices"][str(device)] = {
                "peak_allocated": int(allocated.max()), "peak_reserved": int(reserved.max())
            }  # fmt: skip
            added.events += [counter(ALLOCATED, device, times, allocated), counter(RESERVED, device, times, reserved)]
        return added


def counter(name: str, device: int, times: Array, bytes: Array) -> Counter:
    """A counter on a device's tracks, without the times between first and last at which nothing changed."""
    changed = np.diff(bytes, prepend=bytes[:1] - 1) != 0
    changed[-1:] = True
    kept = np.flatnonzero(changed)
    return Counter(name, device, times[kept].tolist(), {"bytes": bytes[kept].tolist()})


def layer() -> MemoryLayer:
    return MemoryLayer()
