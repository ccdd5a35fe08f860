"""profile_spyre(phases=True): the track of what each kernel did, by its cycle stamps."""

from __future__ import annotations

import json

import pytest
import torch

import kineto_spyre
from kineto_spyre import emulator
from kineto_spyre.phases._stamps_layer import _shares


def trace_of(path) -> dict:
    x = torch.ones(256, 256, device="spyre")
    with kineto_spyre.profile_spyre(phases=True) as prof:
        y = x @ x
        y.relu_()
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def test_the_parts_of_a_kernel_follow_each_other_and_fill_it(tmp_path) -> None:
    path = tmp_path / "trace.json"
    trace = trace_of(path)
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    phases = [e for e in trace["traceEvents"] if e.get("cat") == "kernel_phase"]
    assert len(kernels) == 2 and len(phases) == 8
    for kernel in kernels:
        parts = sorted((e for e in phases if e["args"]["kernel"] == kernel["name"]), key=lambda e: e["ts"])
        assert [e["name"] for e in parts] == ["data in", "prepare", "compute", "data out"]
        assert parts[0]["ts"] == kernel["ts"]
        for one, following in zip(parts, parts[1:]):
            assert one["ts"] + one["dur"] == pytest.approx(following["ts"], abs=0.0011)
        assert sum(e["dur"] for e in parts) == pytest.approx(kernel["dur"], abs=0.0011)
        stamps = kernel["args"]["cycles_ts"]
        share = (stamps[3] - stamps[2]) / (stamps[4] - stamps[0])
        assert parts[2]["dur"] == pytest.approx(share * kernel["dur"], abs=0.0021)
    (product,) = (one for one in kineto_spyre.report(path).facts["phases"] if "_mm_" in one["kernel"])
    assert sum(op["share"] for op in product["ops"]) == pytest.approx(1)


def test_a_libaiupti_without_stamps_is_said_and_the_rest_is_there(tmp_path) -> None:
    with (
        emulator.faults(short_compute=1),
        pytest.warns(kineto_spyre.SpyreProfilerWarning, match="no kernel's record has"),
    ):
        trace = trace_of(tmp_path / "trace.json")
    cats = [e.get("cat") for e in trace["traceEvents"]]
    assert cats.count("kernel") == 2 and "kernel_phase" not in cats


def test_stamps_wrap_and_what_is_none_has_no_parts() -> None:
    assert _shares([2**32 - 10, 0, 10, 20, 30]) == [0.25, 0.5, 0.75, 1.0]
    assert _shares([0] * 5) == _shares(None) == _shares([1, 2, 3]) == _shares(["1"] * 5) == []
