"""acelyzer (aiu-trace-analyzer), IBM's own analyser of Spyre traces."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def acelyzer(readers, tmp_path, trace_path):
    """Runs acelyzer on the trace, in a folder of its own."""

    def run(*arguments):
        command = [str(readers.parent / "acelyzer"), "-i", str(trace_path), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("arguments", [["--tb", "--keep_names"], ["-o", "out.json"]], ids=["torch_minimal", "default"])
def test_it_takes_the_trace(acelyzer, tmp_path, trace, arguments):
    done = acelyzer(*arguments, *([] if "-o" in arguments else ["-o", "out.json"]))
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in output and "ERROR" not in output, output[-2000:]
    written = next(path for name in ("out.pt.trace.json", "out.json") if (path := tmp_path / name).exists())
    kept = [e for e in json.loads(written.read_bytes())["traceEvents"] if e.get("cat") == "kernel" and e["ph"] == "X"]
    assert len(kept) == len(trace.kernels)


def test_its_verification_passes(acelyzer, tmp_path):
    done = acelyzer("-V")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert report["result"] == "PASS" and report["errors"] == []
    assert next(test for test in report["test_results"] if test["test"] == "Compute Overlap Check")["result"] == "pass"
    # A kernel's parent is aiuLaunchScheduleCompute or aiuScheduleWait to it; an eager program's kernels have others.
    assert {finding["finding"] for finding in report["warnings"]} <= {"orphan_kernels"}


PROGRAM = """
import sys, torch, kineto_spyre
from torch.profiler import record_function, schedule
kineto_spyre.emulator.enable()
weight = torch.ones(64, 64, device="spyre", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)  # its step is a range within the profiler's
streams = [torch.Stream("spyre:0") for _ in range(3)]
with kineto_spyre.profile_spyre(schedule=schedule(wait=0, warmup=1, active=3, repeat=1)) as prof:
    for _ in range(4):
        with record_function("outer"), record_function("inner"):
            (weight @ weight).sum().backward()
        optimizer.step()
        for stream in streams:
            with stream, record_function("on a stream"):
                torch.ones(64, 64, device="spyre") @ torch.ones(64, 64, device="spyre")
        torch.accelerator.synchronize()
        prof.step()
prof.export_chrome_trace(sys.argv[1])
"""


def test_its_verification_passes_where_ranges_nest_and_streams_run_side_by_side(readers, tmp_path):
    subprocess.run([sys.executable, "-P", "-c", PROGRAM, "trace.json"], cwd=tmp_path, check=True)
    trace = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    ranges = [event for event in trace if event.get("cat") == "gpu_user_annotation"]
    assert {"ProfilerStep#1", "Optimizer.step#SGD.step", "outer", "inner"} <= {event["name"] for event in ranges}
    assert len({(event["pid"], event["tid"]) for event in ranges}) >= 4
    command = [str(readers.parent / "acelyzer"), "-i", "trace.json", "-V"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "report.json").read_bytes())["errors"] == []


def test_analyze_folds_its_findings_into_the_report(readers, tmp_path, trace_path, trace):
    command = [sys.executable, "-P", "-m", "kineto_spyre", "analyze", str(trace_path), "--json"]
    command += ["--acelyzer", str(readers.parent / "acelyzer"), "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["acelyzer"]
    assert found["problem"] is None and found["result"] == "PASS" and found["errors"] == []
    assert found["classes"]["COMPUTE_EXEC"]["count"] == len(trace.kernels)
    assert found["classes"]["COMPUTE_EXEC"]["duration"] == sum(round(one["dur"] * 1000) for one in trace.kernels)
    assert found["counters"] and all(name not in {e["name"] for e in trace.events} for name in found["counters"])
    kept = json.loads((tmp_path / "kept" / "refined.pt.trace.json").read_bytes())["traceEvents"]
    assert {e["name"] for e in kept if e.get("cat") == "kernel"} == {one["name"] for one in trace.kernels}
