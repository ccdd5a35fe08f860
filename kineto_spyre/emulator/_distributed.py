"""torch.distributed's default for the device "spyre": gloo, which works on the device's memory directly."""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Makes gloo the backend of `init_process_group()`, of `init_device_mesh("spyre", ...)` and of a `device_id`.

    Does nothing for a PyTorch without torch.distributed. A backend that is registered for the device stays.
    """
    import torch.distributed

    if not torch.distributed.is_available():
        return
    backend = torch.distributed.Backend
    # Both tables are what Backend.register_backend(devices=...) writes for a backend that is not PyTorch's own.
    # Calling that for gloo would take the CPU from it and replace its constructor.
    backend.default_device_backend_map.setdefault("spyre", backend.GLOO)
    devices = backend.backend_capability[backend.GLOO]
    if "spyre" not in devices:
        devices.append("spyre")
    if torch.distributed.is_gloo_available():
        options: Any = torch.distributed.ProcessGroupGloo._Options  # type: ignore[attr-defined]  # absent from the stubs
        if not hasattr(options, "__deepcopy__"):
            options.__deepcopy__ = _copy_options


def _copy_options(options: Any, _: dict[int, Any]) -> Any:
    """What copy.deepcopy does for gloo's options, which PyTorch leaves without a copy of their own.

    torch.distributed.split_group copies the options of a group that has a device_id, so a mesh needs it.
    """
    copy = type(options)()
    for name in ("_devices", "_threads", "_timeout", "global_ranks_in_group", "group_name"):
        setattr(copy, name, getattr(options, name))
    return copy
