"""`kineto-spyre report DIRECTORY` over many ranks: time and memory.

    python benchmarks/ranks.py [--ranks 25,50,100,200] [--mb 10] [--jobs 2]

Each rank's trace has about --mb MB of text, as Kineto lays it out: 20 steps of ops, launches and kernels, which each
end in a collective. There are eight such files; a rank is a name for one of them, so that the disk holds 80 MB and not
10 GB, and each rank is read and reduced as if it were alone. The time is that of the whole command, "CPU" the processor
time of all its processes, which a busy machine disturbs less; "peak" is the largest sum of the resident memory of the
command and its processes, looked at every 50 ms (what they share counts several times).
The targets: the time is linear in the bytes, and 1,000 ranks of 10 MB stay below 1 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

STEPS, VARIANTS = 20, 8


def slice_(cat: str, name: str, ts: float, dur: float, pid: int, tid: int, **args: object) -> str:
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return json.dumps(event, indent=1)


def write_rank(path: pathlib.Path, megabytes: float, variant: int) -> None:
    """A trace whose kernels take longer the larger the variant's number is."""
    shapes = {"Input Dims": [[64, 4096], [4096, 4096]], "Input type": ["float", "float"]}
    op = len(slice_("cpu_op", "aten::linear", 1e9, 10.0, 1, 1, **{"External id": 1}, **shapes))
    each = int(megabytes * 1e6 / STEPS / (op + 420))  # a launch and a kernel beside the op
    at, number = 1e9 + 1e7 * variant, 0
    with open(path, "w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for step in range(STEPS):
            begin = at
            for place in range(each):
                number += 1
                ids = {"External id": number, "correlation": number}
                kernel = 8 + 0.1 * variant
                on_card = {"device": 0, "stream": 1}
                for event in (
                    slice_("cpu_op", f"aten::op{place % 40}", at, 9, 1, 1, **{"External id": number}, **shapes),
                    slice_("privateuse1_runtime", "aiuLaunchControlBlocks", at + 2, 3, 1, 1, **ids),
                    slice_("kernel", f"kernel_{place % 40}", at + 5, kernel, 0, 1, **ids, **on_card),
                ):
                    file.write(event + ",\n")
                at = round(at + 10, 3)
            number += 1
            args = {"correlation": number, "device": 0, "stream": 1, "Collective name": "allreduce", "In msg nelems": 9}
            lasts = 500 - 20 * variant
            file.write(slice_("kernel", "ncclDevKernel_AllReduce", at + 10, lasts, 0, 1, **args) + ",\n")
            at = round(at + 520, 3)
            file.write(slice_("user_annotation", f"ProfilerStep#{step}", begin, round(at - begin, 3), 1, 1))
            file.write(",\n" if step + 1 < STEPS else "\n")
        file.write("]}\n")


def resident(pid: int) -> int:
    """Bytes of a process and all below it."""
    total = 0
    try:
        with open(f"/proc/{pid}/statm") as file:
            total = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                total += sum(resident(int(child)) for child in file.read().split())
    except OSError:
        pass  # it has ended
    return total


def cpu_seconds() -> float:
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(directory: pathlib.Path, jobs: int) -> tuple[float, float, float, int]:
    """Seconds, processor seconds, peak in MB, and how many ranks the report has."""
    command = [sys.executable, "-m", "kineto_spyre", "report", str(directory), "--jobs", str(jobs), "--json"]
    with tempfile.TemporaryFile("w+") as out:
        begin, peak, before = time.perf_counter(), 0, cpu_seconds()
        with subprocess.Popen(command, stdout=out) as running:
            while running.poll() is None:
                peak = max(peak, resident(running.pid))
                time.sleep(0.05)
        seconds = time.perf_counter() - begin
        out.seek(0)
        return seconds, cpu_seconds() - before, peak / 1e6, len(json.load(out)["ranks"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="25,50,100,200")
    parser.add_argument("--mb", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kineto_spyre_bench_") as folder:
        files = [pathlib.Path(folder, f"variant{number}.json") for number in range(VARIANTS)]
        for number, path in enumerate(files):
            write_rank(path, options.mb, number)
        print(f"{options.jobs} processes; {files[0].stat().st_size / 1e6:.1f} MB for each rank")
        print(" ranks       MB  seconds    CPU s  MB/CPU s   peak MB")
        for count in map(int, options.ranks.split(",")):
            run = pathlib.Path(folder, f"run{count}")
            run.mkdir()
            for rank in range(count):
                os.link(files[rank % VARIANTS], run / f"rank{rank}.json")
            size = sum(path.stat().st_size for path in run.iterdir()) / 1e6
            seconds, cpu, peak, ranks = measured(run, options.jobs)
            assert ranks == count, (ranks, count)
            print(f"{count:6,} {size:8,.0f} {seconds:8.1f} {cpu:8.1f} {size / cpu:9.1f} {peak:9,.0f}", flush=True)


if __name__ == "__main__":
    main()
