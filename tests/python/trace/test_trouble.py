"""A library that misbehaves, sessions in odd orders, forks: the program and its CPU trace are whole, and it is said."""

from __future__ import annotations

import gc
import json
import time
import warnings

import pytest
import torch
from torch.profiler import profile, schedule

import kineto_spyre
from kineto_spyre import _C, _notices, emulator

from .conftest import ACTIVITIES, session


def run(device, op, export, **faults):
    """A profile of one op with one kernel while the library misbehaves; its trace and the sentences of its session."""
    with emulator.faults(**faults), profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("k", ns=1000))
        device.synchronize()
    trace = export(prof)
    assert trace.named("kineto_spyre_tests::a"), "the CPU's trace is whole"
    assert trace.metadata["warnings"] == session().warnings
    assert trace.metadata["captured"]["kernel"] == len(trace.kernels)
    return trace, " ".join(session().warnings)


@pytest.fixture(autouse=True)
def next_session_is_well(device, op, export):
    """Whatever went wrong in a test, the session after it is right."""
    yield
    # A library that was not flushed still holds buffers of the session that went wrong, and fills them first.
    with warnings.catch_warnings(), profile(activities=ACTIVITIES):
        warnings.simplefilter("ignore", kineto_spyre.SpyreProfilerWarning)
        device.synchronize()
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("after", ns=1000))
        device.synchronize()
    trace = export(prof)
    assert [k["name"] for k in trace.kernels] == ["after"]
    assert session().warnings == []
    assert session().refused == {}
    assert session().lost == 0


@pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning")
@pytest.mark.parametrize(
    "function, says, kernels",
    [
        ("register", "aiuptiActivityRegisterCallbacks failed", 0),
        ("enable", "aiuptiActivityEnable failed", 0),
        ("disable", "aiuptiActivityDisable failed", 1),
        ("dropped", "aiuptiActivityGetNumDroppedRecords failed", 1),
        ("flush", "aiuptiFlushAllActivities failed", None),
        ("next", "broke off with an error", 0),
    ],
)
def test_functions_that_return_errors(device, op, export, function, says, kernels):
    trace, warnings = run(device, op, export, fail=function)
    assert says in warnings
    if kernels is not None:
        assert len(trace.kernels) == kernels


@pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning")
def test_a_flush_that_hangs(device, op, export, monkeypatch):
    monkeypatch.setenv("KINETO_SPYRE_FLUSH_TIMEOUT_MS", "200")
    with emulator.faults(hang_flush="60s"):
        with profile(activities=ACTIVITIES) as prof:
            op("a", lambda: device.launch("k", ns=1000))
            device.synchronize()
        trace = export(prof)
        assert trace.named("kineto_spyre_tests::a")
        assert "did not come back within 200 ms" in " ".join(trace.metadata["warnings"])
        # The next one does not go near it.
        with profile(activities=ACTIVITIES) as prof:
            op("a", lambda: None)
        trace = export(prof)
        assert trace.named("kineto_spyre_tests::a")
        assert "still hangs in the flush of an earlier session" in " ".join(trace.metadata["warnings"])
    wait_until(lambda: not hangs())


def hangs() -> bool:
    with profile(activities=ACTIVITIES):
        pass
    return any("still hangs" in w for w in session().warnings)


def wait_until(condition) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within 10 s")


@pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning")
@pytest.mark.parametrize(
    "faults, says",
    [
        ({"null_record": 2}, "malformed"),
        ({"size": "+40"}, "272 bytes"),
        ({"size": "-40"}, "192 bytes"),
        ({"unknown_kind": 1}, "unknown_kind"),
        ({"torn": 1}, ""),
        ({"unknown_id": 1}, ""),
        ({"truncate": 1}, "shorter_record"),
        ({"swap_buffers": True}, ""),
        ({"complete_twice": 1}, "unknown buffer"),
        ({"complete_late": "50ms"}, ""),
        ({"strange_thread": True}, ""),
        ({"shuffle": True}, ""),
        ({"late": "20ms"}, ""),
        ({"early": True}, ""),
        ({"drop": 1}, "1 record(s) were lost"),
        ({"no_buffers": 0}, "were lost"),
    ],
    ids=str,
)
def test_records_and_buffers_that_are_wrong(device, op, export, faults, says):
    _, warnings = run(device, op, export, **faults)
    assert says in warnings
    details = session().details
    assert details["walked"] == (
        sum(details["captured"].values())
        + sum(details["refused"].values())
        + details["outside"]
        + details["not_requested"]
    )


def test_sessions_back_to_back(device, op, export):
    for i in range(20):
        with profile(activities=ACTIVITIES) as prof:
            op("a", lambda i=i: device.launch(f"k{i}", ns=1000))
            device.synchronize()
        assert [k["name"] for k in export(prof).kernels] == [f"k{i}"]


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
    # Two buffers, one for the calls and one for 1,024 compute records of 232 bytes.
    monkeypatch.setenv("KINETO_SPYRE_BUFFER_MB", str(2 * 1024 * 232 / 2**20))
    with pytest.warns(kineto_spyre.SpyreProfilerWarning) as warned, profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=10, count=1500)
        device.synchronize()
    monkeypatch.undo()
    lost = [str(w.message) for w in warned if "lost" in str(w.message)]
    assert len(lost) == 1 and lost[0].startswith("476 record(s) were lost") and "KINETO_SPYRE_BUFFER_MB" in lost[0]
    trace = export(prof)
    assert len(trace.kernels) == 1024
    assert session().lost == trace.metadata["lost"] == 476
    with profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=10, count=1500)
        device.synchronize()
    trace = export(prof)
    assert len(trace.kernels) == 1500
    assert session().lost == trace.metadata["lost"] == 0


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
    torch.spyre.synchronize = lambda *_: None  # there is no device in the child of a fork
    torch.ones(3) + 1
    prof.stop()                                # the parent's profile, seen from the child
    assert "stays with the parent" in " ".join(kineto_spyre.last_session().warnings)
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
    def bad(sentence):
        raise RuntimeError("from the handler")

    _C.set_warning_handler(bad)
    try:
        with emulator.faults(zero_start=1), profile(activities=ACTIVITIES) as prof:
            device.launch("k", ns=1000)
            device.synchronize()
        assert session().refused == {"start_zero": 1}
        assert export(prof).named("aten::empty") == []
    finally:
        _C.set_warning_handler(_notices.warn)


def test_ops_keep_their_results(device):
    x = torch.randn(16, 16)
    expected = x @ x
    with profile(activities=ACTIVITIES):
        assert torch.equal((x.to("spyre") @ x.to("spyre")).cpu(), expected)
