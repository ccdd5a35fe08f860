"""catapult: the code of chrome://tracing, alone, without TensorBoard and without internet."""

from __future__ import annotations

from collections import Counter


def test_it_imports_every_slice_on_a_named_row_with_no_warning(viewer, trace, trace_path):
    model = viewer.catapult(trace_path)
    assert model["warnings"] == [] and viewer.errors == [] and viewer.refused == []
    drawn = [*trace.slices, *(event for event in trace.events if event["ph"] == "i" and event["s"] == "t")]
    rows = Counter((event["pid"], event["tid"]) for event in drawn if isinstance(event["pid"], int))
    shown = {
        (process["pid"], thread["tid"]): len(thread["slices"])
        for process in model["processes"]
        for thread in process["threads"]
    }
    assert {row: shown.get(row) for row in rows} == rows
    devices = {event["pid"] for event in trace.work}
    for process in model["processes"]:
        if process["pid"] in devices:
            assert process["labels"] == [f"AIU {process['pid']}"]
            assert all(thread["name"] for thread in process["threads"])


def test_every_arrow_finds_both_its_ends(viewer, trace, trace_path):
    model = viewer.catapult(trace_path)
    starts = {(event["name"], event["id"]) for event in trace.events if event["ph"] == "s"}
    ends = [(event["name"], event["id"]) for event in trace.events if event["ph"] == "f"]
    assert model["flows"] == sum(end in starts for end in ends) == len(ends)
