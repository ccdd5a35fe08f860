"""Nested tensors with the strided layout: as on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import kineto_spyre

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
PARTS = [torch.linspace(-1, 1, 8).view(2, 4), torch.linspace(0, 3, 12).view(3, 4)]


def nested(device: str, **options) -> torch.Tensor:
    return torch.nested.nested_tensor(PARTS, device=device, **options)


def flat(result) -> list[torch.Tensor]:
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flat(part)]
    return [t.detach().cpu() for t in (result.unbind() if result.is_nested else [result])]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: x.unbind(),
        lambda x: x * 2,
        lambda x: x + x,
        lambda x: torch.softmax(x, -1),
        lambda x: torch.relu(x),
        lambda x: torch.nested.to_padded_tensor(x, 0.5),
        lambda x: torch.matmul(x, x.transpose(1, 2)),
        lambda x: torch.bmm(x, x.transpose(1, 2)),
        lambda x: x.sum(-1, keepdim=True),
        lambda x: x.half(),
        lambda x: x.transpose(1, 2).contiguous(),
        lambda x: x.chunk(2, -1),
        lambda x: x[1],
        lambda x: torch.nn.functional.dropout(x, 0.5),
        lambda x: torch.nested.as_nested_tensor(list(x.unbind())),
        lambda x: x.clone().copy_(x * 3),
    ],
)
def test_nested_tensors_equal_the_cpus(f) -> None:
    torch.manual_seed(0)
    expected = flat(f(nested("cpu")))
    torch.manual_seed(0)
    result = f(nested("spyre"))
    assert all(t.is_spyre for t in (result if isinstance(result, (tuple, list)) else [result]))
    found = flat(result)
    assert len(found) == len(expected) and all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_nested_tensors_go_to_the_device_and_back() -> None:
    x = nested("cpu").to("spyre")
    assert x.is_spyre and x.is_nested and "device='spyre:0'" in repr(x)
    assert all(torch.equal(a, b) for a, b in zip(x.cpu().unbind(), PARTS, strict=True))
    with kineto_spyre.profile_spyre():
        x.cpu()
    assert kineto_spyre.last_session().captured["memcpy"] == 1


def test_gradients_of_nested_tensors() -> None:
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        layer = nn.Linear(4, 5).to(device)
        x = nested(device, requires_grad=True)
        torch.nested.to_padded_tensor(layer(x), 0.0).square().sum().backward()
        results.append([*flat(x.grad), layer.weight.grad.cpu(), layer.bias.grad.cpu()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("grad", [True, False])
def test_an_encoder_with_a_padding_mask_equals_the_cpus(grad: bool) -> None:
    """Without gradients it packs the unpadded tokens into a nested tensor, and takes the fused layers."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x = torch.randn(2, 5, 8)
    mask = torch.tensor([[False, False, False, True, True], [False] * 5])
    with torch.set_grad_enabled(grad):
        expected = encoder(x, src_key_padding_mask=mask)
        found = encoder.to("spyre")(x.to("spyre"), src_key_padding_mask=mask.to("spyre"))
    assert torch.equal(found.cpu(), expected)
