"""Serves requests with a decoder of Granite's architecture on a Spyre, and profiles it.

A step decodes one token for each request: one request after the other, or all together with --together. The weights are
random unless --checkpoint names a folder with a real one. Where there is no card, the emulated Spyre takes its place.
"""

from __future__ import annotations

import argparse
import inspect
import time

import torch
from torch.profiler import record_function, schedule
from transformers import AutoModelForCausalLM, DynamicCache, GraniteConfig, GraniteForCausalLM

import kineto_spyre

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--together", action="store_true", help="decode all requests in one batch")
parser.add_argument("--requests", type=int, default=8)
parser.add_argument("--steps", type=int, default=6, help="steps in the trace")
parser.add_argument("--checkpoint", help="a folder with a Granite checkpoint")
parser.add_argument("--out", default="trace.json", help="the trace")
options = parser.parse_args()

if not kineto_spyre.is_available():
    kineto_spyre.emulator.enable(seed=1)
    torch.set_num_threads(1)  # the emulated card computes on the CPU; one thread does so in even time

torch.manual_seed(0)
if options.checkpoint:
    model = AutoModelForCausalLM.from_pretrained(options.checkpoint)
else:
    model = GraniteForCausalLM(GraniteConfig(
        vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=512,
    ))  # fmt: skip
model = model.eval().to("spyre")
# transformers renamed the argument in 5.x.
argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
prompts = torch.randint(0, model.config.vocab_size, (options.requests, 16)).to("spyre")
batches = [prompts] if options.together else list(prompts.split(1))
states = [(batch, DynamicCache(config=model.config)) for batch in batches]


def step() -> None:
    """One token more for each request."""
    for index, (tokens, cache) in enumerate(states):
        with record_function("decode"):
            logits = model(tokens, use_cache=True, **{argument: cache}).logits
            states[index] = logits[:, -1:].argmax(-1), cache


warm_up = 3  # the prefill, and two steps
ended = []
with (
    kineto_spyre.profile_spyre(
        schedule=schedule(wait=0, warmup=warm_up, active=options.steps, repeat=1), memory=True
    ) as prof,
    torch.inference_mode(),
):
    for _ in range(warm_up + options.steps):
        step()
        torch.accelerator.synchronize()
        ended.append(time.perf_counter())
        prof.step()
prof.export_chrome_trace(options.out)

lasted = (ended[-1] - ended[warm_up - 1]) / options.steps
print("last tokens:", torch.cat([tokens for tokens, _ in states]).flatten().tolist())
print(f"{options.requests} requests, {lasted * 1e3:.1f} ms a step")
