"""A device below PyTorch: exact work, what it costs in time, what goes wrong and what is said then."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kineto_spyre
from kineto_spyre import emulator

ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def test_a_kernel_lasts_exactly_what_it_was_told(device):
    with profile(activities=ACTIVITIES) as prof:
        for ns in (0, 1, 1_000, 123_456, 5_000_000):
            device.launch(f"k{ns}", ns=ns)
        device.synchronize()
    lasted = {e.name: round(e.time_range.elapsed_us() * 1000) for e in prof.events() if e.name.startswith("k")}
    assert lasted == {"k0": 0, "k1": 1, "k1000": 1_000, "k123456": 123_456, "k5000000": 5_000_000}


def test_a_hundred_thousand_kernels_need_no_model(device):
    with profile(activities=ACTIVITIES):
        for i in range(10):
            device.launch(f"k{i}", ns=100, count=10_000)
        device.synchronize()
    captured = kineto_spyre.last_session().captured
    assert captured["kernel"] == 100_000
    assert captured["runtime"] >= 10


def test_synchronising_waits_in_real_time(device):
    device.synchronize()
    begin = time.monotonic()
    device.launch("long", ns=300_000_000)
    device.synchronize()
    assert time.monotonic() - begin >= 0.3


def test_submitting_and_other_streams_do_not_wait(device):
    with emulator.faults(hang="0:1"):
        device.launch("never ends", ns=1)
        device.launch("elsewhere", ns=1, stream=7)
        device.synchronize(stream=7)
    device.synchronize()


def test_other_python_threads_run_while_one_waits(device):
    device.launch("long", ns=200_000_000)
    waiting = threading.Thread(target=device.synchronize)
    waiting.start()
    turns = 0
    while waiting.is_alive():
        turns += 1
    assert turns > 10


def test_work_runs_on_the_devices_thread_in_order(device):
    seen = []
    for i in range(20):
        device.launch("work", ns=10, work=lambda i=i: seen.append((i, threading.get_ident())))
    device.synchronize()
    assert [i for i, _ in seen] == list(range(20))
    assert {thread for _, thread in seen}.isdisjoint({threading.get_ident()})


def test_work_that_raises_breaks_nothing(device, monkeypatch):
    raised = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: raised.append(what.exc_value))
    device.launch("work", ns=10, work=lambda: 1 / 0)
    device.launch("work", ns=10)
    device.synchronize()
    assert isinstance(raised[0], ZeroDivisionError)


def test_work_is_done_before_the_program_ends(run_python):
    done = run_python(
        """
from kineto_spyre import emulator
emulator.enable()
emulator.Device(0).launch("work", ns=100_000_000, work=lambda: print("first"))
emulator.Device(0).launch("work", ns=1000, work=lambda: print("second"))
"""
    )
    assert done.stdout.split() == ["first", "second"]


def test_memory(device):
    before = device.properties()
    assert before["cores"] == 32 and before["name"] == "AIU"
    address = device.alloc(1_000_000)
    assert address % 128 == 0
    assert before["memory_free"] - device.properties()["memory_free"] == 1_000_064
    device.memset(1_000_000, address=address, value=7, blocking=True)
    device.free(address)
    assert device.properties() == before
    with pytest.raises(MemoryError, match=r"no room for 1152921504606846976 bytes: \d+ of \d+ bytes are free"):
        device.alloc(2**60)
    with pytest.raises(ValueError, match="freed before"):
        device.free(address)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda d: d.launch("k", ns=-1), "ns=-1"),
        (lambda d: d.launch("k", ns=1, count=0), "count=0"),
        (lambda d: d.launch("k", ns=1, stream=0), "stream=0: expected a whole number from 1 to 1024"),
        (lambda d: d.launch("k", dtype="complex"), "dtype='complex'"),
        (lambda d: d.copy("HtoH", 1), "kind='HtoH': expected one of HtoD, DtoH, PtoP"),
        (lambda d: d.copy("HtoD", -1), "nbytes=-1"),
        (lambda d: d.memset(10, value=256), "value=256"),
        (lambda d: emulator.Device(8), "the device's index=8"),
    ],
)
def test_what_makes_no_sense_is_named(device, call, says):
    with pytest.raises(ValueError) as error:
        call(device)
    assert says in str(error.value)


def test_the_model_is_printed_with_its_sources():
    text = emulator.describe_model()
    assert "device memory bandwidth" in text and "2e+11 B/s" in text
    for line in text.split("\n\n")[1].splitlines():
        assert "[" in line or "assumed" in line or "twice" in line, line


def test_a_lost_device_says_so_in_pytorch_too(device):
    x = torch.ones(10, device="spyre")
    with emulator.faults(device_lost="0:0"):
        with pytest.raises(RuntimeError, match="device 0 is lost"):
            device.launch("k", ns=1)
        with pytest.raises(RuntimeError, match="device 0 is lost"):
            device.synchronize()
        with pytest.raises(RuntimeError, match="lost"):
            torch.spyre.synchronize()
    assert torch.equal((x + 1).cpu(), torch.full((10,), 2.0))


def test_a_kernel_that_never_ends_times_out_and_is_mended(device):
    with emulator.faults(hang=1, timeout="50ms"):
        device.launch("hangs", ns=1)
        with pytest.raises(TimeoutError, match="never ends"):
            device.synchronize()
    device.synchronize()


def test_faults_nest_and_end_with_their_block(device):
    with emulator.faults(clock_offset="1ms"):
        with emulator.faults("clock_offset=2ms", drop=3):
            assert device.clock(10**9) == 10**9 + 2_000_000
        assert device.clock(10**9) == 10**9 + 1_000_000
    assert device.clock(10**9) == 10**9
    with pytest.raises(ValueError, match="there is no fault 'drops'"), emulator.faults(drops=3):
        pass
    with pytest.raises(ZeroDivisionError), emulator.faults(clock_offset="1ms"):
        raise ZeroDivisionError
    assert device.clock(10**9) == 10**9
