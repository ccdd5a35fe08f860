"""`kineto-spyre merge` on two emulated ranks of a real run, one of whose clocks is then set 5 ms and 50 ppm apart.

Both ran on one machine, so that the truth is known: the times that the second rank's trace had before. Perfetto's own
parser reads the merged trace.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
from decimal import Decimal

import pytest

SCRIPT = pathlib.Path(__file__).parent / "perfetto.py"
LIBRARY = "/usr/lib/chromium/libtest_trace_processor.so"
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")

RANK = """
import random
import sys
import time
import torch
import torch.distributed as dist
import kineto_spyre
from kineto_spyre import emulator

emulator.enable(devices=2)
dist.init_process_group()
rank = dist.get_rank()
random.seed(rank)
device = torch.device("spyre", rank)
x = torch.ones(64, 64, device=device)
weight = torch.eye(64, device=device)
dist.all_reduce(x)
with kineto_spyre.profile_spyre() as prof:
    for _ in range(150):
        time.sleep(random.expovariate(1 / 0.004))
        x = x @ weight
        dist.all_reduce(x)
prof.export_chrome_trace(sys.argv[1])
dist.destroy_process_group()
"""
OFFSET, RATE = 5_000_000, Decimal("50e-6")  # ns


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The traces of two ranks that ran at the same time."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    clean = {key: value for key, value in os.environ.items() if not key.startswith("KINETO_SPYRE_")}
    clean |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    paths = [folder / f"rank{rank}.json" for rank in range(2)]
    running = [
        subprocess.Popen([sys.executable, "-P", "-c", RANK, str(path)], env=clean | {"RANK": str(rank)})
        for rank, path in enumerate(paths)
    ]
    assert [one.wait(300) for one in running] == [0, 0]
    return paths


def set_apart(path: pathlib.Path, out: pathlib.Path) -> list[tuple[Decimal, Decimal]]:
    """Writes the trace as a clock would have that is apart; returns the true begin and end of each slice, in ns."""
    document = json.loads(path.read_bytes(), parse_float=Decimal)
    times = [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"]
    first, truth = min(times), []

    def shown(time):
        return time + OFFSET / Decimal(1000) + (time - first) * RATE

    for event in document["traceEvents"]:
        if event["ph"] == "X":
            begin, end = event["ts"], event["ts"] + event["dur"]
            truth.append((begin * 1000, end * 1000))
            event["dur"] = shown(end) - shown(begin)
        if event["ph"] != "M" and "ts" in event:
            event["ts"] = shown(event["ts"])
    out.write_text(json.dumps(document, default=lambda number: float(number)))
    return truth


@pytest.fixture(scope="module")
def merged(ranks, tmp_path_factory):
    """What the command printed, the merged trace, and the true times of the second rank's slices."""
    folder = tmp_path_factory.mktemp("merged")
    apart, out = folder / "apart.json", folder / "merged.json"
    truth = set_apart(ranks[1], apart)
    command = [sys.executable, "-P", "-m", "kineto_spyre", "merge", str(ranks[0]), str(apart), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, out, truth


def bases(paths):
    return [json.loads(path.read_bytes())["baseTimeNanoseconds"] for path in paths]


def test_each_slice_is_within_the_error_that_was_stated(ranks, merged):
    said, out, truth = merged
    document = json.loads(out.read_bytes(), parse_float=Decimal)
    one, other = (json.loads(path.read_bytes())["traceEvents"] for path in ranks)
    count, skipped = len(truth), sum(event["ph"] == "X" for event in one)
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert count > 300 and len(slices) == skipped + sum(event["ph"] == "X" for event in other)
    base, own = bases(ranks)
    away = [
        max(abs(event["ts"] * 1000 + base - own - begin), abs((event["ts"] + event["dur"]) * 1000 + base - own - end))
        for event, (begin, end) in zip(slices[skipped:], truth)
    ]
    worst = float(max(away)) / 1000
    stated = float(re.search(r"at most ([\d.,]+) us", said)[1].replace(",", ""))
    # How near it comes depends on what else the machine does; within the bounds it always is. The tests of the line
    # itself (tests/python/traces/test_merge.py) hold the 20 us.
    assert worst <= stated, said
    assert "by 150 collectives" in said
    assert float(re.search(r"its clock was \+([\d.,]+) us", said)[1].replace(",", "")) == pytest.approx(
        5000, abs=stated
    )


def test_perfetto_shows_both_ranks_cards_with_every_kernel_and_arrow(ranks, merged, missing):
    if not os.path.exists(LIBRARY):
        missing("Perfetto's parser is not here (apt-get install chromium-shell)")
    queries = [
        "select p.name, count(*) from slice s join thread_track tt on s.track_id = tt.id join thread using (utid)"
        " join process p using (upid) where s.category = 'kernel' group by 1 order by 1",
        "select count(*) from flow join slice launch on flow.slice_out = launch.id join slice work on flow.slice_in ="
        " work.id where work.category = 'kernel'",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    ]
    command = [sys.executable, "-P", str(SCRIPT), str(merged[1])]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True)
    kernels, arrows, errors = json.loads(done.stdout)
    counts = [sum(e.get("cat") == "kernel" for e in json.loads(path.read_bytes())["traceEvents"]) for path in ranks]
    assert min(counts) >= 150
    assert [int(count) for _, count in kernels[1:]] == counts
    assert [name.split(":")[0] for name, _ in kernels[1:]] == ["rank 0", "rank 1"]
    assert int(arrows[1][0]) == sum(counts)
    assert errors[1:] == []
