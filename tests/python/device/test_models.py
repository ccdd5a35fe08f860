"""Models as users have them: three training steps whose losses equal the CPU's to the last bit."""

from __future__ import annotations

import models
import pytest
import torch

import kineto_spyre

VISION = {"resnet": models.ResNet, "vit": models.ViT}


@pytest.mark.parametrize("name", VISION)
@pytest.mark.parametrize("device", ["spyre:0", "spyre:1"])
def test_a_vision_model_trains_as_on_the_cpu(name: str, device: str) -> None:
    assert models.train(VISION[name], models.images, device) == models.train(VISION[name], models.images, "cpu")


@pytest.mark.parametrize("name", VISION)
def test_profiling_changes_no_loss(name: str) -> None:
    expected = models.train(VISION[name], models.images, "cpu")
    with kineto_spyre.profile_spyre():
        losses = models.train(VISION[name], models.images, "spyre")
    assert losses == expected
    assert kineto_spyre.last_session().captured["kernel"] > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", VISION)
def test_autocast_trains_as_the_cpus_autocast(name: str, dtype: torch.dtype) -> None:
    losses = [models.train(VISION[name], models.images, d, autocast=dtype) for d in ("cpu", "spyre")]
    assert losses[0] == losses[1]


def test_a_granite_decoder_trains_as_on_the_cpu() -> None:
    pytest.importorskip("transformers")
    expected = models.train(models.granite, models.tokens, "cpu")
    assert models.train(models.granite, models.tokens, "spyre:0") == expected
    assert models.train(models.granite, models.tokens, "spyre:1") == expected
    with kineto_spyre.profile_spyre():
        assert models.train(models.granite, models.tokens, "spyre") == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_granite_decoder_generates_as_on_the_cpu(dtype: torch.dtype) -> None:
    pytest.importorskip("transformers")
    model = models.granite().to(dtype).eval()
    ids, _ = models.tokens(0)
    seen = []
    for device in ("cpu", "spyre"):
        model.to(device)
        with torch.no_grad():
            out = model(ids.to(device), use_cache=True)
            logits = [out.logits]
            for _ in range(3):
                last = logits[-1][:, -1:].argmax(-1)
                out = model(last, past_key_values=out.past_key_values, use_cache=True)
                logits.append(out.logits)
        seen.append([x.cpu() for x in logits])
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("training", [True, False])
def test_recurrent_layers_equal_the_cpus(kind: str, training: bool) -> None:
    layer = getattr(torch.nn, kind)(8, 16, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
    layer.train(training)
    x = torch.randn(3, 5, 8)
    results = []
    for device in ("cpu", "spyre"):
        layer.to(device).zero_grad()
        torch.manual_seed(3)
        with torch.set_grad_enabled(training):
            out, _ = layer(x.to(device))
        grads = []
        if training:
            out.square().sum().backward()
            grads = [p.grad.cpu().clone() for p in layer.parameters()]  # the layer moves its own
        results.append([out.detach().cpu(), *grads])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_packed_sequences_equal_the_cpus() -> None:
    layer = torch.nn.LSTM(4, 8)
    x, lengths = torch.randn(6, 3, 4), torch.tensor([6, 4, 2])
    outs = []
    for device in ("cpu", "spyre"):
        layer.to(device)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x.to(device), lengths)
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
        outs.append(out.detach().cpu())
    assert torch.equal(*outs)


def test_a_transformer_in_evaluation_mode_equals_the_cpus() -> None:
    """Evaluation takes PyTorch's fused encoder path."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = torch.randn(2, 7, 32)
    with torch.no_grad():
        expected = layer(x)
        assert torch.equal(layer.to("spyre")(x.to("spyre")).cpu(), expected)


def test_foreach_and_fused_optimisers_equal_the_cpus() -> None:
    for options in ({"foreach": True}, {"foreach": False}, {"fused": True}):
        for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):
            weights = []
            for device in ("cpu", "spyre"):
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(device)
                optimizer = kind(model.parameters(), lr=0.1, **options)
                for step in range(3):
                    optimizer.zero_grad()
                    model(torch.full((3, 4), 0.5 + step, device=device)).square().sum().backward()
                    optimizer.step()
                weights.append([p.detach().cpu() for p in model.parameters()])
            assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True)), (kind, options)
