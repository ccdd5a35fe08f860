"""HolisticTraceAnalysis: its breakdowns equal sums over the trace."""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
from collections import defaultdict

import pytest

SCRIPT = pathlib.Path(__file__).parent / "hta_breakdowns.py"
RESOLUTION = 0.002  # microseconds: HTA holds times as doubles since the trace's base, good for a nanosecond


@pytest.fixture(scope="module")
def hta(readers, trace_path, tmp_path_factory):
    out = tmp_path_factory.mktemp("hta") / "out.json"
    command = [str(readers), str(SCRIPT), str(trace_path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_bytes())


def near(microseconds, events):
    return pytest.approx(microseconds, abs=RESOLUTION * (len(events) + 1))


def united(events):
    """Microseconds in which at least one of them runs."""
    total, until = 0.0, -math.inf
    for event in sorted(events, key=lambda event: event["ts"]):
        end = event["ts"] + event["dur"]
        total += max(0.0, end - max(event["ts"], until))
        until = max(until, end)
    return total


def test_it_sees_every_step(hta, trace):
    assert hta["steps"] == sorted(int(step["name"].split("#")[1]) for step in trace.steps)


def test_temporal_breakdown(hta, trace):
    temporal, work = hta["temporal"], trace.work
    span = max(e["ts"] + e["dur"] for e in work) - min(e["ts"] for e in work)
    busy, computing = united(work), united(trace.kernels)
    assert temporal["kernel_time(us)"] == near(span, work)
    assert temporal["idle_time(us)"] == near(span - busy, work)
    assert temporal["compute_time(us)"] == near(computing, work)
    assert temporal["non_compute_time(us)"] == near(busy - computing, work)


def test_kernel_breakdown(hta, trace):
    expected = trace.by_name(trace.work)
    shown = {row["name"]: row for row in hta["kernels"]}
    assert shown.keys() == expected.keys()
    for name, (count, microseconds) in expected.items():
        assert shown[name]["sum (us)"] == near(microseconds, range(count))
        assert shown[name]["mean (us)"] == near(microseconds / count, [])
        durations = [event["dur"] for event in trace.work if event["name"] == name]
        assert shown[name]["max (us)"] == near(max(durations), [])
        assert shown[name]["min (us)"] == near(min(durations), [])


def test_idle_breakdown(hta, trace):
    """For each stream the gaps between neighbours; host wait where the next launch came after the last work ended."""
    launches = {
        event["args"]["correlation"]: event["ts"]
        for event in trace.of("privateuse1_runtime")
        if "correlation" in event["args"]
    }
    streams = defaultdict(list)
    for event in trace.work:
        streams[event["args"]["stream"]].append(event)
    shown = defaultdict(dict)
    for row in hta["idle"]:
        shown[row["stream"]][row["idle_category"]] = row["idle_time"]
    assert shown.keys() == streams.keys()
    for stream, events in streams.items():
        events.sort(key=lambda event: event["ts"])
        waits = {"host_wait": 0.0, "kernel_wait": 0.0, "other": 0.0}
        for before, after in zip(events, events[1:]):
            end = before["ts"] + before["dur"]
            gap = after["ts"] - end
            late = launches[after["args"]["correlation"]] > end
            waits["host_wait" if late else "kernel_wait" if gap < 0.030 * 1000 else "other"] += gap
        assert sum(shown[stream].values()) == near(sum(waits.values()), events)
        assert shown[stream].get("host_wait", 0) == near(waits["host_wait"], events)


def test_overlap_breakdown_has_no_communication_to_hide(hta):
    (row,) = hta["overlap"]
    assert row["rank"] == 0 and math.isnan(row["comp_comm_overlap_pctg"])


def test_memory_bandwidth_breakdown(hta, trace):
    expected = defaultdict(list)
    for event in trace.of("gpu_memcpy", "gpu_memset"):
        if "memory bandwidth (GB/s)" in event["args"]:
            # HTA groups by the first letters of the name.
            expected["Memset" if event["name"].startswith("Memset") else event["name"][:11]].append(event)
    shown = {name: row for name, row in hta["bandwidth"].items() if name in expected}
    assert shown.keys() == expected.keys() and shown
    for name, events in expected.items():
        values = [event["args"]["memory bandwidth (GB/s)"] for event in events]
        # Its time series adds up copies that run at once; where none do, the largest value is a copy's own.
        assert shown[name]["max"] >= max(values) * (1 - 1e-6)
        assert shown[name]["min"] > 0
        if united(events) == near(sum(event["dur"] for event in events), events):
            assert shown[name]["max"] == pytest.approx(max(values), rel=1e-6)
