"""What PyTorch's allocator holds of a device now, and held at most: torch.accelerator.memory's figures, in bytes.

Each function takes a device as PyTorch does (an index, "spyre:1", a torch.device), and the current one unless told.
Errors are PyTorch's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Device = torch.device | str | int | None


def allocated(device: Device = None) -> int:
    """Bytes in tensors, as the allocator rounds them."""
    return int(_memory().memory_allocated(device))


def max_allocated(device: Device = None) -> int:
    """The most that `allocated` was since the start or `reset_peak`."""
    return int(_memory().max_memory_allocated(device))


def reserved(device: Device = None) -> int:
    """Bytes that the allocator holds of the device: in tensors and cached."""
    return int(_memory().memory_reserved(device))


def max_reserved(device: Device = None) -> int:
    """The most that `reserved` was since the start or `reset_peak`."""
    return int(_memory().max_memory_reserved(device))


def reset_peak(device: Device = None) -> None:
    """Lets `max_allocated` and `max_reserved` begin again with what is held now."""
    _memory().reset_peak_memory_stats(device)


def reset_accumulated(device: Device = None) -> None:
    """Sets the counts of allocations and frees in `stats` to 0."""
    _memory().reset_accumulated_memory_stats(device)


def stats(device: Device = None) -> dict[str, Any]:
    """All figures of the allocator under dotted names, such as "allocated_bytes.all.peak"."""
    return dict(_memory().memory_stats(device))


def sample() -> dict[int, tuple[int, int]]:
    """(allocated, reserved) of each device; empty where no device is in use, since this must not open one."""
    import torch

    accelerator = torch.accelerator.current_accelerator()
    module = getattr(torch, accelerator.type, None) if accelerator is not None else None
    if module is None or not getattr(module, "is_initialized", lambda: True)():
        return {}
    return {index: (allocated(index), reserved(index)) for index in range(torch.accelerator.device_count())}


def _memory() -> Any:
    import torch

    return torch.accelerator.memory
