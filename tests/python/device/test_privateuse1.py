"""What PyTorch asks of a PrivateUse1 device in the tests of its own reference backend (OpenReg), as far as no other
file here asks it already. What those tests ask and this device does not do: privateuse1_exceptions.md."""

from __future__ import annotations

import io
import os
import threading
import unittest.mock

import numpy
import pytest
import torch
from torch.autograd.profiler import profile, record_function
from torch.testing._internal.common_dtype import get_all_dtypes


def test_an_event_has_an_id_and_a_device_once_it_is_recorded() -> None:
    for event in (torch.Event(), torch.Event(device="spyre"), torch.Event(device="spyre:1")):
        assert event.device == torch.device("spyre") and event.device.index is None and event.event_id == 0
    stream = torch.Stream(device="spyre:1")
    first, second = stream.record_event(), stream.record_event()
    assert first.device == torch.device("spyre:1")
    assert len({0, first.event_id, second.event_id}) == 3


def test_an_event_may_be_recorded_again_and_waited_for_by_many() -> None:
    x = torch.randn(32, 32)
    on_device = x.to("spyre")
    source, *others = (torch.Stream(device="spyre") for _ in range(3))
    event = torch.Event(device="spyre", enable_timing=True)
    for _ in range(2):
        event.record(source)
        for stream in others:
            stream.wait_event(event)
            with stream:
                y = on_device @ on_device
            assert torch.equal(y.cpu(), x @ x)
        event.synchronize()
        assert event.query()
    later = torch.Event(device="spyre", enable_timing=True)
    later.record()  # on the current stream
    later.synchronize()
    assert event.elapsed_time(later) > 0


def test_events_of_an_idle_stream_are_apart() -> None:
    stream = torch.Stream(device="spyre:1")
    first, second = (torch.Event(device="spyre:1", enable_timing=True) for _ in range(2))
    first.record(stream)
    second.record(stream)
    stream.synchronize()
    assert first.elapsed_time(second) > 0


def test_storages_are_pinned_and_their_views_too() -> None:
    x = torch.randn(10)
    assert not x.untyped_storage().is_pinned("spyre")
    pinned = x.untyped_storage().pin_memory("spyre")
    assert pinned.is_pinned("spyre") and bytes(pinned) == bytes(x.untyped_storage())
    within = torch.tensor(()).set_(pinned[8:], size=(5,), stride=(1,), storage_offset=0)
    assert within.is_pinned() and torch.equal(within, x[2:7])
    assert x.pin_memory()[2:5].is_pinned()


def test_tensors_of_older_files_come_back() -> None:
    """Files of devices that had no storages: through numpy, and through a tensor of the CPU."""
    values = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    # A torch.load() that failed, as another test's does, leaves its map_location to all that follow.
    with unittest.mock.patch.object(torch.serialization._serialization_tls, "map_location", None):
        rebuilt = torch._utils._rebuild_device_tensor_from_numpy(values, torch.float32, "spyre:1", False)
    assert rebuilt.device == torch.device("spyre:1") and rebuilt.tolist() == values.tolist()
    x = torch.randn(2, 3)
    file = io.BytesIO()
    with unittest.mock.patch.object(torch._C, "_has_storage", return_value=False):
        torch.save(x.to("spyre"), file)
    for location, device in ((None, "spyre"), ("cpu", "cpu")):
        file.seek(0)
        loaded = torch.load(file, weights_only=True, map_location=location)
        assert loaded.device.type == device and torch.equal(loaded.cpu(), x)


def test_the_device_tells_the_dtypes_that_it_can_copy() -> None:
    quantized = set(get_all_dtypes(include_qint=True)) - set(get_all_dtypes())
    for index in range(2):
        supported = torch.accelerator.get_device_capability(f"spyre:{index}")["supported_dtypes"]
        assert set(get_all_dtypes(include_complex32=True, include_qint=True)) <= supported
    for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)} - quantized:
        empty = torch.empty(16, dtype=dtype, device="spyre")
        if dtype in supported:
            assert empty.to(torch.float32).to(dtype).dtype == dtype
        else:
            with pytest.raises(NotImplementedError, match="copy"):
                empty.to(torch.float32)


def test_backward_has_a_thread_for_each_device() -> None:
    torch.ones(2, requires_grad=True, device="spyre").sum().backward()
    names = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            names.add(comm.read().strip())
    assert {"pt_autograd_0", "pt_autograd_1"} <= names


