"""What the functions of torch.spyre take as a device, and its index."""

from __future__ import annotations

import torch

from ... import _device

DeviceLike = torch.device | str | int | None


def index_of(device: DeviceLike) -> int:
    """The index that `device` names; the current device's for None, "spyre" and a torch.device without an index.

    Raises:
        ValueError: It names a device of another kind.
        RuntimeError: There is no such device, or this process was forked from one that uses it.
    """
    if device is None:
        return int(torch._C._accelerator_getDeviceIndex())
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != "spyre":
            raise ValueError(f"expected a spyre device, as 'spyre:0' or an index, but got {device!r}")
        index = int(torch._C._accelerator_getDeviceIndex()) if named.index is None else named.index
    count = _device.device_count()
    if not 0 <= index < count:
        _device.refuse_in_fork()  # which has none, whatever was started
        raise RuntimeError(
            f"There is no device spyre:{index}; this process has {count}. "
            "Ask for another one, or start with more: kineto_spyre.emulator.enable(devices=...)."
        )
    return index
