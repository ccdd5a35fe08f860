"""Optimizers step as on the CPU, but for the three that the table of exceptions names."""

from __future__ import annotations

import pathlib

import pytest
import torch
import torch.nn as nn

EXCEPTIONS = ("NAdam", "RAdam", "ASGD")
EQUAL = ("Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW", "RMSprop", "Rprop", "SGD")


def trained(device: str, optimizer: str, **kwargs) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    inputs = [torch.randn(32, 64) for _ in range(8)]
    model.to(device)
    stepping = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, **kwargs)
    for x in inputs:
        stepping.zero_grad()
        model(x.to(device)).square().mean().backward()
        stepping.step()
    return [p.detach().cpu() for p in model.parameters()]


def equal(optimizer: str, on_cpu: dict[str, bool], on_spyre: dict[str, bool]) -> bool:
    pairs = zip(trained("cpu", optimizer, **on_cpu), trained("spyre", optimizer, **on_spyre))
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("optimizer", EQUAL)
def test_default_arguments_give_the_cpus_parameters(optimizer: str) -> None:
    assert equal(optimizer, {}, {})


@pytest.mark.parametrize("optimizer", EXCEPTIONS)
def test_the_exceptions_equal_the_cpus_with_the_same_form(optimizer: str) -> None:
    assert equal(optimizer, {}, {"foreach": False})
    assert equal(optimizer, {"foreach": True}, {})


@pytest.mark.parametrize("optimizer", EXCEPTIONS)
def test_what_the_table_calls_different_is_different(optimizer: str) -> None:
    # Were they equal by now, the table of exceptions would be wrong. The two forms differ on the CPU itself.
    assert not equal(optimizer, {}, {})
    on_cpu = zip(trained("cpu", optimizer), trained("cpu", optimizer, foreach=True))
    assert not all(torch.equal(a, b) for a, b in on_cpu)


def test_the_table_names_them() -> None:
    page = pathlib.Path(__file__).parents[3] / "docs" / "reference" / "device-differences.md"
    text = page.read_text(encoding="utf-8")
    assert "| " + ", ".join(f"`{name}`" for name in EXCEPTIONS) + " with default arguments |" in text
    for name in EQUAL:
        assert f"`{name}`" in text
