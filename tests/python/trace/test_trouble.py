"""Sessions in odd orders, forks, variables that can't be read: the program and its CPU trace are whole, and it is said.

(A library or a device that misbehaves: test_faults.py.)
"""

from __future__ import annotations

import gc
import json

import pytest
import torch
from torch.profiler import profile, schedule

import kineto_spyre
from kineto_spyre import _C, emulator
from kineto_spyre.profiler import _extension

from .conftest import ACTIVITIES, session

pytestmark = pytest.mark.usefixtures("next_session_is_well")


def test_sessions_back_to_back(device, op, export):
    for i in range(20):
        with profile(activities=ACTIVITIES) as prof:
            op("a", lambda i=i: device.launch(f"k{i}", ns=1000))
            device.synchronize()
        assert [k["name"] for k in export(prof).kernels] == [f"k{i}"]


def test_ids_of_calls_are_other_ones_in_each_session(device, export):
    seen = []
    for _ in range(3):
        with profile(activities=ACTIVITIES) as prof:
            device.launch("k", ns=1000)
            device.synchronize()
        seen += [e.correlation_id() for e in prof.profiler.kineto_results.events() if e.name().startswith("aiu")]
    assert len(seen) >= 6 and len(set(seen)) == len(seen)


def test_two_traces_are_kept_at_once(device, export, tmp_path):
    profiles = []
    for i in range(3):
        with profile(activities=ACTIVITIES) as prof:
            device.launch(f"k{i}", ns=1000)
            device.synchronize()
        profiles.append(prof)
    for i, prof in enumerate(profiles):
        assert [k["name"] for k in export(prof).kernels] == [f"k{i}"]


def test_a_profile_that_never_starts_recording(device):
    prof = profile(activities=ACTIVITIES, schedule=schedule(wait=0, warmup=5, active=1))
    prof.start()
    device.launch("warm-up", ns=1000)
    device.synchronize()
    prof.stop()


def test_a_profile_that_is_forgotten(device):
    prof = profile(activities=ACTIVITIES)
    prof.start()
    device.launch("k", ns=1000)
    device.synchronize()
    prof.stop()
    del prof
    gc.collect()


def test_an_exception_inside(device):
    with pytest.raises(ZeroDivisionError), profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=1000)
        device.synchronize()
        raise ZeroDivisionError
    assert [e.name for e in prof.events() if e.name == "k"]


def test_variables_that_can_not_be_read(device, op, export, monkeypatch):
    monkeypatch.setenv("KINETO_SPYRE_CLOCK_ALIGN", "maybe")
    monkeypatch.setenv("KINETO_SPYRE_FLUSH_TIMEOUT_MS", "soon")
    monkeypatch.setenv("KINETO_SPYRE_BUFFER_MB", "lots")
    with pytest.warns(kineto_spyre.SpyreProfilerWarning) as warned, profile(activities=ACTIVITIES):
        device.launch("k", ns=1000)
        device.synchronize()
    text = [str(w.message) for w in warned]
    assert len(text) == 3
    for variable in ("CLOCK_ALIGN is 'maybe'", "FLUSH_TIMEOUT_MS is 'soon'", "BUFFER_MB is 'lots'"):
        assert any(variable in sentence and "expected" in sentence for sentence in text)
    monkeypatch.undo()


def test_full_buffers_are_counted(device, export, monkeypatch):
    # Room for 2,048 compute records of 232 bytes, which calls and kernels share.
    monkeypatch.setenv("KINETO_SPYRE_BUFFER_MB", str(2 * 1024 * 232 / 2**20))
    with pytest.warns(kineto_spyre.SpyreProfilerWarning) as warned, profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=10, count=3000)
        device.synchronize()
    monkeypatch.undo()
    trace = export(prof)
    dropped = trace.metadata["dropped"]
    said = [str(w.message) for w in warned if str(w.message).startswith(f"{dropped} record")]
    assert len(said) == 1 and "KINETO_SPYRE_BUFFER_MB" in said[0]
    assert 900 <= len(trace.kernels) <= 2048
    # 3,000 kernels, and the calls: a launch of control blocks and two waits.
    assert sum(session().captured.values()) + dropped == 3003
    assert session().captured["kernel"] == len(trace.kernels)
    assert session().dropped == dropped
    with profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=10, count=1500)
        device.synchronize()
    trace = export(prof)
    assert len(trace.kernels) == 1500
    assert session().dropped == trace.metadata["dropped"] == 0


PROGRAM = """
import os, sys, json, torch, kineto_spyre
from torch.profiler import profile, ProfilerActivity
from kineto_spyre import emulator
emulator.enable()
device = emulator.Device(0)
activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
"""


def test_a_child_of_a_profiled_process_goes_on_without_us(run_python):
    done = run_python(
        PROGRAM
        + """
prof = profile(activities=activities)
prof.start()
device.launch("before", ns=1000)
child = os.fork()
if child == 0:
    torch.ones(3) + 1
    prof.stop()                                # the parent's profile, seen from the child
    assert "only the parent's session records" in " ".join(kineto_spyre.last_session().warnings)
    with profile(activities=activities) as own:
        torch.ones(3) + 1
    assert "before it forked" in " ".join(kineto_spyre.last_session().warnings)
    assert any(e.name == "aten::add" for e in own.events())
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
device.launch("after", ns=1000)
device.synchronize()
prof.stop()
print(json.dumps(sorted(e.name for e in prof.events() if e.name in ("before", "after"))))
"""
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["after", "before"]


@pytest.mark.parametrize("how", ["exit", "raise", "os._exit", "forget"])
def test_a_program_that_ends_while_it_is_profiled(run_python, how):
    end = {
        "exit": "sys.exit(0)",
        "raise": "raise SystemExit(0)",
        "os._exit": "os._exit(0)",
        "forget": "del prof",
    }[how]
    done = run_python(
        PROGRAM
        + f"""
prof = profile(activities=activities)
prof.start()
device.launch("k", ns=1000)
{end}
"""
    )
    assert done.returncode == 0
    assert "terminate called" not in done.stderr


def test_the_library_is_opened_by_the_first_session_and_not_before(run_python):
    done = run_python(
        PROGRAM
        + """
def mapped():
    return "aiupti" in open("/proc/self/maps").read()
assert not mapped()
with profile(activities=activities[:1]):
    torch.ones(3) + 1
assert not mapped()
prof = profile(activities=activities)
assert not mapped()
with prof:
    pass
assert mapped()
print(kineto_spyre.status().library)
"""
    )
    assert done.stdout.strip().endswith("libaiupti_emulated.so")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_warning_handler_that_raises_breaks_nothing(device, op, export):
    def bad(found):
        raise RuntimeError("from the handler")

    _C.set_warning_handler(bad)
    try:
        with emulator.faults(zero_start=1), profile(activities=ACTIVITIES) as prof:
            device.launch("k", ns=1000)
            device.synchronize()
        assert session().invalid == {"start_zero": 1}
        assert export(prof).named("aten::empty") == []
    finally:
        _C.set_warning_handler(_extension.warn)


def test_ops_keep_their_results(device):
    x = torch.randn(16, 16)
    expected = x @ x
    with profile(activities=ACTIVITIES):
        assert torch.equal((x.to("spyre") @ x.to("spyre")).cpu(), expected)
