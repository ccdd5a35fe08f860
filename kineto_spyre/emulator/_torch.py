"""PyTorch's side of the emulated Spyre: makes `device="spyre"` a device, and `torch.spyre` its module."""

from __future__ import annotations

import importlib
import sys
import threading

_lock = threading.Lock()


def install(time: str = "modelled") -> None:
    """Makes the emulated Spyre PyTorch's PrivateUse1 device "spyre", once a process; later calls do nothing more.

    The emulator must have its devices already (`kineto_spyre.emulator.enable` calls this after it made them).

    Args:
        time: "measured" has each op tell the emulator how long its CPU execution took; "modelled" does not.

    Raises:
        ValueError: `time` is neither.
        RuntimeError: PrivateUse1 belongs to another backend, or `torch.spyre` does. The sentence says what to do.
    """
    if time not in ("modelled", "measured"):
        raise ValueError(f"time={time!r}: expected 'modelled' or 'measured'")
    import torch

    with _lock:
        name = torch._C._get_privateuse1_backend_name()
        if name not in ("privateuseone", "spyre"):
            raise RuntimeError(
                f"PyTorch's PrivateUse1 device is {name!r} in this process, and there is room for one. "
                "Use the emulated Spyre in a process that does not load that backend."
            )
        ours = sys.modules.get("kineto_spyre.emulator._device_module")
        theirs = getattr(torch, "spyre", None)
        if theirs is not None and theirs is not ours:
            raise RuntimeError(
                f"torch.spyre is already {theirs!r}, so a backend for a real Spyre is loaded. "
                "Use the emulated one in a process that does not load it (TORCH_DEVICE_BACKEND_AUTOLOAD=0)."
            )
        from .._device import install as register
        from .._device import installed

        first = not installed()
        register(measure=time == "measured")
        if first:
            _name_the_device(torch)


def _name_the_device(torch) -> None:  # type: ignore[no-untyped-def]
    if torch._C._get_privateuse1_backend_name() != "spyre":
        torch.utils.rename_privateuse1_backend("spyre")
    module = importlib.import_module("._device_module", __package__)
    torch._register_device_module("spyre", module)
    for part in ("memory", "random", "streams"):  # so that `import torch.spyre.memory` gives the same module
        sys.modules[f"torch.spyre.{part}"] = getattr(module, part)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    from . import _accelerate, _compile, _compile_cache, _distributed, _fake_results

    _accelerate.register()
    _compile.register()
    _compile_cache.register()
    _distributed.register()
    _fake_results.register()
