"""Real models to profile: what `kineto-spyre demo`, the tests and the benchmarks run.

Both make their weights on the spot, from a seed: nothing is downloaded. A workload runs on any device, a step at a
time, and yields what it computed, so that two devices can be compared bit for bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ._notices import SpyreProfilerError


@dataclass(frozen=True)
class Step:
    """One step of a workload."""

    name: str
    result: torch.Tensor  # on the device that computed it


class Decoder:
    """A decoder of Granite's architecture: a prompt is prefilled, then tokens are decoded greedily, one a step."""

    title = "Granite-architecture decoder, float16, random weights"

    def __init__(self, prompt: int = 48, layers: int = 4) -> None:
        try:
            from transformers import GraniteConfig, GraniteForCausalLM
        except ImportError as error:
            raise SpyreProfilerError(
                f"The decoder needs the package transformers ({error}). Install it with pip install "
                "'kineto-spyre[demo]', or run the vision model with --train, which needs nothing more."
            ) from error
        torch.manual_seed(20)
        config = GraniteConfig(
            vocab_size=1024,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=512,
        )
        self.model: Any = GraniteForCausalLM(config).to(torch.float16).eval()
        self.prompt = torch.randint(0, config.vocab_size, (1, prompt))
        parameters = inspect.signature(self.model.forward).parameters
        # transformers renamed the argument in 5.x.
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def run(self, device: str, steps: int) -> Iterator[Step]:
        """The prefill and `steps` decode steps; yields each one's logits."""
        from transformers import DynamicCache

        model = self.model.to(device)
        cache = DynamicCache()
        tokens = self.prompt.to(device)
        for index in range(steps + 1):
            with torch.inference_mode():
                logits = model(tokens, use_cache=True, **{self._cache_argument: cache}).logits
                tokens = logits[:, -1:].argmax(-1)
            yield Step("prefill" if index == 0 else f"decode {index}", logits)


class _Residual(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(channels)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Vision:
    """A small residual network, trained on made-up images: forward, backward and AdamW, one batch a step."""

    title = "residual vision network, float32, training"

    def __init__(self, batch: int = 8) -> None:
        torch.manual_seed(21)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
            _Residual(16),
            torch.nn.MaxPool2d(2),
            _Residual(16),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(16, 10),
        )
        self._initial = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.images = torch.randn(batch, 3, 32, 32)
        self.labels = torch.randint(0, 10, (batch,))

    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def run(self, device: str, steps: int) -> Iterator[Step]:
        """`steps` + 1 training steps from the same start; yields each one's loss."""
        model = self.model.to(device)
        model.load_state_dict(self._initial)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        images, labels = self.images.to(device), self.labels.to(device)
        for index in range(steps + 1):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            yield Step(f"training step {index + 1}", loss.detach())
