"""`torch.profiler` for a Spyre, name by name.

>>> from kineto_spyre import emulator, profiler
>>> emulator.enable(devices=1)                      # or a real Spyre: profiler.enable()
>>> with profiler.profile(schedule=profiler.schedule(wait=1, warmup=1, active=2)) as prof:
...     for batch in batches:
...         y = model(batch)
...         prof.step()
>>> profiler.last_session().complete
True

`profile` is torch.profiler's with what a Spyre needs; the other names are torch.profiler's own. torch is imported when
one of them is asked for, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._enable import enable
from ._profile_spyre import profile_spyre
from ._session import DeviceClock, Session, last_session
from ._status import Status, is_available, status

if TYPE_CHECKING:
    from torch.profiler import (
        DeviceType,
        ExecutionTraceObserver,
        ProfilerAction,
        ProfilerActivity,
        kineto_available,
        record_function,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )

    from ._profile import profile

_OF_TORCH = (
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
)
__all__ = [
    "DeviceClock",
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "Session",
    "Status",
    "enable",
    "is_available",
    "kineto_available",
    "last_session",
    "profile",
    "profile_spyre",
    "record_function",
    "schedule",
    "status",
    "supported_activities",
    "tensorboard_trace_handler",
]


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        import torch.profiler

        return getattr(torch.profiler, name)
    if name == "profile":
        from ._profile import profile

        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
