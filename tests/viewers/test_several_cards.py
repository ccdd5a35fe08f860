"""Two cards in one process: both are there, under their own names, in each tool."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import screenshot

PROGRAM = """
import sys, torch, kineto_spyre
kineto_spyre.emulator.enable(devices=2)
with kineto_spyre.profile_spyre(profile_memory=True) as prof:
    for card in (0, 1):
        with torch.profiler.record_function("work"):
            x = torch.ones(64, 64, device=f"spyre:{card}")
            for _ in range(3):
                x = torch.mm(x, x) / 64
            x.cpu()
prof.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The trace of a program that works on two cards."""
    path = tmp_path_factory.mktemp("two") / "run" / "two.pt.trace.json"
    path.parent.mkdir()
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


def test_catapult_shows_two_labelled_processes(viewer, two):
    model = viewer.catapult(two)
    cards = [process for process in model["processes"] if "AIU" in str(process["labels"])]
    assert sorted(process["labels"][0] for process in cards) == ["AIU 0", "AIU 1"]
    for process in cards:
        kernels = [
            name for thread in process["threads"] for name in thread["slices"] if name.startswith("spyre_kernel")
        ]
        assert len([name for name in kernels if "_mm_" in name]) == 3
    assert model["warnings"] == []


def test_tensorboard_shows_both_cards(two):
    pytest.importorskip("torch_tb_profiler")
    with screenshot.TensorBoard(two.parent) as board:
        profile = board.profile()
        summary = board.json("overview", **profile)["gpu_metrics"]["data"]
        assert [
            item["title"] for item in summary if item["title"].startswith("GPU ") and item["title"].endswith(":")
        ] == [
            "GPU 0:",
            "GPU 1:",
        ]
        assert [item["value"] for item in summary if item["title"] == "Name"] == ["AIU", "AIU"]
        curve = board.json("memory_curve", **profile)
        assert {"GPU0", "GPU1"} <= set(curve["metadata"]["devices"])


def test_acelyzer_takes_it(readers, two, tmp_path):
    command = [str(readers.parent / "acelyzer"), "-i", str(two), "--tb", "--keep_names", "-o", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "out.pt.trace.json").read_bytes())["traceEvents"]
    assert {event["pid"] for event in kept if event.get("cat") == "kernel"} == {0, 1}
