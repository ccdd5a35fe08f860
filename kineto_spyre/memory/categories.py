"""Device memory by category (parameters, gradients, optimizer state, activations, temporaries), as PyTorch's memory
profiler knows them. Imports torch.

In: a stopped profile with record_shapes, profile_memory and with_stack. Out: times in ns since the epoch, and bytes.
The categories are PyTorch's; the curve is summed here, because PyTorch's own has microseconds and one device a call.
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
    import torch

    if device is None:
        accelerator = torch.accelerator.current_accelerator()
        device = f"{accelerator.type if accelerator is not None else 'cpu'}:0"
    wanted = torch.device(device)
    found = by_device(prof).get((wanted.type, wanted.index or 0))
    if found is None:
        raise ValueError(f"The profile holds no memory of {device}. Allocate on it while the profile runs.")
    return found


def by_device(prof: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """The same for each device, by its type and index.

    Raises:
        ValueError: the profile was made without one of the three arguments.
    """
    from torch.profiler._memory_profiler import _CATEGORY_TO_INDEX, Action, TensorKey

    for name in ("record_shapes", "profile_memory", "with_stack"):
        if not getattr(prof, name):
            raise ValueError(f"The profile was made without {name}=True, which memory by category needs.")
    profile = prof._memory_profile()
    names = {("unknown" if one is None else one.name.lower()): at for one, at in _CATEGORY_TO_INDEX.items()}
    curves: dict[tuple[str, int], tuple[list[int], list[list[int]]]] = {}
    for time, action, (key, version), size in profile.timeline:
        times, sizes = curves.setdefault((key.device.type, key.device.index or 0), ([], []))
        if not times or time != times[-1]:
            times.append(time)
            sizes.append([*sizes[-1]] if sizes else [0] * len(names))

        def add(at: int, bytes: int, key: Any = key, row: list[int] = sizes[-1]) -> None:
            category = profile._categories.get(key, at) if isinstance(key, TensorKey) else None
            row[_CATEGORY_TO_INDEX[category]] += bytes

        if action in (Action.PREEXISTING, Action.CREATE):
            add(version, size)
        else:
            add(version, -size)
            if action == Action.INCREMENT_VERSION:
                add(version + 1, size)
    return {device: _curve(times, sizes, names) for device, (times, sizes) in curves.items()}


def _curve(times: list[int], sizes: list[list[int]], names: dict[str, int]) -> dict[str, Any]:
    import numpy as np

    table = np.array(sizes, np.int64)
    first = min((time for time in times if time >= 0), default=0)  # what was there before has no time
    when = [time if time >= 0 else first for time in times]
    place = int(table.sum(axis=1).argmax())
    peak = {name: int(table[place, at]) for name, at in names.items() if table[place, at]}
    return {
        "times": when,
        "bytes": {name: table[:, at].tolist() for name, at in names.items()},
        "peak": {"time": when[place], "bytes": peak},
    }
