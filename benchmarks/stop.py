"""What it costs to end a profile: the compact activities of kineto_spyre beside GenericTraceActivity, in one process.

    python benchmarks/stop.py [--events 100000] [--rounds 15] [--per-op 5]

Rounds of both forms are interleaved; the table holds medians, and the ratios are medians of the rounds' ratios. Times
are processor time of the thread that stops, so that a busy machine disturbs little. Both profiles run the same ops, as
many of them; in one of them the ops launch on the emulated Spyre, in the other the same number of events comes from
stop/generic_form.cpp, which this script compiles (g++, a few seconds). Before each round, what malloc keeps of the
rounds before goes back to the system: both forms begin as they do in a program that profiles for the first time.

A third run of the same ops has the flight recorder in place of a profile: its dump, from what is kept to the finished
file, stands beside profile.stop() and export_chrome_trace together.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

import kineto_spyre
from kineto_spyre import _C, emulator

HERE = pathlib.Path(__file__).parent
TORCH = pathlib.Path(torch.__file__).parent
KERNEL = "spyre_kernel_v1_mm_abcdefghijklmnop#0"


def build(folder: pathlib.Path) -> ctypes.CDLL:
    library = folder / "generic_form.so"
    include = [TORCH / "include", TORCH / "include/kineto", HERE.parent / "csrc/aiupti/include"]
    flags = ["-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-DFMT_HEADER_ONLY", "-w"]
    sources = [str(HERE / "stop/generic_form.cpp"), str(TORCH / "lib/libtorch_cpu.so")]
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, *flags, *(f"-I{path}" for path in include), *sources, "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in ("generic_process_ns", "generic_heap_bytes"):
        getattr(loaded, name).restype = ctypes.c_int64
    loaded.generic_set.argtypes = [ctypes.c_int64, ctypes.c_int64]
    return loaded


def seconds(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


class Bench:
    def __init__(self, events: int, per_op: int, generic: ctypes.CDLL, folder: pathlib.Path) -> None:
        self.pairs = events // 2
        self.events = 2 * self.pairs
        self.per_op = per_op
        self.generic = generic
        self.path = str(folder / "trace.json")
        self.device = emulator.Device(0)
        self.launching = False
        library = torch.library.Library("kineto_spyre_benchmark", "DEF")
        library.define("op(Tensor x) -> ()")
        library.impl("op", self.op, "CompositeExplicitAutograd")
        self.library = library

    def op(self, x: torch.Tensor) -> None:
        if self.launching:
            for _ in range(self.per_op):
                self.device.launch(KERNEL, ns=100)

    def run(self, activities: list[ProfilerActivity]) -> tuple[profile, dict[str, float]]:
        x = torch.empty(1)
        op = torch.ops.kineto_spyre_benchmark.op
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        prof = profile(activities=activities)
        prof.start()
        for _ in range(self.pairs // self.per_op):
            op(x)
        self.device.synchronize()
        return prof, {"profile.stop()": seconds(prof.stop)}

    def finish(self, prof: profile, result: dict[str, float]) -> dict[str, float]:
        result["export_chrome_trace"] = seconds(lambda: prof.export_chrome_trace(self.path))
        result["file"] = os.path.getsize(self.path) / 1e9
        holder = [prof.profiler.kineto_results]
        prof.profiler.kineto_results = None
        result["free"] = seconds(holder.clear)
        gc.collect()
        return {key: value * 1e9 / self.events for key, value in result.items()}

    def ours(self) -> dict[str, float]:
        self.launching = True
        self.generic.generic_set(0, 1)
        prof, result = self.run([ProfilerActivity.CPU, ProfilerActivity.PrivateUse1])
        stop = json.loads(_C.status_json())["last_stop"]
        captured = json.loads(_C.last_session_json())
        counts = captured["captured"]
        assert counts["kernel"] == self.pairs and captured["dropped"] == 0 and captured["unlinked"] == 0, captured
        timings = self.finish(prof, result)
        timings["processTrace"] = (stop["reading_ns"] + stop["handing_over_ns"]) / stop["records"]
        timings["  of it: records to trace"] = stop["reading_ns"] / stop["records"]
        timings["  of it: trace to Kineto"] = stop["handing_over_ns"] / stop["records"]
        timings["heap bytes"] = stop["activity_bytes"] / stop["records"]
        return timings

    def other(self) -> dict[str, float]:
        self.launching = False
        self.generic.generic_set(self.pairs, self.per_op)
        prof, result = self.run([ProfilerActivity.CPU])
        process_ns, heap = self.generic.generic_process_ns(), self.generic.generic_heap_bytes()
        timings = self.finish(prof, result)
        timings["processTrace"] = process_ns / self.events
        timings["heap bytes"] = heap / self.events
        self.generic.generic_set(0, 1)
        return timings

    def recorded(self) -> dict[str, float]:
        self.launching = True
        self.generic.generic_set(0, 1)
        x = torch.empty(1)
        timings = {}
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        with kineto_spyre.record(seconds=600, memory_mib=64 + self.events / 2000) as recorder:
            for _ in range(self.pairs // self.per_op):
                torch.ops.kineto_spyre_benchmark.op(x)
            self.device.synchronize()
            for row, name in (("dump, Perfetto", "dump.pftrace"), ("dump, JSON", "dump.json")):
                path = pathlib.Path(self.path).with_name(name)
                begin = time.thread_time()
                dump = recorder.dump(path)
                timings[row] = (time.thread_time() - begin) * 1e9 / self.events
                assert dump.kernels == self.pairs and dump.complete, dump
                timings[f"bytes, {name}"] = dump.bytes / self.events
        return timings


def beside(rounds: list[tuple[dict[str, float], dict[str, float], dict[str, float]]]) -> None:
    """The recorder's dumps, and a profile of the same events from stop to the finished file."""
    stop, export = "profile.stop()", "export_chrome_trace"
    usual = [ours[stop] + ours[export] for _, ours, _ in rounds]
    print(f"{'stop and export of a profile':28}{'':12}{statistics.median(usual):12.1f}")
    for row, target in (("dump, Perfetto", 20), ("dump, JSON", None)):
        cost = statistics.median(dumps[row] for *_, dumps in rounds)
        ratio = statistics.median(before / dumps[row] for before, (*_, dumps) in zip(usual, rounds))
        print(f"{row:28}{'':12}{cost:12.1f}{ratio:9.2f}x" + (f"{'>= ' + str(target):>9}" if target else ""))
    smaller = statistics.median(ours["file"] / dumps["bytes, dump.pftrace"] for _, ours, dumps in rounds)
    print(f"{'file, Kineto to Perfetto':52}{smaller:9.2f}x{'>= 5':>9}")


