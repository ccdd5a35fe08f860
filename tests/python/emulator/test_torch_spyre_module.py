"""torch.spyre as torch-spyre documents it: streams, init, the setting for downcasts, and Dynamo's interface."""

from __future__ import annotations

import json

import pytest
import torch


@pytest.fixture(autouse=True)
def on_the_default_stream():
    yield
    torch.spyre.set_device(0)
    torch.spyre.set_stream(torch.spyre.default_stream())


def test_streams_are_of_torch_spyres_class() -> None:
    current = torch.spyre.current_stream()
    assert isinstance(current, torch.spyre.Stream) and isinstance(torch.spyre.default_stream(1), torch.spyre.Stream)
    made = torch.spyre.Stream(device="spyre:1")
    with made as entered:
        assert torch.spyre.current_stream() == made == entered
        assert isinstance(torch.spyre.current_stream(), torch.spyre.Stream)


def test_a_streams_id_and_priority_are_those_that_are_documented() -> None:
    assert torch.spyre.default_stream().id == 0 and torch.spyre.default_stream().priority == 0
    normal = [torch.spyre.Stream(priority=p) for p in (0, 1) for _ in range(32)]
    assert {s.id for s in normal} == set(range(1, 33)) and {s.priority for s in normal} == {0}
    high = [torch.spyre.Stream(priority=p) for p in (-1, -7) for _ in range(32)]
    assert {s.id for s in high} == set(range(33, 65)) and {s.priority for s in high} == {-1}
    with pytest.raises(AttributeError):
        high[0].priority = 0


def test_a_streams_device_is_read_or_called() -> None:
    stream = torch.spyre.Stream(device=1)
    one = torch.device("spyre:1")
    assert stream.device() == one and isinstance(stream.device(), torch.device)
    assert stream.device == one and one == stream.device and stream.device != torch.device("spyre:0")
    assert (stream.device.type, stream.device.index) == ("spyre", 1)
    assert hash(stream.device) == hash(one) and repr(stream.device) == repr(one)
    assert torch.ones(2, device=stream.device).device == one
    assert torch.spyre.current_device() == 0
    torch.spyre.synchronize(stream.device)


def test_a_trace_shows_a_stream_on_the_track_after_its_id(tmp_path) -> None:
    import kineto_spyre

    stream = torch.spyre.Stream()
    x = torch.ones(16, device="spyre")
    with kineto_spyre.profile_spyre() as prof, stream:
        x + x
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    kernels = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("cat") == "kernel"]
    assert [k["args"]["stream"] for k in kernels] == [stream.id + 1]


def test_nothing_says_that_integers_are_narrowed_because_none_are(recwarn) -> None:
    assert torch.spyre.get_downcast_warning() is True
    big = torch.tensor([2**40])
    assert big.to("spyre").cpu().item() == 2**40 and not recwarn.list
    torch.spyre.set_downcast_warning(False)
    assert torch.spyre.get_downcast_warning() is False
    torch.spyre.set_downcast_warning(True)


def test_init_in_a_forked_child_raises_what_the_first_op_raises(run_python) -> None:
    done = run_python(
        """
import os, sys
import torch
from kineto_spyre import emulator
emulator.enable()
torch.spyre.init()
torch.ones(1, device="spyre")
child = os.fork()
if child == 0:
    said = []
    for use in (torch.spyre.init, lambda: torch.ones(1, device="spyre")):
        try:
            use()
        except RuntimeError as error:
            said.append(str(error).splitlines()[0])
    assert len(said) == 2 and said[0] == said[1], said
    print(said[0], flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert "forked" in done.stdout and "'spawn'" in done.stdout and "KINETO_SPYRE_EMULATE=" in done.stdout


def test_dynamos_interface_comes_with_dynamo_and_not_before(run_python) -> None:
    run_python(
        """
import sys
import torch
from kineto_spyre import emulator
emulator.enable(devices=2)
heavy = [m for m in sys.modules if m.split(".")[:2] in (["torch", "_dynamo"], ["torch", "_inductor"])]
assert not heavy, heavy
import inspect
from torch._dynamo import device_interface
for name in ("spyre", "spyre:1", torch.device("spyre", 1)):
    interface = device_interface.get_interface_for_device(name)
    assert issubclass(interface, device_interface.DeviceInterface), name
assert dict(device_interface.get_registered_device_interfaces())["spyre"] is interface
assert "def get_interface_for_device" in inspect.getsource(device_interface), "the module keeps its own loader"
assert interface.is_available() and interface.device_count() == 2
assert isinstance(interface.current_stream(), torch.spyre.Stream)
assert interface.get_raw_stream(0) == 0
assert interface.exchange_device(1) == 0 and interface.current_device() == 1
assert interface.maybe_exchange_device(0) == 1 and interface.current_device() == 0
with device_interface.DeviceGuard(interface, 1):
    assert torch.spyre.current_device() == 1
assert torch.spyre.current_device() == 0
assert interface.get_device_properties("spyre:1").multi_processor_count == 32
assert interface.is_dtype_supported(torch.bfloat16, including_emulation=True) and not interface.is_triton_capable()
stream = torch.spyre.Stream()
interface._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
assert torch.spyre.current_stream() == stream
"""
    )


def test_dynamos_interface_comes_where_dynamo_was_first(run_python) -> None:
    run_python(
        """
import torch._dynamo
from torch._dynamo.device_interface import get_interface_for_device
from kineto_spyre import emulator
emulator.enable()
assert get_interface_for_device("spyre").device_count() == 1
"""
    )
