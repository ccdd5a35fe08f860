"""Memory: how much was allocated when, and what was alive at the peak. From the trace's [memory] events.

PyTorch writes them with profile_memory=True: each call of an allocator with its thread, so that the op, the module
(with with_stack=True) and the range around it are known. In: a Trace. Out: facts, sizes in bytes, times in ns.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.memory.timeline import alive_after
from kineto_spyre.traces import Trace

Array = npt.NDArray[Any]

SLOTS = 300  # of the curve
_TYPES = {0: "CPU", 1: "CUDA", 12: "XPU", 20: ""}  # c10::DeviceType; "": the process's label says which


def memory(trace: Trace) -> list[dict[str, Any]]:
    """By device, accelerators first; empty if the trace has no [memory] events."""
    table = trace.memory
    if not table or not len(table["start"]):
        return []
    keys = np.stack((table["device_type"], table["device_id"]), 1)
    found = []
    for kind, number in np.unique(keys, axis=0).tolist():
        rows = np.flatnonzero((keys[:, 0] == kind) & (keys[:, 1] == number))
        rows = rows[np.argsort(table["start"][rows], kind="stable")]
        found.append({"device": _title(trace, kind, number), "host": kind == 0, **_device(trace, rows)})
    return sorted(found, key=lambda one: (one["host"], one["device"]))


def _title(trace: Trace, kind: int, number: int) -> str:
    if kind == 0:
        return "CPU"
    label = trace.process_labels.get(number, "")
    return label or f"{_TYPES.get(kind) or 'device'} {number}"


def _device(trace: Trace, rows: Array) -> dict[str, Any]:
    time, allocated = trace.memory["start"][rows], trace.memory["allocated"][rows]
    size, reserved = trace.memory["bytes"][rows], trace.memory["reserved"][rows]
    peak = int(allocated.argmax())
    alive = alive_after(trace, rows[: peak + 1])
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in alive:
        group = groups[one.op, one.module, one.range]
        group[0] += one.bytes
        group[1] += 1
    listed = sorted(groups.items(), key=lambda one: -one[1][0])
    known = sum(one.bytes for one in alive)
    return {
        "calls": len(rows),
        "begin": int(allocated[0] - size[0]),
        "end": int(allocated[-1]),
        "peak": {"time": int(time[peak]), "allocated": int(allocated[peak]), "reserved": int(reserved.max())},
        "before": max(0, int(allocated[peak]) - known),  # alive at the peak, allocated before the trace began
        "alive": [
            {"op": op, "module": module, "range": name, "bytes": total, "count": count}
            for (op, module, name), (total, count) in listed
        ],
        "curve": _curve(time, allocated),
    }


def _curve(time: Array, allocated: Array) -> list[list[int]]:
    """[time, most allocated since the entry before]: at most SLOTS entries, and the peak is among the values."""
    edges = np.unique(np.linspace(0, len(time), min(SLOTS, len(time)) + 1).astype(np.int64))
    most = np.maximum.reduceat(allocated, edges[:-1])
    return [[int(one), int(value)] for one, value in zip(time[edges[1:] - 1].tolist(), most.tolist())]
