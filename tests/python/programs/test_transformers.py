"""transformers: generation by every strategy, encoders with their gradients, a pipeline."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("transformers")

import tiny

STRATEGIES = {
    "greedy": {},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "sampling": {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.8},
    "static cache": {"cache_implementation": "static"},
}
# Mamba keeps a state in place of a cache, and its kernels are compiled ones where there are any.
PAIRS = [(a, s) for a in ("Granite", "Llama", "Mamba") for s in STRATEGIES if (a, s) != ("Mamba", "static cache")]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("architecture", "strategy"), PAIRS)
def test_generation(on_both, architecture, strategy) -> None:
    def program(device):
        model = tiny.causal(architecture).to(device)
        prompt = torch.tensor([[3, 5, 7, 9, 11], [4, 6, 8, 10, 12]], device=device)
        torch.manual_seed(1)
        return model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=6,
            min_new_tokens=6,
            disable_compile=True,
            **STRATEGIES[strategy],
        )

    assert on_both(program).shape[1] == 11


@pytest.mark.parametrize("experts", [{}, {"experts_implementation": "eager"}], ids=["by default", "eager"])
@pytest.mark.parametrize("architecture", ["Mixtral", "GraniteMoe", "GraniteMoeHybrid", "GptOss"])
def test_mixtures_of_experts_train_and_generate(on_both, architecture, experts) -> None:
    def program(device):
        model = tiny.causal(architecture, **experts).to(device)
        ids = torch.arange(3, 19, device=device).view(2, 8)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        return loss, grads, model.generate(ids, max_new_tokens=3, min_new_tokens=3)

    on_both(program)


@pytest.mark.parametrize("architecture", ["Bert", "ViT", "T5", "Whisper"])
def test_forward_and_backward(on_both, architecture) -> None:
    def program(device):
        ids = torch.arange(3, 19, device=device).view(2, 8)
        model, inputs = {
            "Bert": lambda: (tiny.bert(), {"input_ids": ids, "labels": torch.tensor([0, 2], device=device)}),
            "ViT": lambda: (
                tiny.vit(),
                {"pixel_values": torch.randn(2, 3, 16, 16).to(device), "labels": torch.tensor([0, 2], device=device)},
            ),
            "T5": lambda: (tiny.t5(), {"input_ids": ids, "labels": ids}),
            "Whisper": lambda: (tiny.whisper(), {"input_features": torch.randn(2, 8, 40).to(device), "labels": ids}),
        }[architecture]()
        model.to(device).train(False)
        out = model(**inputs)
        out.loss.backward()
        return out.loss, out.logits, [p.grad for p in model.parameters() if p.grad is not None]

    on_both(program)


def test_encoder_decoders_generate(on_both) -> None:
    def program(device):
        ids = torch.arange(3, 19, device=device).view(2, 8)
        text = tiny.t5().eval().to(device).generate(ids, max_new_tokens=4, min_new_tokens=4)
        sound = torch.randn(2, 8, 40).to(device)
        spoken = tiny.whisper().eval().to(device).generate(sound, max_new_tokens=4, num_beams=2)
        return text, spoken

    on_both(program)


def test_a_pipeline(on_both) -> None:
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds
    from transformers import PreTrainedTokenizerFast, pipeline

    words = Tokenizer(kinds.WordLevel({f"w{i}": i for i in range(tiny.VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0", eos_token="w2")

    def program(device):
        pipe = pipeline("text-generation", model=tiny.causal("Llama"), tokenizer=tokenizer, device=device)
        assert pipe.model.device.type == device
        return pipe(["w5 w6 w7", "w8 w9"], max_new_tokens=4, do_sample=False, batch_size=2)

    (first, _) = on_both(program)
    assert first[0]["generated_text"].startswith("w5 w6 w7") and first[0]["generated_text"].count("w") == 7
