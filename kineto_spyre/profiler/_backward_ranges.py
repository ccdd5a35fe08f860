"""Device time of backward for the ranges around `backward()`, in events() and key_averages(). Imports torch.

The autograd engine runs a device's backward on a thread of its own, while the thread that called it waits. PyTorch adds
up the device time of a range from the ops of its own thread, so it gives a range around `backward()` none, although on
the CPU, where backward runs on the caller's thread, the range has the time. In: the function events of one recording,
their tree built. Out: the same events; a range that waited for backward has the device time of the engine's ops besides
that of its own children.

Whose an op of the engine is, is found as the trace's device ranges find it (csrc/kineto/host_ranges.h): while it
begins, the caller is the one thread, apart from the engine's, that is within a range. With two such threads the work
belongs to no range.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.autograd.profiler_util import FunctionEvent

_ENGINE_OP = "autograd::engine::evaluate_function"


class _RangeAroundBackward(FunctionEvent):
    """A range with children on the engine's thread: their device time is part of its own, as that of all children."""

    backward_device_us: float

    @property
    def device_time_total(self) -> float:
        """Device time of all ops of the range, those of backward included, in microseconds."""
        return float(super().device_time_total) + self.backward_device_us

    @property
    def self_device_time_total(self) -> float:
        """Device time of the range without its children and without backward's ops, in microseconds."""
        return float(super().self_device_time_total) - self.backward_device_us


def add_backward(events: Iterable[FunctionEvent]) -> None:
    """Gives the ranges among the events the device time of the backward that they waited for. Once for each event."""
    by_thread: dict[int, list[FunctionEvent]] = defaultdict(list)
    for event in events:  # by begin
        if event.device_type == DeviceType.CPU and not event.is_async:
            by_thread[event.thread].append(event)
    engines = {thread for thread, own in by_thread.items() if own[0].name.startswith(_ENGINE_OP)}
    if not engines:
        return
    ranges = {
        thread: own
        for thread, all_of_it in by_thread.items()
        if thread not in engines and (own := [event for event in all_of_it if event.is_user_annotation])
    }
    for engine in engines:
        for op in by_thread[engine]:
            if op.cpu_parent is not None or not (device_us := op.device_time_total):
                continue
            callers = [found for own in ranges.values() if (found := _innermost_at(own, op.time_range.start))]
            if len(callers) == 1:
                _add(callers[0], device_us)


def _innermost_at(ranges: Sequence[FunctionEvent], us: float) -> FunctionEvent | None:
    """The range of one thread that began last of those that are open at a time. `ranges` are sorted by their begins."""
    index = bisect.bisect_right(ranges, us, key=lambda event: event.time_range.start)
    return next((event for event in reversed(ranges[:index]) if event.time_range.end > us), None)


def _add(event: Any, device_us: float) -> None:
    if not isinstance(event, _RangeAroundBackward):
        event.__class__ = _RangeAroundBackward
        event.backward_device_us = 0.0
    event.backward_device_us += device_us
