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
wall, cpu = time.perf_counter(), time.process_time()
import torch
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
KINDS = {
    "without the package": (HIDE + TIME, "1"),
    "KINETO_SPYRE_AUTOLOAD=0": (TIME, "0"),
    "with the package": (TIME, "1"),
}


def once(code: str, autoload: str) -> tuple[float, float]:
    environment = os.environ | {"KINETO_SPYRE_AUTOLOAD": autoload}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, cpu = done.stdout.split()
    return float(wall) * 1000, float(cpu) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(rounds + 1):
        for kind, (code, autoload) in KINDS.items():
            times[kind].append(once(code, autoload))
    base = times["without the package"]
    print(f"import torch, median of {rounds} interleaved rounds, ms: wall time and what it adds; the same of CPU time")
    for kind, values in times.items():
        line = f"  {kind:<26}"
        for which in (0, 1):
            middle = statistics.median(v[which] for v in values[1:])
            extra = statistics.median(v[which] - b[which] for v, b in zip(values[1:], base[1:]))
            line += f"{middle:9.1f} {extra:+7.1f}"
        print(line)


if __name__ == "__main__":
    main()
