"""Formulas of gradients that ask which device they run for: the device's gradients follow the CPU's way.

PyTorch's list of formulas (derivatives.yaml, which comes with the installed release) is searched for such questions;
its FunctionsManual.cpp, which does not come with it, was read: evenly_distribute_backward asks for CUDA, and
renorm_backward takes a dtype by the device. What group_norm's formula needed is in test_autograd.py.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest
import torch
import torchgen
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def test_one_formula_of_the_installed_release_asks_for_the_device() -> None:
    formulas = pathlib.Path(torchgen.__path__[0]) / "packaged/autograd/derivatives.yaml"
    asks = re.compile(r"\bis_(cpu|cuda|xpu|mps|privateuseone)\(|\bDeviceType::|\bk(CPU|CUDA)\b|device\(\)\.type\(")
    found, name = set(), ""
    for line in formulas.read_text().splitlines():
        if line.startswith("- name: "):
            name = line.removeprefix("- name: ").partition("(")[0]
        elif not line.lstrip().startswith("#") and asks.search(line):
            found.add(name)
    assert found == {"native_group_norm"}, (
        "csrc/device/autograd_formulas.cpp follows the CPU in native_group_norm alone"
    )


def gradients(device: str, op: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().to(device).requires_grad_()
    y = op(leaf)
    torch.manual_seed(0)
    y.backward(torch.randn(y.shape).to(device, y.dtype))
    assert leaf.grad is not None
    return y.detach().cpu(), leaf.grad.cpu()


def same(op: Callable[[Tensor], Tensor], x: Tensor) -> None:
    for cpu, device in zip(gradients("cpu", op, x), gradients("spyre", op, x), strict=True):
        assert torch.equal(cpu.isnan(), device.isnan()) and torch.equal(cpu.nan_to_num(), device.nan_to_num())


@pytest.mark.parametrize("op", [torch.max, torch.min, torch.median, torch.nanmedian, torch.amax, torch.amin])
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
def test_gradients_of_an_extreme_are_shared_by_equals(op: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    same(op, torch.tensor([[2.0, 5, 2], [5, 1, 5], [1, 1, 2]], dtype=dtype))
    if op is not torch.nanmedian:
        same(lambda x: op(x).nan_to_num(1.0), torch.tensor([1.0, torch.nan, 2, torch.nan], dtype=dtype))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
@pytest.mark.parametrize(("p", "dim", "most"), [(2, 0, 1.5), (1, 1, 0.5), (float("inf"), 0, 1.0)])
def test_renorms_gradients(dtype: torch.dtype, p: float, dim: int, most: float) -> None:
    torch.manual_seed(1)
    same(lambda x: torch.renorm(x, p, dim, most), torch.randn(6, 37, dtype=dtype))
