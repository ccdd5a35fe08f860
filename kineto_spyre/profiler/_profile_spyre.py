"""`profile_spyre`: a profile with the activities and the checks that a Spyre needs. Imports no torch until called."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import _notices
from ._enable import FOREIGN, enable
from ._status import is_available, status

if TYPE_CHECKING:
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerAction, ProfilerActivity
    from torch.profiler.profiler import _ITraceObserver

    from ._profile import profile


@functools.cache  # once a process
def _warn_of_foreign_plugin() -> None:
    _notices.warn(
        f"{FOREIGN}. Call kineto_spyre.enable(override=True) before the first profile to use kineto_spyre instead."
    )


def _exported(path: str | os.PathLike[str], mib: float, others: list[str]) -> profile:
    if others:
        raise ValueError(
            f"profile_spyre(export=...) does not take {', '.join(others)}, because it goes past torch.profiler. Leave "
            "out one or the other."
        )
    # By name: the recorder stands above the profiler.
    made: profile = importlib.import_module("kineto_spyre.recorder._export").exported_profile(path, mib)
    return made


def profile_spyre(  # Over 60 lines because it names each parameter of profile twice, and has no branch to cut off.
    *,
    activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
    schedule: Callable[[int], ProfilerAction] | None = None,
    on_trace_ready: Callable[..., Any] | None = None,
    record_shapes: bool = True,
    profile_memory: bool = False,
    with_stack: bool = False,
    with_flops: bool = False,
    with_modules: bool = False,
    experimental_config: _ExperimentalConfig | None = None,
    execution_trace_observer: _ITraceObserver | None = None,
    acc_events: bool = False,
    custom_trace_id_callback: Callable[[], str] | None = None,
    post_processing_timeout_s: float | None = None,
    memory: bool = False,
    compile: bool = False,
    telemetry: bool = False,
    phases: bool = False,
    export: str | os.PathLike[str] | None = None,
    export_mib: float = 256.0,
    **kwargs: Any,
) -> profile:
    """`torch.profiler.profile` as a Spyre needs it: CPU and PrivateUse1, shapes recorded, and the device waited for
    before each recording ends, so that the trace holds the end of all work.

    >>> with kineto_spyre.profile_spyre() as prof:
    ...     y = x @ x
    >>> print(prof.key_averages().table(sort_by="self_device_time_total"))  # doctest: +ELLIPSIS
    ---...Self SPYRE...

    Args:
        activities: CPU and PrivateUse1 if None.
        schedule: as `profile` takes it, and so the others down to post_processing_timeout_s.
        memory: adds counters of the memory that PyTorch holds on each device and of the scratchpad that kernels use;
            sets profile_memory.
        compile: adds the phases of torch.compile, with recompiles and graph breaks.
        telemetry: adds counters of each card's power, temperature and traffic, read ten times a second.
        phases: adds a track with the phases of each kernel (data in, prepare, compute, data out), of its cycle stamps.
        export: writes this file when the profile stops, in a small part of the time that export_chrome_trace takes,
            because no events are made for PyTorch: in Perfetto's format if it ends in .pftrace, else as JSON. There are
            ops, ranges and all of the device; no shapes, no stacks, no schedule, no layers.
        export_mib: the memory that such a profile records into, in MiB; the newest stays.
        kwargs: what newer releases of PyTorch take besides.

    Raises:
        SpyreProfilerError: no Spyre would be seen. The text says what to do.
        ValueError: an argument can't be used beside export.
    """
    from torch.profiler import ProfilerActivity

    from . import _layers
    from ._profile import profile

    if not is_available() and status().factory != "other":
        enable()
    if status().factory == "other":
        _warn_of_foreign_plugin()
    asked = {"memory": memory, "compile": compile, "telemetry": telemetry, "phases": phases}
    if export is not None:
        others = {
            "activities": activities, "schedule": schedule, "on_trace_ready": on_trace_ready,
            "profile_memory": profile_memory, "with_stack": with_stack, "with_flops": with_flops,
            "with_modules": with_modules, "experimental_config": experimental_config,
            "execution_trace_observer": execution_trace_observer, "acc_events": acc_events, **asked, **kwargs,
        }  # fmt: skip
        return _exported(export, export_mib, [name for name, value in others.items() if value])
    asked["marks"] = "kineto_spyre.marks" in sys.modules  # instrument() was called, or a marked program was loaded
    return profile(
        activities=(ProfilerActivity.CPU, ProfilerActivity.PrivateUse1) if activities is None else activities,
        schedule=schedule,
        on_trace_ready=on_trace_ready,
        record_shapes=record_shapes,
        profile_memory=profile_memory or memory,
        with_stack=with_stack,
        with_flops=with_flops,
        with_modules=with_modules,
        experimental_config=experimental_config,
        execution_trace_observer=execution_trace_observer,
        acc_events=acc_events,
        custom_trace_id_callback=custom_trace_id_callback,
        post_processing_timeout_s=post_processing_timeout_s,
        layers=_layers.named(*(name for name, on in asked.items() if on)),
        **kwargs,
    )
