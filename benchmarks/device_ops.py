"""What an op costs the host on the emulated Spyre, against the CPU.

    python benchmarks/device_ops.py [--rounds 21]

For each op, on tensors of 4 and of a million float32 elements: rounds on the CPU and on the device take turns, and the
median of the rounds' ratios is printed, with the median CPU times of the calling thread. No profiler runs. The device
computes with the CPU's own kernels, so what is above 1 is what making it a device costs: at most 3 on 4 elements, 1.1
on a million, is the aim.

Then what loops of real programs repeat, without and with a profiler running: 200 `.item()`, and 1,000 `.to()` of 16
elements to the device (on the CPU: a copy). The aim is 2. These are wall times, because a caller waits for the modelled
end of its copy (3.5 us by the cost model), which neither the CPU's nor the host's work explains.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time

import torch
import torch.nn.functional as F

import kineto_spyre


def cases(device: str, n: int):
    x = torch.ones(n, device=device)
    y = torch.ones(n, device=device)
    rows = x.view(2, -1)
    side = int(n**0.5)
    square = torch.ones(side, side, device=device)
    bias = torch.ones(2, device=device)
    index = torch.arange(n, device=device)
    return {
        "x + y": lambda: x + y,
        "x.add_(1)": lambda: x.add_(1),
        "x * 2": lambda: x * 2,
        "relu": lambda: torch.relu(x),
        "sum": lambda: x.sum(),
        "softmax": lambda: torch.softmax(rows, -1),
        "layer_norm": lambda: F.layer_norm(rows, (rows.shape[1],)),
        "linear": lambda: F.linear(rows, rows, bias),
        "mm": lambda: square @ square,
        "cat": lambda: torch.cat([x, y]),
        "clone": lambda: x.clone(),
        "copy_": lambda: x.copy_(y),
        "index_select": lambda: x.index_select(0, index),
        "view": lambda: x.view(2, -1),
        "x[1:]": lambda: x[1:],
        "empty": lambda: torch.empty(n, device=device),
        "zeros": lambda: torch.zeros(n, device=device),
        "where": lambda: torch.where(x > 0, x, y),
    }


def timed(f, calls: int, clock=time.thread_time) -> float:
    begin = clock()  # thread_time: of this thread alone, so that what else the machine does matters less
    for _ in range(calls):
        f()
    return (clock() - begin) / calls * 1e6


def loops(device: str):
    values = torch.ones(200, device=device).unbind()
    host = torch.ones(16)

    def items() -> None:
        for value in values:
            value.item()

    def copies() -> None:
        for _ in range(1000):
            host.to(device, copy=True)

    return {"200 item()": items, "1,000 to()": copies}


def compare(cpu, device, calls: int, rounds: int, clock=time.thread_time) -> tuple[float, float, float]:
    """The median ratio of the rounds, and the median microseconds of a call on each."""
    for f in (cpu, device):
        timed(f, calls)
    pairs = [(timed(cpu, calls, clock), timed(device, calls, clock)) for _ in range(rounds)]
    a, b = (statistics.median(column) for column in zip(*pairs))
    return statistics.median(y / x for x, y in pairs), a, b


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    kineto_spyre.emulator.enable(devices=1)
    for n in (4, 1_000_000):
        print(f"{n} elements{'':<18}ratio   CPU us  spyre us")
        ratios = []
        cpu, device = cases("cpu", n), cases("spyre", n)
        for name in cpu:
            calls = max(2, min(1000, int(20_000 / (timed(cpu[name], 3) + 1))))
            ratio, a, b = compare(cpu[name], device[name], calls, rounds)
            ratios.append(ratio)
            print(f"  {name:<26}{ratio:6.2f} {a:8.1f} {b:9.1f}")
        print(f"  {'median, largest':<26}{statistics.median(ratios):6.2f} {max(ratios):8.2f}")
    cpu, device = loops("cpu"), loops("spyre")
    for title, profiler in (("loops", contextlib.nullcontext), ("loops, profiled", kineto_spyre.profile_spyre)):
        print(f"{title:<28}ratio   CPU us  spyre us")
        with profiler():
            for name in cpu:
                ratio, a, b = compare(cpu[name], device[name], 3, rounds, time.perf_counter)
                print(f"  {name:<26}{ratio:6.2f} {a:8.1f} {b:9.1f}")
