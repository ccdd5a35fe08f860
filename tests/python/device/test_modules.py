"""PyTorch's module database: outputs and gradients of torch.nn against the CPU's. With KINETO_SPYRE_TEST_OPINFO=all."""

from __future__ import annotations

import copy
import os
import warnings

import pytest
import torch
from opinfo_sweep import difference, leaves, to_device

PART = {"Linear", "Conv2d", "BatchNorm2d", "LSTM", "Embedding", "MultiheadAttention", "CrossEntropyLoss", "LayerNorm"}


def samples(module_info, training: bool):
    for sample in module_info.module_inputs_func(
        module_info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    ):
        if sample.forward_input is None:
            continue
        made = sample.constructor_input
        try:
            torch.manual_seed(0)
            module = module_info.module_cls(*made.args, **made.kwargs).to(torch.float32).train(training)
        except (TypeError, ValueError):
            continue  # a sample of how not to make it
        yield module, (sample.forward_input.args, sample.forward_input.kwargs)


def run(module, arguments, device: str):
    module = copy.deepcopy(module).to(device)
    args, kwargs = arguments if device == "cpu" else to_device(arguments, device)
    torch.manual_seed(1)
    out = module(*args, **kwargs)
    ends = [t for t in leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    weights = [p for p in module.parameters() if p.requires_grad]
    gradients = ()
    if ends and weights:
        gradients = torch.autograd.grad([t.sum() for t in ends], weights, allow_unused=True)
    return [*leaves(out), *(g for g in gradients if g is not None)]


@pytest.mark.parametrize("training", [True, False])
def test_modules_equal_the_cpus(training: bool) -> None:
    pytest.importorskip("expecttest", reason="PyTorch's module database needs the package expecttest")
    from torch.testing._internal.common_modules import module_db

    everything = os.environ.get("KINETO_SPYRE_TEST_OPINFO") == "all"
    tried = 0
    for module_info in module_db:
        name = module_info.module_cls.__name__
        if module_info.is_lazy or not (everything or name in PART):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module, arguments in samples(module_info, training):
                try:
                    expected = run(module, arguments, "cpu")
                except RuntimeError:
                    continue  # not for the CPU
                found = run(module, arguments, "spyre")
                assert len(expected) == len(found), name
                for a, b in zip(expected, found):
                    assert difference(a, b) is None, f"{module}: {difference(a, b)}"
                tried += 1
    assert tried > (1500 if everything else 80)
