"""Copies between host and devices, blocking and not, pinned and not."""

from __future__ import annotations

import pytest
import torch

import kineto_spyre


def test_there_and_back_and_across() -> None:
    x = torch.randn(3, 5)
    assert torch.equal(x.to("spyre").cpu(), x)
    assert torch.equal(x.to("spyre:0").to("spyre:1").cpu(), x)
    y = torch.empty(3, 5, device="spyre:1")
    y.copy_(x.to("spyre:0"))
    assert torch.equal(y.cpu(), x)
    assert x.to("spyre").to("spyre:0").device.index == 0


@pytest.mark.parametrize(
    "shape", [lambda x: x, lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 1], lambda x: x[:1].expand(6, 6)]
)
def test_copies_of_any_layout_convert_and_broadcast(shape) -> None:
    x = torch.randn(6, 6)
    device = shape(x.to("spyre"))
    assert torch.equal(device.cpu(), shape(x))
    for dtype in (torch.float16, torch.int64):
        into = torch.empty(shape(x).shape, dtype=dtype, device="spyre")
        into.copy_(shape(x))
        assert torch.equal(into.cpu(), shape(x).to(dtype))
        out = torch.empty(shape(x).shape, dtype=dtype)
        out.copy_(device)
        assert torch.equal(out, shape(x).to(dtype))
    wide = torch.empty(4, *shape(x).shape, device="spyre")
    wide.copy_(shape(x))
    assert torch.equal(wide.cpu(), shape(x).expand(4, *shape(x).shape))


def test_pinned_memory() -> None:
    x = torch.randn(10)
    assert not x.is_pinned()
    p = x.pin_memory()
    assert p.is_pinned() and p[2:5].is_pinned() and torch.equal(p, x)
    assert p.pin_memory().data_ptr() == p.data_ptr()
    assert torch.empty(4, pin_memory=True).is_pinned()
    s = x.untyped_storage()
    assert not s.is_pinned("spyre") and s.pin_memory("spyre").is_pinned("spyre")
    assert x.storage().pin_memory("spyre").is_pinned("spyre")
    again = torch.tensor(()).set_(p.untyped_storage()[2:], size=(5,), stride=(1,), storage_offset=0)
    assert again.is_pinned() and again.data_ptr() != p.data_ptr()


def test_copies_that_do_not_block_from_and_to_pinned_memory() -> None:
    x = torch.randn(1000).pin_memory()
    d = x.to("spyre", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(d, non_blocking=True)
    torch.spyre.synchronize()
    assert torch.equal(back, x)
    assert d.to("cpu", non_blocking=True).is_pinned()


def test_what_a_copy_leaves_in_the_trace(tmp_path) -> None:
    x = torch.randn(256)
    pinned = x.pin_memory()
    d = torch.empty(256, device="spyre")
    e = torch.empty(256, device="spyre:1")
    for what, kind in {
        "HtoD": lambda: d.copy_(x),
        "HtoD pinned": lambda: d.copy_(pinned, non_blocking=True),
        "DtoH": lambda: x.copy_(d),
        "PtoP": lambda: e.copy_(d),
    }.items():
        with kineto_spyre.profile_spyre() as prof:
            kind()
        assert kineto_spyre.last_session().captured["memcpy"] == 1, what
        assert kineto_spyre.last_session().captured["kernel"] == 0, what
        assert any(f"Memcpy ({what[:4]})" == event.name for event in prof.events()), what
    with kineto_spyre.profile_spyre():
        d.clone()
    assert kineto_spyre.last_session().captured["memcpy"] == 0
    assert kineto_spyre.last_session().captured["kernel"] == 1
