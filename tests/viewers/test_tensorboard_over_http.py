"""torch-tb-profiler's own figures against sums over the trace; with and without what kineto-spyre puts right in it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import screenshot


@pytest.fixture(scope="module")
def stock(log_directory):
    """TensorBoard without kineto-spyre's entry point."""
    pytest.importorskip("torch_tb_profiler")
    with screenshot.TensorBoard(log_directory, stock=True) as board:
        yield board


@pytest.fixture(params=["stock", "with kineto-spyre"])
def board(request):
    return request.getfixturevalue("stock" if request.param == "stock" else "tensorboard")


@pytest.fixture
def profile(board):
    return board.profile()


def test_the_views_that_a_device_opens_are_offered(board, profile):
    assert {"Overview", "Operator", "Kernel", "Trace"} <= set(board.json("views", run=profile["run"]))


def test_overview_counts_the_steps_once(tensorboard, trace):
    rows = tensorboard.json("overview", **tensorboard.profile())["steps"]["rows"]
    # It may leave out the last step, whose kernels it supposes to be incomplete.
    assert [row[0] for row in rows] == [step["name"].split("#")[1] for step in trace.steps][: len(rows)]
    assert len(rows) >= len(trace.steps) - 1


def test_overview_knows_the_card(board, profile, trace):
    overview = board.json("overview", **profile)
    summary = {item["title"]: item["value"] for item in overview["gpu_metrics"]["data"]}
    assert summary["Name"] == trace.document["deviceProperties"][0]["name"]
    assert float(summary["GPU Utilization"].split()[0]) > 0


def test_kernel_view_has_every_kernel_with_its_count_and_time(board, profile, trace):
    table = board.json("kernel/table", group_by="Kernel", **profile)["data"]
    columns = [column["name"] for column in table["columns"]]
    shown = {
        row[columns.index("Name")]: (row[columns.index("Calls")], row[columns.index("Total Duration (us)")])
        for row in table["rows"]
    }
    expected = trace.by_name(trace.kernels)
    assert shown.keys() == expected.keys()
    for name, (count, microseconds) in expected.items():
        assert shown[name][0] == count
        assert shown[name][1] == pytest.approx(microseconds, abs=1)  # shown rounded


def test_trace_view_gets_every_event_and_valid_json(board, profile, trace):
    status, body = board.get("trace", **profile)
    document = json.loads(body)
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert status == 200 and len(slices) == len(trace.slices)
    counters = {event["name"] for event in document["traceEvents"] if event["ph"] == "C"}
    assert "GPU 0 Utilization" in counters


def test_operator_view_shows_device_time(tensorboard, trace):
    rows = tensorboard.json("operation/table", group_by="Operation", **tensorboard.profile())["data"]
    shown = {row["name"]: (row["calls"], row["device_self_duration"]) for row in rows}
    names = {event["args"]["External id"]: event["name"] for event in trace.of("cpu_op")}
    calls = Counter(names.values())
    launched = Counter()
    for event in trace.work:
        launched[names.get(event["args"].get("External id"))] += event["dur"]
    # The plugin leaves some ops out of its tree, whatever the device; of those that it has whole, the time is right.
    whole = [name for name, microseconds in launched.items() if name in shown and shown[name][0] == calls[name]]
    assert len(whole) > len(launched) / 2
    for name in whole:
        assert shown[name][1] == pytest.approx(launched[name], abs=1)  # shown rounded


def test_memory_view_answers_with_the_devices_curve(tensorboard, trace):
    memory = [event for event in trace.events if event["name"] == "[memory]"]
    assert any(event["args"]["Device Type"] == 20 for event in memory)
    profile = tensorboard.profile()
    curve = tensorboard.json("memory_curve", **profile)
    cards = {f"GPU{event['args']['Device Id']}" for event in memory if event["args"]["Device Type"] == 20}
    assert {"CPU"} | cards == set(curve["metadata"]["devices"]) and curve["rows"]["GPU0"]
    card = [e["args"] for e in memory if (e["args"]["Device Type"], e["args"]["Device Id"]) == (20, 0)]
    peak = max(args["Total Allocated"] for args in card)
    factor = curve["metadata"]["memory_factor"]
    assert max(point[1] for point in curve["rows"]["GPU0"]) == pytest.approx(peak * factor, rel=1e-6)
    assert tensorboard.json("memory", **profile)["rows"]["GPU0"]
    assert tensorboard.json("memory_events", **profile)["rows"]["GPU0"]
