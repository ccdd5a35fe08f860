#!/usr/bin/env python3
"""What the layers of profile_spyre cost while a program runs, and when its trace is exported.

Each round records the same ops with no layer, and with each layer alone; rounds are interleaved, and the median of the
ratios to the round without a layer is printed. A layer that is off does nothing: `none again` is the noise.

    benchmarks/layers.py [--rounds N] [--ops N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time

import torch

import kineto_spyre
from kineto_spyre.profiler import _layers


def once(ops: int, layers: dict[str, bool]) -> tuple[float, float]:
    """Seconds to run the ops, and to export the trace."""
    x = torch.ones(16, 16, device="spyre")
    with tempfile.TemporaryDirectory() as folder:
        with kineto_spyre.profile_spyre(profile_memory=True, **layers) as prof:
            begun = time.perf_counter()
            for _ in range(ops):
                x = x + 1
            ran = time.perf_counter() - begun
        begun = time.perf_counter()
        prof.export_chrome_trace(os.path.join(folder, "trace.json"))
        return ran, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ops", type=int, default=2000)
    options = parser.parse_args()
    kineto_spyre.emulator.enable()
    cases = {"none again": {}, **{name: {name: True} for name in sorted(_layers._MODULES)}}
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    once(options.ops, {})
    for _ in range(options.rounds):
        ran, exported = once(options.ops, {})
        for name, layers in cases.items():
            more = once(options.ops, layers)
            ratios[name].append((more[0] / ran, more[1] / exported))
    print(f"{'layer':<14}{'while it runs':>16}{'export':>10}   (with all else equal, 1.00 is no cost)")
    for name, pairs in ratios.items():
        print(f"{name:<14}" + "".join(f"{statistics.median(column):>{width}.3f}" for column, width in
                                      zip(zip(*pairs), (16, 10))))  # fmt: skip


if __name__ == "__main__":
    main()
