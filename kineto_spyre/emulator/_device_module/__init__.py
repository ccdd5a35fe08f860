"""`torch.spyre`: the emulated Spyre as PyTorch's other device modules are (torch.cuda, torch.xpu).

A device is named by an index, "spyre", "spyre:1" or a torch.device; None means the calling thread's current one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ... import _device
from . import memory, random, streams
from ._index import DeviceLike, index_of
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_downcast_warning",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_downcast_warning",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]


_initialized = True  # torch.utils.checkpoint asks, and keeps the devices' random states only then


def is_available() -> bool:
    """Whether there is a device that this process may use."""
    return device_count() > 0


def device_count() -> int:
    """How many devices this process has."""
    return int(_device.device_count())


def init() -> None:
    """Changes nothing, because kineto_spyre.emulator.enable() made the device ready.

    Raises:
        RuntimeError: This process was forked from one that uses the device.
    """
    _device.refuse_in_fork()


def is_initialized() -> bool:
    """Whether this process may use the device: not in a process forked from one that used it."""
    return not _device.in_bad_fork()


def _is_in_bad_fork() -> bool:
    return bool(_device.in_bad_fork())


def current_device() -> int:
    """The index of the calling thread's current device."""
    return int(torch._C._accelerator_getDeviceIndex())


def set_device(device: DeviceLike) -> None:
    """Makes `device` the calling thread's current one."""
    torch._C._accelerator_setDeviceIndex(index_of(device))


class device:
    """Within it, `device` is the calling thread's current one. None or a negative index changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx = torch._C._accelerator_exchangeDevice(self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            torch._C._accelerator_setDeviceIndex(self.prev_idx)


class device_of(device):
    """Within it, the device of a tensor or storage is the current one, if it is a spyre."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device.index if obj.device.type == "spyre" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until the device has done all the work that was given to it.

    In a process forked from one that used the device there is none to wait for. It returns, so that a profiler that was
    running at the fork can be left there.
    """
    if _is_in_bad_fork():
        return
    torch._C._accelerator_synchronizeDevice(index_of(device))


def can_device_access_peer(device: DeviceLike, peer: DeviceLike) -> bool:
    """Whether one device reads another's memory: every emulated device does, over PCIe."""
    return index_of(device) != index_of(peer)


class DeviceProperties(NamedTuple):
    """What a device is: its name, its memory in bytes, its cores, and each core's scratchpad in bytes."""

    name: str
    total_memory: int
    cores: int
    scratchpad_bytes_per_core: int

    @property
    def multi_processor_count(self) -> int:
        """The cores, under the name that Inductor asks for."""
        return self.cores


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    return DeviceProperties(**_device.properties(index_of(device)))


def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("spyre") may cast to; float16 is the default, as it is Spyre's own."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return including_emulation


_warns_of_downcasts = True


def get_downcast_warning() -> bool:
    """Whether a copy to the device warns when it makes 32-bit integers of 64-bit ones, as a real Spyre's does.

    The emulated device has 64-bit integers, so it never does that and never warns; the setting is kept for programs
    that are written for torch-spyre.
    """
    return _warns_of_downcasts


def set_downcast_warning(enabled: bool) -> None:
    """Sets what get_downcast_warning() returns."""
    global _warns_of_downcasts
    _warns_of_downcasts = bool(enabled)


def __getattr__(name: str) -> Any:
    # Inductor asks a device's module for these when it first compiles (torch._inductor.codegen.common).
    if name in ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen"):
        from .. import inductor

        return getattr(inductor, name)
    raise AttributeError(f"module 'torch.spyre' has no attribute {name!r}")
