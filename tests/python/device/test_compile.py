"""torch.compile with the backends that need no code generator, and export."""

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return torch.softmax(self.b(torch.nn.functional.gelu(self.a(x))), -1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_a_compiled_module_trains(backend: str) -> None:
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        torch._dynamo.reset()
        net = Net().to(device)
        compiled = torch.compile(net, backend=backend)
        x = torch.linspace(-1, 1, 12).view(3, 4).to(device)
        y = compiled(x)
        y.square().sum().backward()
        results.append([y.detach().cpu(), *(p.grad.cpu() for p in net.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_mutation_views_factories_and_streams_compile(backend: str) -> None:
    def f(x):
        y = x.view(-1)
        y.add_(1)
        z = torch.zeros_like(x) + torch.arange(x.numel(), device=x.device).view_as(x)
        return z * x, y[1:]

    x = torch.ones(2, 3)
    expected = f(x.clone())
    got = torch.compile(f, backend=backend)(x.to("spyre"))
    assert all(torch.equal(a, b.cpu()) for a, b in zip(expected, got, strict=True))


def test_dynamic_shapes() -> None:
    f = torch.compile(lambda x: (x * 2).sum(0), backend="aot_eager", dynamic=True)
    for n in (3, 5, 9):
        assert torch.equal(f(torch.ones(n, 2, device="spyre")).cpu(), torch.full((2,), 2.0 * n))


def test_export_and_make_fx() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(3, 4, device="spyre")
    graph = make_fx(lambda t: torch.relu(t @ t.T))(x)
    assert torch.equal(graph(x), torch.relu(x @ x.T))
    program = torch.export.export(Net().to("spyre"), (x,))
    assert program.module()(x).is_spyre
