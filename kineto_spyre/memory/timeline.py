"""Device memory over time, from the allocator's calls in a trace with profile_memory=True.

In: a trace (path, bytes, profile, or `traces.Trace`). Out: by device, the curve of allocated and reserved bytes, the
allocation that made the peak, and what was alive at any time, each with op, module, range and stack, as far as the
trace has them (record_shapes is not needed; modules need with_modules or with_stack, stacks need with_stack). Times are
ns of the trace's own time line. Errors: ValueError where the trace has no such calls, and what reading it raises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.traces import Trace, read
from kineto_spyre.traces.opening import Source
from kineto_spyre.traces.places import places

Array = npt.NDArray[Any]
_CPU = 0  # c10::DeviceType


@dataclass(frozen=True)
class Curve:
    """What the allocator held of a device: entry i holds from time[i] to time[i + 1]."""

    device: int
    time: Array
    allocated: Array
    reserved: Array


@dataclass(frozen=True)
class Allocation:
    """One call of the allocator. Texts are empty where the trace does not tell.

    Attributes:
        time: when, in ns of the trace.
        address, bytes: what.
        op: the innermost op that was open on the thread.
        module, range: the innermost module, and the innermost range of the user's.
        stack: Python functions, the innermost first.
    """

    time: int
    address: int
    bytes: int
    op: str = ""
    module: str = ""
    range: str = ""
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peak:
    """The moment at which a device held most.

    Attributes:
        device, time: where and when (ns of the trace).
        allocated, reserved: what the allocator held then.
        allocation: the one that made the peak.
        alive: what was allocated in the trace and held then, the largest first, `allocation` among it.
        before: bytes of what was held since before the trace.
    """

    device: int
    time: int
    allocated: int
    reserved: int
    allocation: Allocation
    alive: list[Allocation] = field(repr=False)
    before: int

    @property
    def by_op(self) -> dict[str, int]:
        """Bytes alive by op, the largest first."""
        return _sums(self.alive, "op")

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes alive by module, the largest first."""
        return _sums(self.alive, "module")

    @property
    def by_range(self) -> dict[str, int]:
        """Bytes alive by range, the largest first."""
        return _sums(self.alive, "range")


def curves(source: Source | Trace) -> dict[int, Curve]:
    """The curves by device; empty if the trace has no allocations of a device."""
    trace = _trace(source)
    return {
        device: Curve(device, *(trace.memory[name][rows] for name in ("start", "allocated", "reserved")))
        for device, rows in _rows(trace).items()
    }


def peak(source: Source | Trace, device: int = 0) -> Peak:
    """What made the peak of a device, and what was alive then.

    Raises:
        ValueError: the trace has no allocations of the device.
    """
    trace = _trace(source)
    rows = _rows_of(trace, device)
    place = int(np.argmax(trace.memory["allocated"][rows]))
    alive = alive_after(trace, rows[: place + 1])
    made = _described(trace, [int(rows[place])])[0]
    whole = int(trace.memory["allocated"][rows[place]])
    return Peak(
        device, made.time, whole, int(trace.memory["reserved"][rows[place]]), made, alive,
        whole - sum(one.bytes for one in alive),
    )  # fmt: skip


def snapshot(source: Source | Trace, device: int = 0, at: int | None = None) -> list[Allocation]:
    """What was allocated in the trace and is held at a time, the largest first, each with its stack.

    Args:
        source: a trace with profile_memory=True; with_stack=True for the stacks.
        device: its index.
        at: ns of the trace's time line; the end of the trace unless told.

    Raises:
        ValueError: the trace has no allocations of the device.
    """
    trace = _trace(source)
    rows = _rows_of(trace, device)
    if at is not None:
        rows = rows[trace.memory["start"][rows] <= at]
    return alive_after(trace, rows)


def _trace(source: Source | Trace) -> Trace:
    return source if isinstance(source, Trace) else read(source)


def _rows(trace: Trace) -> dict[int, Array]:
    """By device, the rows of its calls in order of time."""
    if not trace.memory:
        return {}
    device = trace.memory["device_id"]
    rows = np.flatnonzero((trace.memory["device_type"] != _CPU) & (device >= 0))
    rows = rows[np.argsort(trace.memory["start"][rows], kind="stable")]
    return {one: rows[device[rows] == one] for one in np.unique(device[rows]).tolist()}


def _rows_of(trace: Trace, device: int) -> Array:
    rows = _rows(trace).get(device)
    if rows is None:
        raise ValueError(
            f"{trace.source} has no allocations of device {device}. Profile with profile_memory=True, or with "
            "profile_spyre(memory=True), and allocate on that device."
        )
    return rows


def alive_after(trace: Trace, rows: Array) -> list[Allocation]:
    """What is held after these calls (rows of Trace.memory, of one device, in order of time), the largest first."""
    held: dict[int, int] = {}
    address, size = trace.memory["address"], trace.memory["bytes"]
    for row in rows.tolist():
        if size[row] > 0:
            held[int(address[row])] = row
        else:
            held.pop(int(address[row]), None)
    return sorted(_described(trace, held.values()), key=lambda one: (-one.bytes, one.time))


def _described(trace: Trace, rows: Iterable[int]) -> list[Allocation]:
    """Calls with what was open on their threads at their times."""
    memory, rows = trace.memory, list(rows)
    tracks, times = ([int(memory[name][row]) for row in rows] for name in ("track", "start"))
    return [
        Allocation(time, int(memory["address"][row]), int(memory["bytes"][row]), place.op, place.module, place.range,
                   place.stack)
        for row, time, place in zip(rows, times, places(trace, tracks, times))
    ]  # fmt: skip


def _sums(alive: list[Allocation], by: str) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for one in alive:
        sums[getattr(one, by)] += one.bytes
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))
