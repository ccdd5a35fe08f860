"""Inductor decides some things by the name of the device. Here, "spyre" is decided as "cpu" is.

The kernels are the CPU's, so what makes the CPU's kernels right, or their results closer to eager ones, holds for them.
Each adaptation asks for the device first and leaves all others to Inductor's own function. What a release of PyTorch
does not have is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config, graph, ir, lowering, scheduler, utils
from torch._inductor.codegen import common
from torch._inductor.virtualized import V, ops


def _on_spyre(x: Any) -> bool:
    device = x.get_device()
    return device is not None and device.type == "spyre"


def _replace(owner: Any, name: str, made_of: Callable[[Any], Any]) -> None:
    """Puts a function made of the old one in its place, once."""
    before = getattr(owner, name, None)
    if before is None or getattr(before, "_of_kineto_spyre", False):
        return
    after: Any = functools.wraps(before)(made_of(before))
    after._of_kineto_spyre = True
    setattr(owner, name, staticmethod(after) if isinstance(vars(owner).get(name), staticmethod) else after)


def _device_type(before: Any) -> Any:
    # When operands are realized, how argmax counts in a transposed input, whether a convolution takes its bias.
    def get_device_type(x: Any) -> Any:
        found = before(x)
        return "cpu" if found == "spyre" else found

    return get_device_type


def _backend(before: Any) -> Any:
    # The language that kernels are generated in, on which the dtypes of intermediate values depend.
    def get_current_backend(device_type: str | None = None) -> Any:
        return before("cpu" if (device_type or V.graph.get_current_device_or_throw().type) == "spyre" else device_type)

    return get_current_backend


def _is_cpu(before: Any) -> Any:
    # Loops of the CPU's code generator must not be reordered after they were fused.
    return lambda node: before(node) or _on_spyre(node)


def _div(before: Any) -> Any:
    # Other devices multiply by the reciprocal of a constant divisor, which rounds twice.
    def div_prim(a: Any, b: Any) -> Any:
        numbers = [x for x in (a, b) if not hasattr(x, "get_device")]
        if numbers or not _on_spyre(a):
            return before(a, b)
        if all(lowering.is_boolean_type(x) or lowering.is_integer_type(x) for x in (a, b)):
            return before(a, b)
        return lowering.make_pointwise(lambda *args: ops.truediv(*args))(a, b)

    return div_prim


def _variance(before: Any) -> Any:
    # Up to which size a variance takes two passes, which decides its last bits.
    def use_two_step_variance(x: Any, *args: Any, **kwargs: Any) -> Any:
        threshold = getattr(config.cpp, "use_two_step_variance_threshold", None)
        if threshold is None or not _on_spyre(x):
            return before(x, *args, **kwargs)
        with config.patch(unroll_reductions_threshold=threshold):
            return before(x, *args, **kwargs)

    return use_two_step_variance


def _layout(before: Any) -> Any:
    # Whether convolutions' operands are laid out channels last: always, where the CPU's are oneDNN's.
    def decide_layout_opt(gm: Any, **options: Any) -> Any:
        convolutions = [n for n in gm.graph.nodes if n.target is torch.ops.aten.convolution.default]
        mkldnn = torch.backends.mkldnn.enabled and torch.backends.mkldnn.is_available()
        ours = all(n.args[i].meta["val"].device.type == "spyre" for n in convolutions for i in (0, 1))
        if config.layout_optimization and convolutions and mkldnn and ours:
            return True
        return before(gm, **options)

    return decide_layout_opt


def adapt() -> None:
    """Puts the adaptations in place, once a process."""
    _replace(graph.GraphLowering, "decide_layout_opt", _layout)
    _replace(ir, "get_device_type", _device_type)
    for module in (common, utils):  # one took the function from the other
        _replace(module, "get_current_backend", _backend)
    _replace(scheduler.BaseSchedulerNode, "is_cpu", _is_cpu)
    _replace(lowering, "div_prim", _div)
    _replace(lowering, "use_two_step_variance", _variance)
