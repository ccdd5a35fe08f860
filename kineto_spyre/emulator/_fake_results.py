"""What tracing (torch.compile, torch.export) expects of ops whose result's layout depends on the device.

The CPU's kernels run on the device's memory, so a convolution's result has the strides that the CPU's has. PyTorch's
fake tensors ask the device's name for that, and know only PyTorch's own devices. A program that was compiled for other
strides than it meets fails, or is wrong.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ._lazy import when_imported

_OPS = ("convolution.default", "_convolution.default", "_convolution.deprecated", "convolution_backward.default")


def register() -> None:
    """Has fake tensors on the device answer as those on the CPU. Imports nothing."""
    when_imported("torch._subclasses.fake_impls", _wrap)


def _wrap(module: ModuleType) -> None:
    import torch
    from torch.utils._pytree import tree_map

    implementations = module.op_implementations_dict
    for name in _OPS:
        packet, overload = name.split(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        before = implementations.get(op)
        if before is None:
            continue  # another release: its result's layout is what the meta kernel says

        def answer(fake_mode: Any, func: Any, *args: Any, _before: Any = before, **kwargs: Any) -> Any:
            device = args[0].device if args else kwargs["input"].device
            if device.type != "spyre":
                return _before(fake_mode, func, *args, **kwargs)

            def on(where: Any) -> Any:
                def moved(x: Any) -> Any:
                    if not isinstance(x, torch.Tensor):
                        return x
                    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=where)

                return moved

            with fake_mode:
                args, kwargs = tree_map(on("cpu"), (args, kwargs))
                return tree_map(on(device), _before(fake_mode, func, *args, **kwargs))

        implementations[op] = answer
