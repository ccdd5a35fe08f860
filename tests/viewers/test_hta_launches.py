"""`kineto-spyre export --cuda-names`: HTA's launch statistics and queue lengths work, and equal the trace's; without
the names they find nothing. Its critical path of a step is found. TraceLens, by its rule: every launch is a
cuda_runtime call with its work's correlation."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections import defaultdict

import pytest

SCRIPT = pathlib.Path(__file__).parent / "hta_launches.py"


@pytest.fixture(scope="module")
def renamed(trace_path, tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "trace.cuda.json"
    command = [sys.executable, "-P", "-m", "kineto_spyre", "export", str(trace_path), "--cuda-names", "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return path


@pytest.fixture(scope="module")
def hta(readers, renamed, tmp_path_factory):
    out = tmp_path_factory.mktemp("hta") / "out.json"
    command = [str(readers), str(SCRIPT), str(renamed), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_bytes())


def launches(trace):
    """By correlation id, the call and the work, of work that the steps' calls launched."""
    calls = {event["args"]["correlation"]: event for event in trace.of("privateuse1_runtime", "privateuse1_driver")
             if "correlation" in event["args"]}  # fmt: skip
    return {work["args"]["correlation"]: (calls[work["args"]["correlation"]], work) for work in trace.work}


def test_launch_statistics_are_the_traces(hta, trace):
    expected = launches(trace)
    shown = {int(row["correlation"]): row for row in hta["launches"]}
    assert shown.keys() == expected.keys()
    for correlation, (call, work) in expected.items():
        row = shown[correlation]
        assert row["cpu_duration"] == pytest.approx(call["dur"], abs=0.002)
        assert row["gpu_duration"] == pytest.approx(work["dur"], abs=0.002)
        delay = max(0.0, work["ts"] - call["ts"] - call["dur"])
        assert row["launch_delay"] == pytest.approx(delay, abs=0.004)


def test_queue_lengths_are_of_every_stream_and_end_empty(hta, trace):
    streams = defaultdict(list)
    for row in hta["queues"]:
        streams[int(row["stream"])].append(row["queue_length"])
    assert streams.keys() == {event["args"]["stream"] for event in trace.work}
    for lengths in streams.values():
        assert lengths[-1] == 0
        assert max(lengths) >= 1


def test_the_critical_path_of_the_second_step_is_found(hta, trace):
    step = sorted(trace.steps, key=lambda event: event["ts"])[1]
    assert hta["critical_path"]["found"]
    assert 0 < hta["critical_path"]["us"] <= 1.01 * step["dur"]  # what is between ops is on no path
    assert "cpu_bound" in hta["critical_path"]["bound_by"]


def test_by_tracelens_rule_each_piece_of_work_has_its_cuda_runtime_call(renamed, trace):
    events = json.loads(renamed.read_bytes())["traceEvents"]
    calls = [event["args"]["correlation"] for event in events
             if event.get("cat") == "cuda_runtime" and "correlation" in event["args"]]  # fmt: skip
    assert {event["args"]["correlation"] for event in trace.work} <= set(calls)
    assert len(calls) == len(set(calls))
    assert not [event for event in events if str(event.get("cat")).startswith("privateuse1")]


def test_the_report_of_analyze_holds_what_hta_found(trace_path, readers, trace):
    command = [sys.executable, "-P", "-m", "kineto_spyre", "analyze", str(trace_path), "--json"]
    command += ["--acelyzer", str(readers.parent / "acelyzer"), "--hta", str(readers)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)["hta"]
    longest = max(trace.steps, key=lambda event: event["dur"])
    assert found["problem"] is None and found["critical_path"]["step"] == longest["name"]
    assert found["time"]["compute"] == pytest.approx(sum(event["dur"] for event in trace.kernels), rel=1e-3)
    assert found["launches"]["count"] == len(trace.work)
