"""Random numbers: the CPU's for the same seed, from generators of the device's own."""

from __future__ import annotations

import pytest
import torch

DRAWS = {
    "rand": lambda d, g: torch.rand(7, device=d, generator=g),
    "randn": lambda d, g: torch.randn(40, device=d, generator=g),
    "randint": lambda d, g: torch.randint(0, 100, (7,), device=d, generator=g),
    "randperm": lambda d, g: torch.randperm(11, device=d, generator=g),
    "bernoulli": lambda d, g: torch.full((20,), 0.5, device=d).bernoulli(generator=g),
    "normal_": lambda d, g: torch.empty(9, device=d).normal_(generator=g),
    "uniform_": lambda d, g: torch.empty(9, device=d).uniform_(generator=g),
    "exponential_": lambda d, g: torch.empty(9, device=d).exponential_(generator=g),
    "multinomial": lambda d, g: torch.ones(6, device=d).multinomial(3, generator=g),
    "poisson": lambda d, g: torch.poisson(torch.full((5,), 3.0, device=d), generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_cpus_numbers(name: str) -> None:
    draw = DRAWS[name]
    torch.manual_seed(7)
    expected = draw("cpu", None)
    torch.manual_seed(7)
    assert torch.equal(draw("spyre", None).cpu(), expected)
    a, b = torch.Generator().manual_seed(3), torch.Generator(device="spyre").manual_seed(3)
    assert torch.equal(draw("cpu", a), draw("spyre", b).cpu())


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout_equals_the_cpus(p: float) -> None:
    grads = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(5)
        x = torch.full((50,), 3.0, device=device, requires_grad=True)
        y = torch.nn.functional.dropout(x, p) + torch.nn.functional.dropout1d(x.view(5, 10), p).view(-1)
        y.sum().backward()
        grads.append((y.detach().cpu(), x.grad.cpu()))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_drawing_on_the_device_leaves_the_cpu_alone_and_other_devices() -> None:
    cpu, other = torch.get_rng_state(), torch.spyre.get_rng_state(1)
    torch.randn(100, device="spyre:0")
    torch.nn.functional.dropout(torch.ones(50, device="spyre"), 0.5)
    torch.nn.LSTM(2, 2, num_layers=2, dropout=0.5).to("spyre")(torch.ones(3, 1, 2, device="spyre"))
    state = torch.spyre.get_rng_state(0)
    torch.randn(100)  # the model's weights were drawn on the CPU, so compare from here
    assert torch.equal(torch.spyre.get_rng_state(0), state)
    assert torch.equal(torch.spyre.get_rng_state(1), other)
    torch.set_rng_state(cpu)
    torch.randn(100, device="spyre:0")
    assert torch.equal(torch.get_rng_state(), cpu)


def test_states_are_kept_and_restored() -> None:
    state = torch.spyre.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8
    a = torch.randn(5, device="spyre")
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.randn(5, device="spyre"), a)
    states = torch.spyre.get_rng_state_all()
    assert len(states) == 2
    b = torch.randn(5, device="spyre:1")
    torch.spyre.set_rng_state_all(states)
    assert torch.equal(torch.randn(5, device="spyre:1"), b)
    with pytest.raises(RuntimeError):
        torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_seeds() -> None:
    torch.spyre.manual_seed(11)
    assert torch.spyre.initial_seed() == 11
    a = torch.randn(3, device="spyre")
    torch.spyre.manual_seed_all(11)
    assert torch.equal(torch.randn(3, device="spyre:1").cpu(), a.cpu())
    assert torch.spyre.seed() == torch.spyre.initial_seed() != 11
    torch.spyre.seed_all()
    torch.manual_seed(12)
    assert [torch.spyre.default_generators[i].initial_seed() for i in range(2)] == [12, 12]


def test_fork_rng_puts_everything_back() -> None:
    torch.manual_seed(1)
    cpu, device = torch.randn(2), torch.randn(2, device="spyre")
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0, 1], device_type="spyre"):
        torch.manual_seed(99)
        torch.randn(5, device="spyre")
    assert torch.equal(torch.randn(2), cpu)
    assert torch.equal(torch.randn(2, device="spyre"), device)


def test_generators_have_a_device_and_can_be_cloned() -> None:
    g = torch.Generator(device="spyre:1")
    assert g.device == torch.device("spyre:1")
    g.manual_seed(4)
    h = g.clone_state() if hasattr(g, "clone_state") else torch.Generator(device="spyre:1").manual_seed(4)
    assert torch.equal(torch.randn(3, device="spyre:1", generator=g), torch.randn(3, device="spyre:1", generator=h))
    with pytest.raises(RuntimeError, match="Expected a 'spyre' device type for generator but found 'cpu'"):
        torch.randn(3, device="spyre", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="There is no device spyre:7"):
        torch.Generator(device="spyre:7")
