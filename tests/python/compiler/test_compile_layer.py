"""torch.compile's phases, a recompile and a graph break that were provoked on purpose, on the timeline."""

from __future__ import annotations

import json
import logging

import pytest
import torch

import kineto_spyre
from kineto_spyre import traces

pytestmark = pytest.mark.usefixtures("clean_device")


@pytest.fixture
def events(tmp_path):
    def run(work, **kwargs):
        torch._dynamo.reset()
        with kineto_spyre.profile_spyre(**kwargs) as prof:
            work()
        path = tmp_path / "trace.json"
        prof.export_chrome_trace(str(path))
        findings = [one for one in traces.check(path)["findings"] if one["count"]]
        for finding in findings:  # PyTorch's own ranges of a compilation may overlap, with the layer and without it
            assert finding["rule"] == "track-overlap" and finding["first"]["overlaps"] == "PythonDispatchMode"
        trace = json.loads(path.read_text())
        return [one for one in trace["traceEvents"] if one.get("cat") == "compile"], trace

    return run


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()  # the line that the trace must name
    return y * 2


def line_of(text: str) -> int:
    return 1 + [text in line for line in open(__file__, encoding="utf-8")].index(True)


def test_phases_recompile_and_graph_break(events) -> None:
    function = torch.compile(broken, backend="aot_eager", dynamic=False)
    wide, narrow = torch.ones(4, device="spyre"), torch.ones(4, device="spyre", dtype=torch.float16)

    def work() -> None:
        assert function(wide).tolist() == [4.0] * 4
        assert function(narrow).tolist() == [4.0] * 4

    found, trace = events(work, compile=True)
    phases = [one for one in found if one["ph"] == "X"]
    names = {one["name"] for one in phases}
    assert {"entire_frame_compile", "bytecode_tracing", "backend_compile", "create_aot_dispatcher_function"} <= names
    recompiles = [one["args"]["reason"] for one in found if one["name"] == "recompile"]
    assert recompiles and all("dtype mismatch. expected Float, actual Half" in one for one in recompiles)
    breaks = [one for one in found if one["name"] == "graph break"]
    assert len(breaks) == 2  # in the first compilation and in the second
    for one in breaks:
        assert one["args"]["file"] == __file__
        assert one["args"]["line"] == line_of("the line that the trace must name")
        assert "break" in one["args"]["reason"].lower()
    said = trace["kineto_spyre_layers"]["compile"]
    assert said["phases"] == len(phases) and said["caches"] == {}
    assert [one["reason"] for one in said["recompiles"]] == recompiles
    assert [(one["file"], one["line"]) for one in said["graph_breaks"]] == [(__file__, breaks[0]["args"]["line"])] * 2
    frames = [one for one in phases if one["name"] == "entire_frame_compile"]
    assert said["compilations"] == len(frames)
    assert said["duration_ns"] == pytest.approx(sum(one["dur"] for one in frames) * 1000)
    (track,) = {(one["pid"], one["tid"]) for one in found}
    named = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"
    }
    assert named[track] == "compile"


def test_phases_nest_and_lie_in_the_recording(events) -> None:
    function = torch.compile(lambda x: x * 3, backend="aot_eager")
    found, trace = events(lambda: function(torch.ones(3, device="spyre")), compile=True)
    window = trace["kineto_spyre"]["window_begin_ns"], trace["kineto_spyre"]["window_end_ns"]
    base = trace["baseTimeNanoseconds"]
    open_until: list[int] = []
    phases = [one for one in found if one["ph"] == "X"]
    for one in sorted(phases, key=lambda one: (one["ts"], -one["dur"])):
        begin = base + round(one["ts"] * 1000)
        end = begin + round(one["dur"] * 1000)
        assert window[0] - 1000 <= begin <= end <= window[1] + 1000
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)
    assert phases


def test_off_nobody_listens_and_on_nobody_stays(events) -> None:
    from torch._logging._internal import trace_log

    before = [type(one) for one in trace_log.handlers]
    during: list[list[type[logging.Handler]]] = []
    for kwargs in ({}, {"compile": True}):
        events(lambda: during.append([type(one) for one in trace_log.handlers]), **kwargs)
    assert during[0] == before and len(during[1]) == len(before) + 1
    assert [type(one) for one in trace_log.handlers] == before


def test_no_compilation_gives_no_track(events) -> None:
    found, trace = events(lambda: torch.ones(3, device="spyre") + 1, compile=True)
    assert found == []
    assert not any(trace["kineto_spyre_layers"]["compile"].values())


def test_looks_into_the_compile_caches(events, tmp_path, monkeypatch) -> None:
    """Of Inductor, for the CPU: a product alone needs no C++ compiler."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    x = torch.ones(4, 4)
    seen = []
    for _ in range(2):
        found, trace = events(lambda: torch.compile(lambda x: torch.mm(x, x))(x), compile=True)
        looks = [one for one in found if one["ph"] == "i"]
        seen.append([one["name"] for one in looks])
        assert all(one["args"]["key"] for one in looks)
        counted = trace["kineto_spyre_layers"]["compile"]["caches"]
        assert sum(sum(one.values()) for one in counted.values()) == len(looks)
    # the second time AOTAutograd's cache holds what Inductor made, which is not asked
    assert seen == [["autograd_cache_miss", "fx_graph_cache_miss"], ["autograd_cache_hit"]]
    assert counted == {"autograd_cache": {"hit": 1, "miss": 0, "bypass": 0}}
