"""Device memory now and over time: the figures equal the allocator's own, to the byte."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn as nn

import kineto_spyre
from kineto_spyre import memory, traces

pytestmark = pytest.mark.usefixtures("clean_device")

MIB = 1 << 20


def block(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="spyre")


def counters(path, name: str, device: int = 0) -> list[float]:
    events = json.loads(path.read_text())["traceEvents"]
    mine = [one for one in events if one["ph"] == "C" and one["name"] == name and one["pid"] == device]
    assert [one["ts"] for one in mine] == sorted(one["ts"] for one in mine)
    return [one["args"]["bytes"] for one in mine]


def test_what_is_held_now() -> None:
    before = memory.allocated()
    x = block(3)
    assert memory.allocated() == before + 3 * MIB == torch.spyre.memory_allocated("spyre:0")
    assert memory.reserved() == torch.spyre.memory_reserved() >= memory.allocated()
    assert memory.stats()["allocated_bytes.all.current"] == before + 3 * MIB
    del x
    assert memory.max_allocated() == before + 3 * MIB and memory.max_reserved() == memory.reserved()
    memory.reset_peak("spyre:0")
    assert memory.max_allocated() == memory.allocated(0) == before
    memory.reset_accumulated()
    assert memory.stats()["allocation.all.allocated"] == 0


def test_the_peak_and_what_made_it(tmp_path) -> None:
    before = block(2)
    held = memory.allocated()
    memory.reset_peak()
    with kineto_spyre.profile_spyre(memory=True) as prof:
        a = block(4)
        with torch.profiler.record_function("the range"):
            b = a + a
            c = torch.mul(b, b)
        del b, c
        d = block(1)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    peak = memory.peak(path)
    assert peak.allocated == memory.max_allocated() == held + 12 * MIB
    assert peak.reserved <= memory.max_reserved() == memory.curves(path)[0].reserved.max()
    assert (peak.allocation.op, peak.allocation.range, peak.allocation.bytes) == ("aten::mul", "the range", 4 * MIB)
    assert peak.before == held
    assert peak.by_op == {"aten::empty": 4 * MIB, "aten::add": 4 * MIB, "aten::mul": 4 * MIB}
    assert peak.by_range == {"the range": 8 * MIB, "": 4 * MIB}
    assert [one.op for one in memory.snapshot(path)] == ["aten::empty", "aten::empty"]
    assert [one.bytes for one in memory.snapshot(path)] == [4 * MIB, MIB]
    assert sum(one.bytes for one in memory.snapshot(path, at=peak.time)) == 12 * MIB

    allocated = counters(path, "device memory allocated (bytes)")
    assert allocated == [held + n * MIB for n in (0, 4, 8, 12, 8, 4, 5, 5)]
    assert max(counters(path, "device memory reserved (bytes)")) == memory.max_reserved()
    said = json.loads(path.read_text())["kineto_spyre_layers"]["memory"]["devices"]["0"]
    assert said == {"peak_allocated": memory.max_allocated(), "peak_reserved": memory.max_reserved()}
    assert not [one for one in traces.check(path)["findings"] if one["count"] and one["severity"] == "fault"]
    del a, before, d


def test_each_device_has_its_own_curve(tmp_path) -> None:
    with kineto_spyre.profile_spyre(memory=True) as prof:
        x = torch.ones(MIB, device="spyre:1")
        y = x + x
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    curves = memory.curves(path)
    assert set(curves) == {1}
    assert curves[1].allocated.max() == memory.max_allocated(1)
    assert max(counters(path, "device memory allocated (bytes)", 1)) == memory.max_allocated(1)
    with pytest.raises(ValueError, match=r"has no allocations of device 0. Profile with profile_memory=True"):
        memory.peak(path)
    del x, y


def test_modules_and_stacks_where_the_trace_has_them(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU()).to("spyre")
    x = torch.ones(64, 512, device="spyre")
    with kineto_spyre.profile_spyre(memory=True, with_stack=True) as prof:
        y = model(x)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    (made,) = memory.snapshot(path)
    assert made.op in ("aten::relu", "aten::clamp_min") and made.module.startswith("ReLU")
    assert any("test_modules_and_stacks" in line for line in made.stack)
    assert made.bytes == 64 * 512 * 4 and "relu" in made.stack[0]
    del y


def test_memory_by_category(tmp_path) -> None:
    model = nn.Linear(256, 256).to("spyre")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(32, 256, device="spyre")
    before = memory.allocated()
    with kineto_spyre.profile_spyre(memory=True, with_stack=True) as prof:
        for _ in range(2):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    found = memory.by_category(prof)
    weights = (256 * 256 + 256) * 4
    assert max(found["bytes"]["parameter"]) == weights
    assert max(found["bytes"]["gradient"]) >= weights
    assert max(found["bytes"]["optimizer_state"]) == weights
    assert found["peak"]["bytes"]["parameter"] == weights
    assert all(len(figures) == len(found["times"]) for figures in found["bytes"].values())

    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    window = trace["kineto_spyre"]["window_begin_ns"], trace["kineto_spyre"]["window_end_ns"]
    assert all(window[0] <= time <= window[1] for time in found["times"])
    counters = [one for one in trace["traceEvents"] if one["name"] == "device memory by category (bytes)"]
    assert [sum(one["args"].values()) for one in counters] == [sum(row) for row in zip(*found["bytes"].values())]
    assert [round(one["ts"] * 1000) + trace["baseTimeNanoseconds"] for one in counters] == found["times"]
    said = trace["kineto_spyre_layers"]["memory by category"]["devices"]["0"]
    assert said["peak"] == found["peak"]
    # all that the allocator held, and not more: the categories are of what it holds, less what was held before and
    # was not touched
    peak = max(memory.curves(path)[0].allocated)
    assert peak - before <= sum(found["peak"]["bytes"].values()) <= peak
    assert not [one for one in traces.check(path)["findings"] if one["count"] and one["severity"] == "fault"]


def test_memory_by_category_says_what_it_needs(tmp_path) -> None:
    with kineto_spyre.profile_spyre(memory=True) as prof:
        block(1)
    with pytest.raises(ValueError, match="without with_stack=True"):
        memory.by_category(prof)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    said = json.loads(path.read_text())["kineto_spyre_layers"]
    assert "with_stack=True" in said["memory by category"]["needs"] and "diagnostics" not in said
    with kineto_spyre.profile_spyre(memory=True, with_stack=True) as prof:
        block(1)
    with pytest.raises(ValueError, match="no memory of spyre:1"):
        memory.by_category(prof, "spyre:1")


def test_memory_by_category_of_a_large_recording_is_left_out_and_said(tmp_path, monkeypatch) -> None:
    from kineto_spyre.memory import _category_layer

    monkeypatch.setattr(_category_layer, "MOST_EVENTS", 10)
    with kineto_spyre.profile_spyre(memory=True, with_stack=True) as prof:
        for _ in range(10):
            block(1)
    path = tmp_path / "trace.json"
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="Memory by category was left out because"):
        prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    (said,) = trace["kineto_spyre_layers"]["diagnostics"]
    assert said["code"] == "memory_by_category_left_out" and said["details"]["events"] > said["details"]["most"] == 10
    assert counters(path, "device memory allocated (bytes)")
    assert not any(one["name"].startswith("device memory by category") for one in trace["traceEvents"])


def test_without_the_layer_nothing_is_added(tmp_path) -> None:
    with kineto_spyre.profile_spyre() as prof:
        block(1)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    text = path.read_text()
    assert '"C"' not in text and "kineto_spyre_layers" not in text
