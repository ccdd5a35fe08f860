"""Device memory by category (parameters, gradients, optimizer state, activations, temporaries), as PyTorch's memory
profiler knows them. Imports torch.

In: a stopped profile with record_shapes, profile_memory and with_stack. Out: times in ns since the epoch, and bytes.
"""

from __future__ import annotations

from typing import Any


def by_category(prof: Any, device: str | None = None) -> dict[str, Any]:
    """What the memory of a device held, by category, over time.

    Args:
        prof: a torch.profiler.profile that has stopped; it was made with record_shapes=True, profile_memory=True and
            with_stack=True.
        device: "spyre:0", say; the accelerator's first unless told.

    Returns:
        `times` (ns since the epoch), `bytes` (by category, one figure a time), and `peak`: its time, and the bytes by
        category then.

    Raises:
        ValueError: the profile was made without one of the three arguments, or holds nothing of the device.
    """
    import numpy as np
    import torch
    from torch.profiler._memory_profiler import _CATEGORY_TO_INDEX, MemoryProfileTimeline

    if device is None:
        accelerator = torch.accelerator.current_accelerator()
        device = f"{accelerator.type if accelerator is not None else 'cpu'}:0"
    timeline = MemoryProfileTimeline(prof._memory_profile())
    times, sizes = timeline._coalesce_timeline(device)
    if not len(times):
        raise ValueError(f"The profile holds no memory of {device}. Allocate on it while the profile runs.")
    table = np.array(sizes, np.int64)[:, 1:]  # PyTorch's plot needs a 0 before the categories
    place = int(table.sum(axis=1).argmax())
    names = {("unknown" if one is None else one.name.lower()): at for one, at in _CATEGORY_TO_INDEX.items()}
    return {
        "times": [int(time) for time in times],
        "bytes": {name: table[:, at].tolist() for name, at in names.items()},
        "peak": {
            "time": int(times[place]),
            "bytes": {name: int(table[place, at]) for name, at in names.items() if table[place, at]},
        },
    }
