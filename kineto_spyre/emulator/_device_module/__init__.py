"""`torch.spyre`: the emulated Spyre as PyTorch's other device modules are (torch.cuda, torch.xpu).

A device is named by an index, "spyre", "spyre:1" or a torch.device; None means the calling thread's current one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ... import _device
from . import memory, random
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
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
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
    """Nothing: the device is ready since kineto_spyre.emulator.enable()."""


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
    name: str
    total_memory: int  # bytes
    cores: int
    scratchpad_bytes_per_core: int


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    return DeviceProperties(**_device.properties(index_of(device)))


def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("spyre") may cast to; float16 is the default, as it is Spyre's own."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return including_emulation


class Stream(torch.Stream):
    """A stream of a spyre: torch.Stream(device="spyre"). Streams come from a pool of 32 a device and priority."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:  # stream_id, device_index, device_type: a stream that there is already
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("spyre", index_of(device)), priority=priority)


class Event(torch.Event):
    """An event of a spyre: torch.Event(device="spyre")."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(
            cls, device="spyre", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """The calling thread's current stream on `device`."""
    return torch._C._accelerator_getStream(index_of(device))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """The device's default stream: row 1 in a trace."""
    index = index_of(device)
    kind = current_stream(index).device_type
    return torch.Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` the calling thread's current one on its device. None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[torch.Stream | None]:
    """Within it, `stream` and its device are current. None changes nothing."""
    if stream is None:
        yield None
        return
    with stream:
        yield stream
