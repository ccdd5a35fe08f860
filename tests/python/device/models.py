"""Small models as users have them, with random weights: each made anew from a seed, so that two are equal."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.short = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """Residual blocks as in ResNet-18, fewer and narrower."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.drop(self.blocks(self.stem(x)).mean((2, 3))))


class ViT(nn.Module):
    """A vision transformer: patches, a class token, encoder layers with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 64, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 64))
        self.position = nn.Parameter(torch.randn(1, 17, 64) * 0.02)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])


def granite():
    """A Granite decoder of two layers from transformers; needs no download."""
    from transformers import GraniteConfig, GraniteForCausalLM

    return GraniteForCausalLM(
        GraniteConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )


def train(make, batches, device: str, steps: int = 3, autocast=None) -> list[float]:
    """Losses of `steps` steps of AdamW from seed 0. `make()` gives the model, `batches(step)` CPU inputs and labels."""
    torch.manual_seed(0)
    model = make()
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    torch.manual_seed(1)
    for step in range(steps):
        inputs, labels = (t.to(device) for t in batches(step))
        optimizer.zero_grad()
        with torch.autocast(torch.device(device).type, dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            out = model(inputs)
            out = out.logits.flatten(0, 1) if hasattr(out, "logits") else out
            loss = nn.functional.cross_entropy(out.float(), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def images(step: int):
    g = torch.Generator().manual_seed(step)
    return torch.randn(4, 3, 32, 32, generator=g), torch.randint(0, 10, (4,), generator=g)


def tokens(step: int):
    g = torch.Generator().manual_seed(step)
    ids = torch.randint(0, 256, (2, 17), generator=g)
    return ids[:, :-1], ids[:, 1:].contiguous()
