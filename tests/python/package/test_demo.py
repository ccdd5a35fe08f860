"""The main job: `kineto-spyre demo`, and what its trace must hold."""

from __future__ import annotations

import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys

import pytest

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def demo(folder: pathlib.Path, *options: str) -> tuple[str, dict]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kineto_spyre", "demo", "--out", folder, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (trace,) = folder.glob("*.pt.trace.json*")
    text = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    return done.stdout, json.loads(text)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return demo(tmp_path_factory.mktemp("demo"), "--steps", "3", "--rows", "100")


def device_work(trace):
    return [e for e in trace["traceEvents"] if e.get("cat") in DEVICE_WORK]


def test_the_results_equal_the_cpus(decoder):
    printed, _ = decoder
    assert "The logits equal the CPU's bit for bit, with and without the profiler (52,224 values a device)." in printed


def test_the_table_gives_ops_their_device_time(decoder):
    printed, _ = decoder
    assert "Self SPYRE" in printed
    row = re.search(r"^\s*aten::(?:mm|addmm) .*$", printed, re.MULTILINE)
    assert row, printed
    cells = row.group().split()
    # Name, six columns of the CPU's, then Self SPYRE, its share, SPYRE total.
    total = next(c for c in reversed(cells[:-2]) if c.endswith(("us", "ms")))
    assert float(re.sub("[a-z]+$", "", total)) > 0


def test_the_counts_are_printed_and_agree_with_the_trace(decoder):
    printed, trace = decoder
    kernels = sum(e["cat"] == "kernel" for e in device_work(trace))
    assert kernels > 100
    assert f"Captured: {kernels} kernel, " in printed or f" {kernels} kernel" in printed
    assert "Invalid: none.  Dropped: none." in printed


def test_device_work_is_on_the_row_of_its_card(decoder):
    _, trace = decoder
    labels = {
        e["pid"]: e["args"]["labels"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_labels"
    }
    assert {labels[e["pid"]] for e in device_work(trace)} == {"AIU 0"}
    (properties,) = trace["deviceProperties"]
    assert properties["type"] == "AIU"


def test_each_piece_of_device_work_has_one_launch_before_it_and_an_arrow(decoder):
    _, trace = decoder
    launches = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e.get("cat") == "privateuse1_runtime" and "correlation" in e["args"]:  # calls that launch nothing have none
            launches[e["args"]["correlation"]].append(e)
    begins = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s" and e.get("cat") == "ac2g"}
    ends = {(e["id"], e["pid"], e["tid"], e["ts"]) for e in trace["traceEvents"] if e["ph"] == "f"}
    for e in device_work(trace):
        (launch,) = launches[e["args"]["correlation"]]
        assert launch["ts"] <= e["ts"]
        assert launch["args"].get("External id") == e["args"].get("External id")
        assert begins[e["args"]["correlation"]]["ts"] == launch["ts"]
        assert (e["args"]["correlation"], e["pid"], e["tid"], e["ts"]) in ends


def test_nothing_overlaps_on_a_row(decoder):
    _, trace = decoder
    rows = collections.defaultdict(list)
    for e in device_work(trace):
        rows[e["pid"], e["tid"]].append((round(e["ts"] * 1000), round(e["dur"] * 1000), e["args"]["stream"]))
    assert rows
    for row in rows.values():
        row.sort()
        assert len({stream for _, _, stream in row}) == 1
        assert min(stream for _, _, stream in row) >= 1
        for (start, duration, _), (following, _, _) in zip(row, row[1:]):
            assert start + duration <= following


def test_our_own_check_finds_no_fault(decoder, tmp_path):
    _, trace = decoder
    file = tmp_path / "demo.pt.trace.json"
    file.write_text(json.dumps(trace))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kineto_spyre", "check", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_self_spyre_adds_up_to_the_nanosecond(run_python, tmp_path):
    done = run_python(
        """
        import json, sys
        import torch
        from torch.autograd import DeviceType
        import kineto_spyre
        from kineto_spyre._workloads import Decoder
        kineto_spyre.emulator.enable()
        decoder = Decoder(prompt=16, layers=2)
        list(decoder.run("spyre", 1))
        with kineto_spyre.profile_spyre() as prof:
            list(decoder.run("spyre", 2))
        prof.export_chrome_trace(sys.argv[1])
        rows = [e for e in prof.key_averages() if e.device_type == DeviceType.CPU]
        print(json.dumps(dict(
            self_ns=round(sum(e.self_device_time_total for e in rows) * 1000),
            mm=sum(e.device_time_total for e in rows if e.key in ("aten::mm", "aten::addmm")),
            kernels=sum(len(e.kernels) for e in prof.events()),
        )))
        """,
        str(tmp_path / "trace.json"),
        env={"KINETO_LOG_LEVEL": "6"},
    )
    table = json.loads(done.stdout)
    trace = json.loads((tmp_path / "trace.json").read_text())
    ops = {e["args"]["External id"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"}
    linked = [e for e in device_work(trace) if e["args"].get("External id") in ops]
    assert len(linked) > 50
    assert table["self_ns"] == sum(round(e["dur"] * 1000) for e in linked)
    assert table["mm"] > 0
    assert table["kernels"] == len(linked)


def test_training_equals_the_cpus(tmp_path):
    printed, trace = demo(tmp_path, "--train", "--steps", "2")
    assert "The losses equal the CPU's bit for bit, with and without the profiler (3 values a device)." in printed
    assert any("convolution" in e["name"] for e in device_work(trace))


def test_two_cards(tmp_path):
    printed, trace = demo(tmp_path, "--train", "--steps", "1", "--devices", "2")
    assert "bit for bit" in printed
    labels = {e["args"]["labels"] for e in trace["traceEvents"] if e["name"] == "process_labels"}
    assert {"AIU 0", "AIU 1"} <= labels
    assert len({e["pid"] for e in device_work(trace)}) == 2
