"""`kineto-spyre export --xplane`: XProf's own reader finds every slice, by plane and line, with its times and stats."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("xprof", reason="XProf is not installed (pip install xprof)")
SCRIPT = pathlib.Path(__file__).parent / "xprof_events.py"


@pytest.fixture(scope="module")
def shown(trace_path, tmp_path_factory):
    """What XProf's trace viewer is sent: names of processes and threads, and the slices."""
    folder = tmp_path_factory.mktemp("xplane")
    path, out = folder / "demo.xplane.pb", folder / "out.json"
    command = [sys.executable, "-P", "-m", "kineto_spyre", "export", str(trace_path), "--xplane", "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([sys.executable, "-P", str(SCRIPT), str(path), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [event for event in json.loads(out.read_bytes())["traceEvents"] if event]


def names(shown, kind):
    return {(event["pid"], event.get("tid")): event["args"]["name"] for event in shown if event["name"] == kind}


def since_the_first(events):
    """Begin and duration in ns, in the order of time."""
    first = min(event["ts"] for event in events)
    return sorted((round((event["ts"] - first) * 1000), round(event["dur"] * 1000)) for event in events)


def test_the_cards_plane_has_every_piece_of_work_on_its_track_with_its_time(shown, trace):
    processes, threads = names(shown, "process_name"), names(shown, "thread_name")
    (aiu,) = (pid for (pid, _), name in processes.items() if name == "/device:CUSTOM:AIU 0")
    called = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events if e["name"] == "thread_name"}
    expected = Counter((called[event["pid"], event["tid"]], event["name"]) for event in trace.work)
    found = [event for event in shown if event["ph"] == "X" and event["pid"] == aiu]
    assert (
        Counter((threads[aiu, e["tid"]], e["name"]) for e in found if e["args"]["category"] != "gpu_user_annotation")
        == expected
    )
    kernels = [event for event in found if event["args"]["category"] == "kernel"]
    for (begin, duration), (true_begin, true_duration) in zip(since_the_first(kernels), since_the_first(trace.kernels)):
        # XProf sends microseconds since long ago, as a float: good for a nanosecond.
        assert abs(begin - true_begin) <= 1 and abs(duration - true_duration) <= 1
    assert {int(e["args"]["correlation"]) for e in kernels} == {e["args"]["correlation"] for e in trace.kernels}


def test_the_hosts_slices_are_in_one_plane(shown, trace):
    processes = names(shown, "process_name")
    (host,) = (pid for (pid, _), name in processes.items() if name == "/host:CPU")
    device = {event["pid"] for event in trace.work}
    expected = Counter(event["name"] for event in trace.slices if event["pid"] not in device)
    assert Counter(event["name"] for event in shown if event["ph"] == "X" and event["pid"] == host) == expected
