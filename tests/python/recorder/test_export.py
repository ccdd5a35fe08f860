"""profile_spyre(export=...): from the recorder to a file, past torch.profiler."""

from __future__ import annotations

import pytest
from dumps import events_of

import kineto_spyre
from kineto_spyre import SpyreProfilerError, traces

torch = pytest.importorskip("torch")


def test_it_holds_what_was_run_from_start_to_stop(work, tmp_path):
    work("before")
    with kineto_spyre.profile_spyre(export=tmp_path / "trace.json") as prof:
        for number in range(5):
            work(f"step {number}")
    work("after")
    assert prof.dump.complete
    assert prof.dump.kernels == 15
    report = traces.check(tmp_path / "trace.json")
    assert report["sound"], report["findings"]
    ranges = [event["name"] for event in events_of(tmp_path / "trace.json", "user_annotation")]
    assert ranges == [f"step {number}" for number in range(5)]
    with pytest.raises(SpyreProfilerError, match=r"key_averages\(\) needs PyTorch's events"):
        prof.key_averages()


def test_a_recorder_that_runs_is_used_and_goes_on(recorder, work, tmp_path):
    work("before")
    with kineto_spyre.profile_spyre(export=tmp_path / "trace.json"):
        work("inside")
    work("after")
    assert [event["name"] for event in events_of(tmp_path / "trace.json", "user_annotation")] == ["inside"]
    assert recorder.status().running
    assert recorder.dump().kernels == 9


def test_memory_that_is_too_small_is_said(work, tmp_path):
    with (
        pytest.warns(kineto_spyre.SpyreProfilerWarning, match=r"holds the last .* of .* s, because .* more than 4"),
        kineto_spyre.profile_spyre(export=tmp_path / "trace.pftrace", export_mib=4) as prof,
    ):
        for number in range(3000):
            work(f"step {number}")
    assert prof.dump.kernels < 9000


def test_a_profile_that_fails_to_write_says_so_and_stops_its_recorder(work, tmp_path):
    with (
        pytest.raises(SpyreProfilerError, match="can't be opened: No such file"),
        kineto_spyre.profile_spyre(export=tmp_path / "none" / "trace.json"),
    ):
        work()
    with kineto_spyre.profile_spyre(export=tmp_path / "trace.json") as prof:
        work()
    prof.stop()
    assert prof.dump.kernels == 3


def test_what_it_does_not_take_is_named(two_devices):
    with pytest.raises(ValueError, match=r"export=\.\.\.\) does not take with_stack, memory"):
        kineto_spyre.profile_spyre(export="trace.json", with_stack=True, memory=True)