ROWS = {
    "processTrace": 40,
    "  of it: records to trace": None,
    "  of it: trace to Kineto": None,
    "heap bytes": None,
    "profile.stop()": 2.1,
    "export_chrome_trace": None,
    "free": None,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--per-op", type=int, default=5, help="launches an op")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generic = build(folder)
        emulator.enable()
        generic.generic_register()
        bench = Bench(arguments.events, arguments.per_op, generic, folder)
        bench.ours(), bench.other()  # warm
        bench.recorded()
        rounds = [(bench.other(), bench.ours(), bench.recorded()) for _ in range(arguments.rounds)]
    print(f"{bench.events} events, {arguments.per_op} launches an op, {arguments.rounds} rounds; ns an event, medians")
    print(f"{'':28}{'generic':>12}{'compact':>12}{'ratio':>10}{'target':>9}")
    for row, target in ROWS.items():
        compact = statistics.median(ours[row] for _, ours, _ in rounds)
        line = f"{row:28}"
        if row in rounds[0][0]:
            usual = statistics.median(other[row] for other, _, _ in rounds)
            ratio = statistics.median(other[row] / ours[row] for other, ours, _ in rounds)
            line += f"{usual:12.1f}{compact:12.1f}{ratio:9.2f}x"
        else:
            line += f"{'':12}{compact:12.1f}{'':10}"
        print(line + (f"{'>= ' + str(target):>9}" if target else ""))
    beside(rounds)
    reading = statistics.median(ours["processTrace"] for _, ours, _ in rounds)
    print(f"{1e3 / reading:.1f} million events a second from records to Kineto")


if __name__ == "__main__":
    main()
