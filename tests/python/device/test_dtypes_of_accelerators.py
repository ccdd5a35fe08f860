"""Ops that accelerators have for a dtype and the CPU lacks: the values of a wider dtype, rounded."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_histograms_of_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 3, 3, 3, 9], dtype=dtype, device="spyre")
    counts = torch.histc(x, bins=4, min=0, max=3)
    assert counts.dtype == dtype and counts.device == x.device and counts.tolist() == [1, 2, 0, 3]
    assert torch.histc(x, bins=10).tolist() == [1, 2, 0, 3, 0, 0, 0, 0, 0, 1]  # the range is that of the values
    out = torch.empty(0, dtype=dtype, device="spyre")
    assert torch.histc(x, bins=2, min=0, max=3, out=out) is out and out.tolist() == [3, 3]


def test_a_routers_token_counts() -> None:
    """As mixture-of-experts models of transformers count the tokens of each expert."""
    experts = torch.randint(0, 60, (4096,), generator=torch.Generator().manual_seed(0))
    counts = torch.histc(experts.int().to("spyre"), bins=60, min=0, max=59)
    assert counts.tolist() == torch.bincount(experts, minlength=60).tolist()


def test_booleans() -> None:
    x = torch.tensor([[True, False], [True, True]], device="spyre")
    assert x.abs().tolist() == x.tolist() and x.abs().dtype == torch.bool
    assert x.trace().item() == 2 and x.trace().dtype == torch.int64
    assert F.softsign(x).tolist() == [[0.5, 0], [0.5, 0.5]]


UNARY = "acos acosh asin asinh atan atanh cos cosh exp log sin sinh tan tanh rsqrt sqrt sigmoid angle sum trace".split()


@pytest.mark.parametrize("name", UNARY)
def test_complex_numbers_of_half_precision(name: str) -> None:
    x = torch.randn(4, 4, dtype=torch.complex64).to(torch.complex32)
    f = getattr(torch, name)
    wide, found = f(x.to(torch.complex64)), f(x.to("spyre"))
    expected = wide.to(torch.float16 if name == "angle" else torch.complex32)
    assert found.dtype == expected.dtype and found.device.type == "spyre"
    assert (
        torch.equal(torch.view_as_real(found.cpu()), torch.view_as_real(expected))
        if found.is_complex()
        else (torch.equal(found.cpu(), expected))
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.avg_pool3d(x.view(1, 1, 4, 4, 4), 2),
        lambda x: F.multi_margin_loss(x.view(16, 4), torch.arange(16, device=x.device) % 4),
        lambda x: F.interpolate(x.view(1, 1, 8, 8), size=(5, 3), mode="bilinear", antialias=True),
    ],
    ids=["avg_pool3d", "multi_margin_loss", "antialias"],
)
def test_half_precision_with_its_gradient(f, dtype: torch.dtype) -> None:
    x = torch.randn(64).to(dtype)
    wide, narrow = x.float().requires_grad_(), x.to("spyre").requires_grad_()
    expected, found = f(wide), f(narrow)
    assert found.dtype == dtype and torch.equal(found.detach().cpu(), expected.detach().to(dtype))
    expected.sum().backward()
    found.sum().backward()
    assert narrow.grad.dtype == dtype and torch.equal(narrow.grad.cpu(), wide.grad.to(dtype))


def test_writing_in_place() -> None:
    x = torch.tensor([1 + 1j, 2 - 1j], dtype=torch.complex32)
    y = x.to("spyre")
    assert y.exp_() is y
    assert y.cpu().tolist() == x.to(torch.complex64).exp().to(torch.complex32).tolist()


def test_what_stays_refused_says_why() -> None:
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        torch.fft.rfft(torch.ones(4, dtype=torch.float16, device="spyre"))
    with pytest.raises(RuntimeError, match="nansum on CPU does not support complex inputs"):
        torch.nansum(torch.ones(4, dtype=torch.complex64, device="spyre"))
    with pytest.raises(RuntimeError):
        torch.linalg.inv(torch.eye(2, dtype=torch.float16, device="spyre"))
