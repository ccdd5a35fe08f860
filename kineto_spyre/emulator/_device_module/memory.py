"""`torch.spyre.memory`: what the caching allocator holds, and how kernels use the scratchpad. All sizes are bytes."""

from __future__ import annotations

from typing import Any

import torch

from ._index import DeviceLike, index_of

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "max_scratchpad_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "reset_scratchpad_stats",
    "scratchpad_stats",
]


def empty_cache() -> None:
    """Gives memory that no tensor holds back to the devices."""
    torch._C._accelerator_emptyCache()


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Counters of the allocator under dotted names, as torch.cuda.memory_stats has them."""
    return dict(sorted(torch.accelerator.memory.memory_stats(index_of(device)).items()))


def _bytes(device: DeviceLike, name: str) -> int:
    stats = torch._C._accelerator_getDeviceStats(index_of(device))
    what, which = name.split(".")
    return int(stats[what]["all"][which])


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes in tensors, rounded up as the allocator does (512)."""
    return _bytes(device, "allocated_bytes.current")


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most that memory_allocated() was since the start or reset_peak_memory_stats()."""
    return _bytes(device, "allocated_bytes.peak")


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the allocator holds of the device: in tensors and cached."""
    return _bytes(device, "reserved_bytes.current")


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most that memory_reserved() was since the start or reset_peak_memory_stats()."""
    return _bytes(device, "reserved_bytes.peak")


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch._C._accelerator_resetPeakStats(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch._C._accelerator_resetAccumulatedStats(index_of(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the device; what the allocator has cached is not free."""
    free, total = torch._C._accelerator_getMemoryInfo(index_of(device))
    return int(free), int(total)


def memory_summary(device: DeviceLike = None) -> str:
    """A table of memory_stats() for people."""
    index = index_of(device)
    stats = torch._C._accelerator_getDeviceStats(index)
    rows = [f"{'spyre:' + str(index):<24}{'current':>16}{'peak':>16}{'allocated':>16}{'freed':>16}"]
    counters = ("allocated_bytes", "requested_bytes", "reserved_bytes", "inactive_split_bytes", "allocation", "segment")
    for key in counters:
        s = stats[key]["all"]
        rows.append(f"{key:<24}{s['current']:>16}{s['peak']:>16}{s['allocated']:>16}{s['freed']:>16}")
    rows.append(f"out of memory: {stats['num_ooms']}, retries after emptying the cache: {stats['num_alloc_retries']}")
    return "\n".join(rows)


def scratchpad_stats(device: DeviceLike = None) -> dict[str, Any]:
    """How the kernels that were launched since the start or reset_scratchpad_stats() use the scratchpad (LX).

    `capacity` (of all cores), `usable` (the compiler's share), `largest` (the most that one kernel took), `kernels`,
    `spills` (kernels that touch more than they may use), and `fragmentation` and `reuse`: None, because the emulated
    device does not place what a kernel uses.
    """
    return {**_native().scratchpad(index_of(device)), "fragmentation": None, "reuse": None}


def max_scratchpad_allocated(device: DeviceLike = None) -> int:
    """The most scratchpad that one kernel took since the start or reset_scratchpad_stats()."""
    return int(_native().scratchpad(index_of(device))["largest"])


def reset_scratchpad_stats(device: DeviceLike = None) -> None:
    """Lets scratchpad_stats() begin again."""
    _native().reset_scratchpad(index_of(device))


def _native() -> Any:
    from kineto_spyre import _emulator

    return _emulator
