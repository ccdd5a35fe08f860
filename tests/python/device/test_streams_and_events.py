"""Streams, events, synchronising and torch.accelerator."""

from __future__ import annotations

import importlib
import types

import pytest
import torch

import kineto_spyre


def test_streams_have_a_device_and_an_identity() -> None:
    s = torch.Stream(device="spyre")
    assert s.device == torch.device("spyre", 0) and s.device_index == 0
    t = torch.Stream(device="spyre:1")
    assert t.device_index == 1 and s != t
    assert torch.Stream(1).device == torch.device("spyre:1")
    again = torch.Stream(stream_id=t.stream_id, device_type=t.device_type, device_index=t.device_index)
    assert again == t and hash(again) == hash(t)
    assert "device_type=spyre, device_index=1" in repr(t)
    assert torch.spyre.Stream(device=1).device_index == 1
    assert isinstance(torch.spyre.Stream(), torch.Stream)
    assert torch.spyre.Stream(priority=-1).query()
    assert torch.spyre.default_stream().stream_id == 0


def test_streams_come_from_a_pool() -> None:
    ids = {torch.Stream(device="spyre").stream_id for _ in range(100)}
    assert len(ids) == 32 and 0 not in ids


def test_a_stream_is_current_within_its_context() -> None:
    before = torch.spyre.current_stream()
    s = torch.Stream(device="spyre")
    with s:
        assert torch.accelerator.current_stream() == s == torch.spyre.current_stream()
        x = torch.ones(3, device="spyre") + 1
    assert torch.spyre.current_stream() == before
    with torch.spyre.stream(torch.Stream(device="spyre:1")) as t:
        assert torch.spyre.current_device() == 1 and torch.spyre.current_stream() == t
    assert torch.spyre.current_device() == 0
    with torch.spyre.stream(None):
        pass
    torch.accelerator.set_stream(s)
    assert torch.accelerator.current_stream() == s
    torch.spyre.set_stream(torch.spyre.default_stream())
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    assert x.cpu().tolist() == [2, 2, 2]


def test_waiting() -> None:
    s, t = torch.Stream(device="spyre:0"), torch.Stream(device="spyre:1")
    with s:
        x = torch.randn(64, 64, device="spyre") @ torch.randn(64, 64, device="spyre")
    t.wait_stream(s)
    e = s.record_event()
    t.wait_event(e)
    s.synchronize()
    assert s.query() and e.query()
    torch.spyre.synchronize()
    torch.spyre.synchronize(1)
    torch.spyre.synchronize("spyre:1")
    torch.accelerator.synchronize()
    x.record_stream(t)


def test_events() -> None:
    e = torch.Event(device="spyre")
    assert e.query()  # never recorded: nothing to wait for
    e.synchronize()
    e.record()
    e.synchronize()
    assert e.query() and e.device.type == "spyre"
    start, end = (torch.Event(device="spyre", enable_timing=True) for _ in range(2))
    start.record()
    a = torch.randn(256, 256, device="spyre")
    for _ in range(4):
        a = a @ a
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    s = torch.Stream(device="spyre")
    f = torch.spyre.Event()
    f.record(s)
    f.wait(torch.spyre.default_stream())
    f.synchronize()
    untimed = torch.Event(device="spyre")
    untimed.record()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        untimed.elapsed_time(end)
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        torch.Event(device="spyre", enable_timing=True).elapsed_time(end)


def test_the_accelerator() -> None:
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("spyre")
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == 1 == torch.spyre.current_device()
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(None):
        assert torch.accelerator.current_device_index() == 1
    assert torch.float16 in torch.accelerator.get_device_capability("spyre:0")["supported_dtypes"]
    with pytest.raises(RuntimeError):
        torch.accelerator.set_device_index(2)
    assert torch.accelerator.current_device_index() == 1
    try:
        with torch.accelerator.device_index(0):
            raise KeyError
    except KeyError:
        assert torch.accelerator.current_device_index() == 1


def test_the_module() -> None:
    assert torch.spyre.is_available() and torch.spyre.is_initialized() and torch.spyre.device_count() == 2
    torch.spyre.init()
    with torch.spyre.device(1):
        assert torch.spyre.current_device() == 1
    with torch.spyre.device(None), torch.spyre.device(-1), torch.spyre.device("spyre"):
        assert torch.spyre.current_device() == 0
    with torch.spyre.device_of(torch.ones(1, device="spyre:1")):
        assert torch.spyre.current_device() == 1
    with torch.spyre.device_of(torch.ones(1)):
        assert torch.spyre.current_device() == 0
    p = torch.spyre.get_device_properties("spyre:1")
    assert p.cores == 32 and p.total_memory > 0 and p.scratchpad_bytes_per_core == 2 << 20
    assert torch.spyre.get_device_name(0) == p.name
    assert torch.spyre.can_device_access_peer(0, 1) and not torch.spyre.can_device_access_peer(1, 1)
    assert torch.get_device_module("spyre") is torch.spyre
    for wrong in ("spyre:2", 7, -1):
        with pytest.raises(RuntimeError, match="There is no device spyre"):
            torch.spyre.set_device(wrong)
    with pytest.raises(ValueError, match="expected a spyre device"):
        torch.spyre.set_device("cpu")


def test_the_name_belongs_to_us() -> None:
    assert torch._C._get_privateuse1_backend_name() == "spyre"
    torch.utils.rename_privateuse1_backend("spyre")
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("dev")
    with pytest.raises(RuntimeError):
        torch._register_device_module("spyre", types.ModuleType("other"))
    activity = torch.profiler.ProfilerActivity
    assert activity.SPYRE == activity.PrivateUse1
    assert importlib.import_module("torch.spyre.memory") is torch.spyre.memory
    assert importlib.import_module("torch.spyre.random") is torch.spyre.random
    kineto_spyre.emulator.enable(devices=2)  # again, and nothing changes
