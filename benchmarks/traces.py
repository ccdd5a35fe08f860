"""The reader of traces, and `check`: speed and memory.

    python benchmarks/traces.py [--mb 156] [--large-mb 1000]

One synthetic trace, laid out as Kineto writes it (ops with shapes, launches, arrows and kernels on 2 threads and 4
streams of a Spyre), is read in turn, round by round, by msgspec's decoder for the same types (the whole text at once,
into objects that it then drops) and by `kineto_spyre.traces.read` (in blocks, into columns). "times msgspec" is the
median of the rounds' ratios; its target is 2. Times are processor time, so that a busy machine disturbs
little. The peak of the large trace is that of a process that reads it and does nothing else; its target is 600 MB.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import msgspec

from kineto_spyre import traces
from kineto_spyre.traces.events import Event

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "type": "AIU", "name": "AIU", "core": "PT Array"}],
  "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 4321, "tid": 0, "ts": 0, "args": {"name": "python"}},
  {"ph": "M", "name": "process_labels", "pid": 4321, "tid": 0, "ts": 0, "args": {"labels": "CPU"}},
  {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "AIU"}},
  {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "AIU 0"}}"""
OP = """,
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::%(op)s", "pid": 4321, "tid": %(tid)d,
    "ts": %(op_ts).3f, "dur": 9.250,
    "args": {
      "External id": %(n)d, "Record function id": 0, "Concrete Inputs": ["", "", ""],
      "Input type": ["float", "float", ""],
      "Input Strides": [[4096, 1], [1, 4096], []], "Input Dims": [[%(rows)d, 4096], [4096, 4096], []], "Ev Idx": %(n)d
    }
  },
  {
    "ph": "X", "cat": "privateuse1_runtime", "name": "aiuLaunchControlBlocks", "pid": 4321, "tid": %(tid)d,
    "ts": %(call_ts).3f, "dur": 3.125,
    "args": {
      "External id": %(n)d, "cbid": 13, "correlation": %(n)d, "num_cbs": 1
    }
  },
  {
    "ph": "s", "id": %(n)d, "pid": 4321, "tid": %(tid)d, "ts": %(call_ts).3f,
    "cat": "ac2g", "name": "ac2g"
  },
  {
    "ph": "X", "cat": "kernel", "name": "spyre_kernel_%(op)s_%(rows)d", "pid": 0, "tid": %(stream)d,
    "ts": %(work_ts).3f, "dur": 38.500,
    "args": {
      "External id": %(n)d, "device": 0, "stream": %(stream)d, "correlation": %(n)d, "cycles_ts": [1, 2, 3, 4, 5]
    }
  },
  {
    "ph": "f", "id": %(n)d, "pid": 0, "tid": %(stream)d, "ts": %(work_ts).3f,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }"""
TAIL = """
  ],
  "traceName": "trace.json"
}
"""
OPS = ["mm", "add", "mul", "softmax", "layer_norm", "gelu", "copy_", "transpose"]
START = 5_240_198_230_406.0  # microseconds, as large as Kineto's are


def write_trace(path: pathlib.Path, megabytes: int) -> None:
    """A sound trace of about that size."""
    size, n = 0, 0
    with open(path, "w") as file:
        file.write(HEAD)
        while size < megabytes * 1_000_000:
            n += 1
            ts = START + 10.0 * n
            values: dict[str, Any] = {
                "n": n,
                "op": OPS[n % len(OPS)],
                "rows": 8 * (1 + n % 64),
                "tid": 4322 + n % 2,
                "stream": 1 + n % 4,
                "op_ts": ts,
                "call_ts": ts + 1.5,
                "work_ts": ts + 7.125,
            }
            size += file.write(OP % values)
        file.write(TAIL)


class Typed(msgspec.Struct):
    traceEvents: list[Event]


def seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def timed(path: pathlib.Path, rounds: int) -> tuple[float, float, float, float]:
    """Size in MB; median seconds of msgspec and of the reader; median of their ratios."""
    text = path.read_bytes()
    typed = msgspec.json.Decoder(Typed)
    both = [(seconds(lambda: typed.decode(text)), seconds(lambda: traces.read(text))) for _ in range(rounds)]
    decoded, read = (statistics.median(column) for column in zip(*both))
    return len(text) / 1e6, decoded, read, statistics.median(mine / theirs for theirs, mine in both)


def peak_mb(program: str, path: pathlib.Path) -> float:
    """The peak of a process that runs the program on a trace."""
    told = "import re, sys; print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    command = [sys.executable, "-c", f"import sys; path = sys.argv[1]\n{program}\n{told}", str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


READ = "from kineto_spyre import traces; traces.read(path)"
CHECK = "from kineto_spyre.traces import check; check(path)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=156, help="size of the trace that is timed")
    parser.add_argument(
        "--large-mb", type=int, default=1000, help="size of the trace whose memory is measured; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kineto_spyre_bench_") as folder:
        path = pathlib.Path(folder, "trace.json")
        write_trace(path, options.mb)
        mb, decoded, read, ratio = timed(path, options.rounds)
        checked = statistics.median(seconds(lambda: traces.check(path)) for _ in range(min(3, options.rounds)))
        report = traces.check(path)
        print(f"{mb:.0f} MB, {report['events']:,} events, {'sound' if report['sound'] else 'NOT SOUND'}")
        print(f"  msgspec, typed      {decoded:7.2f} s  {mb / decoded:6.0f} MB/s")
        print(f"  traces.read         {read:7.2f} s  {mb / read:6.0f} MB/s   {ratio:.2f} times msgspec (target 2)")
        print(f"  check               {checked:7.2f} s  {mb / checked:6.0f} MB/s")
        if options.large_mb:
            write_trace(path, options.large_mb)
            size = path.stat().st_size / 1e6
            print(f"{size:,.0f} MB, peak of a process")
            print(f"  traces.read         {peak_mb(READ, path):7.0f} MB  (target 600)")
            print(f"  check               {peak_mb(CHECK, path):7.0f} MB")


if __name__ == "__main__":
    main()