def test_threads_switch_devices_at_the_same_time() -> None:
    barrier, wrong = threading.Barrier(4), []

    def work(index: int) -> None:
        barrier.wait()
        for _ in range(50):
            torch.accelerator.set_device_index(index)
            y = (torch.ones(10, 10, device="spyre") @ torch.ones(10, 10, device="spyre")).sum()
            if y.device.index != index or torch.accelerator.current_device_index() != index or y.item() != 1000:
                wrong.append((index, y.device))

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert torch.accelerator.current_device_index() == 0


def test_generators_have_no_offset() -> None:
    generator = torch.Generator(device="spyre")
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.get_offset()
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.set_offset(4)


def test_results_go_into_strided_parts_of_others() -> None:
    x = torch.randn(2, 2, 3)
    for step in (2, 3):  # the second has another size, and is resized
        outs = [torch.zeros(2, 2, 6, device=device) for device in ("cpu", "spyre")]
        for out in outs:
            part = out[:, :, :6:step]
            if part.shape == x.shape:
                torch.abs(x.to(out.device), out=part)
            else:
                with pytest.warns(UserWarning, match="was resized"):
                    torch.abs(x.to(out.device), out=part)
        assert torch.equal(outs[0], outs[1].cpu())


def test_lists_of_tensors_and_scalar_factories() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], device="spyre")
    assert [y.tolist() for y in torch._foreach_add((x, x), (x, 2 * x))] == [[2, 4, 6], [3, 6, 9]]
    assert torch.triu_indices(3, 3, device="spyre").tolist() == torch.triu_indices(3, 3).tolist()


@pytest.mark.parametrize("case", ["mask", "causal", "dropout"])
def test_attention_equals_the_cpus(case: str) -> None:
    options = {"mask": {}, "causal": {"is_causal": True}, "dropout": {"dropout_p": 0.1}}[case]
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(3)
        q, k, v = (torch.rand(2, 2, 64, 32).half().to(device).requires_grad_() for _ in range(3))
        mask = torch.rand(2, 2, 64, 64).half().to(device).requires_grad_() if case == "mask" else None
        torch.manual_seed(4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
        y.sum().backward()
        results.append([t.detach().cpu() for t in (y, q.grad, k.grad, v.grad)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_names_of_the_device_in_pytorch() -> None:
    kind, activity = torch._C._autograd.DeviceType.SPYRE, torch.profiler.ProfilerActivity.SPYRE
    assert (
        kind == torch._C._autograd.DeviceType.PrivateUse1 and kind.name == "SPYRE" and str(kind) == "DeviceType.SPYRE"
    )
    assert activity.name == "SPYRE" and str(activity) == "ProfilerActivity.SPYRE"
    function = torch.utils.backend_registration._get_custom_mod_func
    assert function("device_count")() == 2
    with pytest.raises(RuntimeError, match=r"Try to call torch\.spyre\.nothing"):
        function("nothing")
    with pytest.raises(RuntimeError, match="already been registered"):
        torch.utils.generate_methods_for_privateuse1_backend()
    assert hasattr(torch.nn.Module, "spyre") and hasattr(torch.TypedStorage, "is_spyre")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch._register_device_module("dev", torch)


def test_the_autograd_profiler_sees_a_training_step() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 10)).to("spyre")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(use_device="spyre", record_shapes=True) as prof:
        with record_function("forward"):
            loss = torch.nn.functional.mse_loss(
                model(torch.randn(32, 10).to("spyre")), torch.zeros(32, 10, device="spyre")
            )
        with record_function("backward"):
            loss.backward()
        optimizer.step()
        with torch.Stream(device="spyre"), record_function("stream"):
            (torch.ones(3, device="spyre:1") + 1).cpu()
    names = {e.name for e in prof.function_events}
    assert {"forward", "backward", "stream", "aten::addmm", "aten::mm", "aten::_to_copy", "AddmmBackward0"} <= names
    rows = {r.key: r for r in prof.key_averages(group_by_input_shape=True)}
    assert rows["aten::addmm"].device_time_total > 0
    assert "aten::addmm" in prof.key_averages().table(sort_by="self_device_time_total")


def test_the_autograd_profiler_is_left_by_an_exception_and_sees_nothing() -> None:
    with pytest.raises(KeyError), profile(use_device="spyre") as prof:
        torch.ones(3, device="spyre")
        raise KeyError
    assert "aten::ones" in {e.name for e in prof.function_events}
    with profile(use_device="spyre") as prof:
        pass
    assert [e for e in prof.function_events if e.name.startswith("aten::")] == []
