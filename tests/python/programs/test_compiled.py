"""torch.compile with Inductor: a decoder and a vision transformer train and infer, and agree with eager ones."""

from __future__ import annotations

import warnings

import pytest
import tiny
import torch


@pytest.fixture(autouse=True)
def fresh():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


MODELS = {
    "a Granite decoder": (lambda: tiny.causal("Granite", num_hidden_layers=1), "input_ids"),
    "a vision transformer": (lambda: tiny.vit(num_hidden_layers=1), "pixel_values"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_trains_and_infers(name: str) -> None:
    make, argument = MODELS[name]
    if argument == "input_ids":
        data = torch.tensor([[3, 5, 7, 9, 11, 2, 4, 8]])
    else:
        data = torch.linspace(-1, 1, 2 * 3 * 256).view(2, 3, 16, 16)
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = make().to(device).train()
        forward = model if device == "cpu" else torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            forward(**{argument: data.to(device)}).logits.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            results.append(
                [forward(**{argument: data.to(device)}).logits.cpu(), *map(torch.clone, model.cpu().parameters())]
            )
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
