"""What profiling costs a real program: the demo's decoder on an emulated Spyre, three ways.

    off         no profiler
    cpu         torch.profiler, CPU only
    cpu+spyre   torch.profiler, CPU and PrivateUse1: what this package adds is the difference to `cpu`

Wall time of one run (prefill and decode steps) is noise on small steps, so its spread is printed with it. Instructions
are not: `--instructions` counts those of one run under callgrind (Debian's valgrind), without the start, the warm-up,
and the stop. Rounds of the three are interleaved.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "6")
WAYS = ("off", "cpu", "cpu+spyre")


def workload(steps: int, prompt: int) -> Callable[[], None]:
    import torch

    import kineto_spyre
    from kineto_spyre._workloads import Decoder

    kineto_spyre.emulator.enable()
    decoder = Decoder(prompt=prompt)

    def run() -> None:
        for _ in decoder.run("spyre", steps):
            pass
        torch.accelerator.synchronize()

    run()
    return run


def profiled(way: str, run: Callable[[], object]) -> None:
    from torch.profiler import ProfilerActivity, profile

    if way == "off":
        run()
        return
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.PrivateUse1] if way == "cpu+spyre" else [])
    with profile(activities=activities):
        run()


def wall(steps: int, prompt: int, rounds: int) -> None:
    run = workload(steps, prompt)
    times: dict[str, list[float]] = {way: [] for way in WAYS}

    def timed(way: str) -> None:
        begun = time.perf_counter()
        run()
        times[way].append((time.perf_counter() - begun) * 1000)

    for _ in range(rounds):
        for way in WAYS:
            profiled(way, lambda way=way: timed(way))
    print(f"wall time of one run, {rounds} interleaved rounds (quartiles in brackets)")
    for way, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        ratio = statistics.median(a / b for a, b in zip(values, times["off"]))
        print(f"  {way:<12}{middle:9.2f} ms  [{low:.2f} .. {high:.2f}]   {ratio:6.3f} of off")


# Runs inside callgrind, which counts the run itself alone.
def counted(way: str, steps: int, prompt: int, toggle: str) -> None:
    switch = ctypes.CDLL(toggle)
    run = workload(steps, prompt)

    def collected() -> None:
        switch.begin_counting()
        run()
        switch.end_counting()

    profiled(way, collected)


TOGGLE = """
#include <valgrind/callgrind.h>
void begin_counting(void) { CALLGRIND_START_INSTRUMENTATION; }
void end_counting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
"""


def instructions(steps: int, prompt: int) -> None:
    if shutil.which("valgrind") is None:
        sys.exit(
            "Counting instructions needs valgrind; install Debian's package valgrind, or leave --instructions out."
        )
    with tempfile.TemporaryDirectory() as folder:
        source, toggle = pathlib.Path(folder) / "toggle.c", pathlib.Path(folder) / "toggle.so"
        source.write_text(TOGGLE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", toggle, source], check=True)
        counts = {}
        for way in WAYS:
            out = pathlib.Path(folder) / way
            command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
            script = [sys.executable, "-P", __file__, "--counted", way, "--toggle", str(toggle)]
            sizes = ["--steps", str(steps), "--prompt", str(prompt)]
            # One order of hashing: else dictionaries alone make two runs differ by as much as is measured.
            environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
            done = subprocess.run(
                [*command, *script, *sizes], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode or not out.exists():
                sys.exit(f"callgrind failed:\n{done.stderr[-3000:]}")
            counts[way] = by_library(out)
    totals = {way: sum(count.values()) for way, count in counts.items()}
    print("instructions of one run, one thread for the CPU's kernels")
    for way, total in totals.items():
        print(f"  {way:<12}{total:16,}   {total / totals['off']:6.4f} of off")
    print("what cpu+spyre adds to cpu, and where")
    for what, libraries in PLACES.items():
        added = sum(
            counts["cpu+spyre"][name] - counts["cpu"][name]
            for name in counts["cpu+spyre"] | counts["cpu"]
            if any(library in name for library in libraries)
        )
        print(f"  {what:<44}{added:12,}   {100 * added / totals['cpu']:5.2f} %")


# In which libraries the instructions are.
PLACES = {
    "all": ("",),
    "the plugin: op events, buffers": ("/_C.",),
    "PyTorch": ("torch", "c10"),
    "the emulated card, its libaiupti, its kernels": ("spyre_emulator", "aiupti_emulated", "/_device.", "/_emulator."),
    "the C library, for all of them": ("/libc.so",),
}


def by_library(path: pathlib.Path) -> collections.Counter[str]:
    """Callgrind's counts by object file. In its format, a line after `calls=` counts what another function did."""
    names: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    library, called = "", False
    for line in path.read_text().splitlines():
        if line.startswith("calls="):
            called = True
        elif match := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?$", line):
            if match[3]:
                names[match[2]] = match[3]
            if not match[1]:
                library = names[match[2]]
        elif re.match(r"[\d+*-]", line):
            if not called:
                counts[library] += int(line.split()[1])
            called = False
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--prompt", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--counted", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--toggle", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        counted(options.counted, options.steps, options.prompt, options.toggle)
    elif options.instructions:
        instructions(options.steps, options.prompt)
    else:
        wall(options.steps, options.prompt, options.rounds)


if __name__ == "__main__":
    main()
