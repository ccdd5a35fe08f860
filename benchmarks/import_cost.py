"""What `import torch` costs more for this package being installed: medians of interleaved rounds, milliseconds.

Each round starts an interpreter twice, with the entry point on and off (KINETO_SPYRE_AUTOLOAD=0 still finds and calls
it, so a third kind hides the package's entry point from torch altogether).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

HIDE = """
import importlib.metadata as m
original = m.entry_points
def entry_points(**k):
    found = original(**k)
    return [e for e in found if e.name != 'kineto_spyre'] if k.get('group') == 'torch.backends' else found
m.entry_points = entry_points
"""
TIME = """
import time
begun = time.perf_counter()
import torch
print(time.perf_counter() - begun)
"""
KINDS = {
    "without the package": (HIDE + TIME, "1"),
    "KINETO_SPYRE_AUTOLOAD=0": (TIME, "0"),
    "with the package": (TIME, "1"),
}


def once(code: str, autoload: str) -> float:
    environment = os.environ | {"KINETO_SPYRE_AUTOLOAD": autoload}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds + 1):
        for kind, (code, autoload) in KINDS.items():
            times[kind].append(once(code, autoload))
    base = times["without the package"][1:]
    print(f"import torch, median of {rounds} interleaved rounds")
    for kind, values in times.items():
        extra = statistics.median(v - b for v, b in zip(values[1:], base))
        print(f"  {kind:<26}{statistics.median(values[1:]):8.1f} ms   {extra:+6.1f} ms")


if __name__ == "__main__":
    main()
