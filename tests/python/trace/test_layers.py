"""Layers join a trace when it is exported, each alone."""

from __future__ import annotations

import gzip
import json
import time

import pytest
import torch

import kineto_spyre
from kineto_spyre import profiler, traces
from kineto_spyre.profiler._layers import Additions, Counter, Layers, in_microseconds, named
from kineto_spyre.profiler._trace_file import TraceFile


class Counting:
    """A layer that counts its calls, and hands over one counter of when it was started."""

    name = "counting"

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[str] = []
        self.fails_in = fails_in
        self.time = 0

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if what == self.fails_in:
            raise ValueError("no\nroom.")

    def start(self) -> None:
        self.time = time.time_ns()
        self._called("start")

    def stop(self) -> None:
        self._called("stop")

    def additions(self, trace: TraceFile) -> Additions:
        self._called("additions")
        event = {"ph": "C", "name": "count", "pid": 0, "time_ns": self.time, "args": {"n": 7}}
        return Additions([event], {"n": 7})


class Other(Counting):
    name = "other"


def recorded(path, *layers, metadata=None):
    x = torch.ones(4).to("spyre")
    with profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1], layers=layers
    ) as prof:
        x + x
    for key, value in (metadata or {}).items():
        prof.add_metadata(key, value)
    prof.export_chrome_trace(str(path))
    return prof


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_layers_events_and_metadata_are_in_the_file(tmp_path, name) -> None:
    layer = Counting()
    path = tmp_path / name
    recorded(path, layer, metadata={"mine": 'a "b" \\ c'})
    assert layer.calls == ["start", "stop", "additions"]
    text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    trace = json.loads(text)
    assert trace["kineto_spyre_layers"] == {"counting": {"n": 7}}
    assert trace["mine"] == 'a "b" \\ c'
    (counter,) = [one for one in trace["traceEvents"] if one["name"] == "count"]
    assert counter["args"] == {"n": 7}
    # the file's microseconds and the layer's nanoseconds are one time
    assert round(counter["ts"] * 1000) + trace["baseTimeNanoseconds"] == layer.time
    assert kineto_spyre.last_session().complete
    read = traces.read(path)
    assert [read.names[i] for i in read.counters["name"]] == ["count"] and not read.odd
    assert [round(one) for one in read.counters["value"]] == [7]


@pytest.mark.parametrize("where", ["start", "stop", "additions"])
def test_a_layer_that_fails_leaves_the_rest_whole_and_says_so(tmp_path, where) -> None:
    bad, good = Counting(fails_in=where), Other()
    path = tmp_path / "trace.json"
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match=r"The layer counting failed \(ValueError: no room\)"):
        recorded(path, bad, good)
    trace = json.loads(path.read_text())
    (diagnostic,) = trace["kineto_spyre_layers"]["diagnostics"]
    assert diagnostic["code"] == "layer_failed" and diagnostic["details"]["layer"] == "counting"
    assert trace["kineto_spyre_layers"]["other"] == {"n": 7}
    assert len([one for one in trace["traceEvents"] if one["name"] == "count"]) == 1
    assert [one for one in trace["traceEvents"] if one.get("cat") == "kernel"]
    session = kineto_spyre.last_session()
    assert not session.complete and [one.code for one in session.diagnostics] == ["layer_failed"]
    (finding,) = [one for one in traces.check(path)["findings"] if one.get("code") == "layer_failed"]
    assert finding["count"] == 1 and "counting" in finding["what"]


def test_the_next_recording_without_layers_is_complete(tmp_path) -> None:
    with pytest.warns(kineto_spyre.SpyreProfilerWarning):
        recorded(tmp_path / "a.json", Counting(fails_in="stop"))
    recorded(tmp_path / "b.json")
    assert kineto_spyre.last_session().complete
    assert "kineto_spyre_layers" not in json.loads((tmp_path / "b.json").read_text())
    with pytest.warns(kineto_spyre.SpyreProfilerWarning):
        recorded(tmp_path / "a.json", Counting(fails_in="stop"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]):
        torch.ones(4).to("spyre")
    assert kineto_spyre.last_session().complete


def test_an_event_that_is_no_json_fails_its_own_layer() -> None:
    (line,) = in_microseconds([{"time_ns": 5_250, "duration_ns": 1_500, "name": "x"}], 5_000)
    assert json.loads(line) == {"name": "x", "ts": 0.25, "dur": 1.5}
    with pytest.raises(ValueError, match="JSON"):
        in_microseconds([{"args": {"n": float("nan")}}], 0)


def test_a_counter_is_written_as_its_events_would_be() -> None:
    counter = Counter('held "now"', 1, [5_250, 7_000], {"a": [1, 2], "b": [0.5, 4.0]})
    events = [
        {"ph": "C", "name": 'held "now"', "pid": 1, "time_ns": time_ns, "args": {"a": a, "b": b}}
        for time_ns, a, b in zip([5_250, 7_000], [1, 2], [0.5, 4.0])
    ]
    assert [*map(json.loads, in_microseconds([counter], 5_000))] == [*map(json.loads, in_microseconds(events, 5_000))]
    for wrong in ({"a": [1.0, float("inf")]}, {"a": [1]}):
        with pytest.raises(ValueError):
            in_microseconds([counter._replace(series=wrong)], 0)


def test_a_layer_that_can_not_be_made_is_said_at_export(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(kineto_spyre.profiler._layers._MODULES, "memory", ("kineto_spyre.there_is_none",))
    layers = Layers(named("memory"))
    layers.start()
    layers.stop()
    path = tmp_path / "trace.json"
    path.write_text('{"baseTimeNanoseconds": 5, "traceEvents": []}')
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="The layer memory failed"):
        assert layers.additions(TraceFile(str(path)))[0] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"traceEvents": []}', {"k": [1], "traceEvents": [{"ph": "C"}]}),
        ('\n {"a": 1, "traceEvents" : [\n {"ph": "X"}], "b": 2}',
         {"k": [1], "a": 1, "traceEvents": [{"ph": "C"}, {"ph": "X"}], "b": 2}),
    ],
)  # fmt: skip
def test_events_are_put_before_those_of_the_file(tmp_path, before, after) -> None:
    path = tmp_path / "trace.json"
    path.write_text(before)
    TraceFile(str(path)).add({"k": [1]}, ['{"ph": "C"}'])
    assert json.loads(path.read_text()) == after
    assert [one.name for one in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', ""])
def test_a_file_that_is_no_trace_is_refused_and_stays(tmp_path, text) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"trace\.json"):
        TraceFile(str(path)).add({}, ['{"ph": "C"}'])
    assert path.read_text() == text and len(list(tmp_path.iterdir())) == 1
