"""Device ranges follow the ranges that PyTorch recorded on the host, whatever order they begin and end in."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import kineto_spyre

ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
NS = 3000


def owned(trace, name: str) -> list[list[str]]:
    """For each device range of this name, the kernels within it, by time."""
    found = []
    for span in trace.of("gpu_user_annotation"):
        if span["name"] != name:
            continue
        begin, end = span["ts"] - 0.001, span["ts"] + span["dur"] + 0.001
        inside = [k for k in trace.kernels if begin <= k["ts"] and k["ts"] + k["dur"] <= end]
        found.append([k["name"] for k in sorted(inside, key=lambda k: k["ts"])])
    return found


def test_a_step_ends_inside_a_users_range(device, export):
    traces = []
    steps = schedule(wait=0, warmup=1, active=3, repeat=1)
    ready = lambda prof: traces.append(export(prof))  # noqa: E731
    with profile(activities=ACTIVITIES, schedule=steps, on_trace_ready=ready) as prof:
        device.launch("warm", ns=NS)
        device.synchronize()
        prof.step()
        with record_function("epoch"):
            for i in range(3):
                with record_function(f"batch{i}"):
                    device.launch(f"b{i}x", ns=NS)
                    device.launch(f"b{i}y", ns=NS)
                device.synchronize()
                if i < 2:
                    prof.step()
        device.launch("after", ns=NS)
        device.synchronize()
        prof.step()
    [trace] = traces
    assert owned(trace, "epoch") == [["b0x", "b0y", "b1x", "b1y", "b2x", "b2y"]]
    assert owned(trace, "ProfilerStep#1") == [["b0x", "b0y"]]
    assert owned(trace, "ProfilerStep#2") == [["b1x", "b1y"]]
    assert owned(trace, "ProfilerStep#3") == [["b2x", "b2y", "after"]]
    assert owned(trace, "batch1") == [["b1x", "b1y"]]


def test_a_step_ends_inside_an_optimizers_closure(device, export):
    traces = []
    weight = torch.nn.Parameter(torch.ones(8, device="spyre"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    steps = schedule(wait=0, warmup=1, active=3, repeat=1)
    with profile(
        activities=ACTIVITIES, schedule=steps, on_trace_ready=lambda prof: traces.append(export(prof))
    ) as prof:

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            device.launch("forward", ns=NS)
            loss = (weight * weight).sum()
            loss.backward()
            device.synchronize()
            prof.step()
            return loss

        for _ in range(4):
            optimizer.step(closure)
    [trace] = traces
    calls = {e["args"]["correlation"]: e for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]}
    expected = []
    for annotation in trace.of("user_annotation"):
        begin, end = annotation["ts"], annotation["ts"] + annotation["dur"]
        launched = [k for k in trace.kernels if begin <= calls[k["args"]["correlation"]]["ts"] < end]
        if launched:
            first, last = min(k["ts"] for k in launched), max(k["ts"] + k["dur"] for k in launched)
            expected.append((annotation["name"], pytest.approx(first, abs=0.01), pytest.approx(last, abs=0.01)))
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in trace.of("gpu_user_annotation")]
    assert sorted(spans) == sorted(expected, key=lambda e: (e[0], e[1].expected))
    assert {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"} < {name for name, *_ in spans}


def test_a_future_ends_a_range_on_another_thread(device, export):
    with profile(activities=ACTIVITIES, record_shapes=True) as prof:
        crossing = record_function("crossing")
        crossing.__enter__()
        device.launch("inside1", ns=NS)
        future = torch.futures.Future()
        chained = crossing._call_end_callbacks_on_future(future)
        crossing.__exit__(None, None, None)
        device.launch("inside2", ns=NS)
        thread = threading.Thread(target=lambda: future.set_result(1))
        thread.start()
        thread.join()
        chained.wait()
        with record_function("later"):
            device.launch("later1", ns=NS)
        for i in range(3):
            device.launch(f"outside{i}", ns=NS)
        device.synchronize()
    trace = export(prof)
    assert owned(trace, "crossing") == [["inside1", "inside2"]]
    assert owned(trace, "later") == [["later1"]]


def test_ranges_that_cross_as_those_of_coroutines_do(device, export):
    with profile(activities=ACTIVITIES) as prof:
        first, second = record_function("first"), record_function("second")
        first.__enter__()
        device.launch("a", ns=NS)
        second.__enter__()
        device.launch("b", ns=NS)
        first.__exit__(None, None, None)
        device.launch("c", ns=NS)
        second.__exit__(None, None, None)
        device.launch("d", ns=NS)
        device.synchronize()
    trace = export(prof)
    assert owned(trace, "first") == [["a", "b"]]
    assert owned(trace, "second") == [["b", "c"]]


def test_of_two_ranges_with_the_same_extent_the_outer_one_is_drawn_outside(device, export):
    with profile(activities=ACTIVITIES) as prof:
        with record_function("outer"), record_function("inner"):
            device.launch("only", ns=NS)
        device.synchronize()
    trace = export(prof)
    assert owned(trace, "outer") == owned(trace, "inner") == [["only"]]
    level = {e["name"]: int(e["args"]["track"].rsplit(" ", 1)[1]) for e in trace.of("gpu_user_annotation")}
    assert level == {"outer": 1, "inner": 2}


def test_ranges_of_several_threads_own_what_their_thread_launched(device, export):
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        with record_function(name):
            barrier.wait()
            device.launch(f"of {name}", ns=NS)
            barrier.wait()

    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=ACTIVITIES, experimental_config=config) as prof:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.synchronize()
    trace = export(prof)
    assert owned(trace, "one") == [["of one"]]
    assert owned(trace, "two") == [["of two"]]


@pytest.mark.parametrize("steps", [1, 3])
def test_a_range_around_backward_owns_the_work_of_backwards_thread(export, steps):
    x = torch.ones(8, 8, device="spyre", requires_grad=True)
    with profile(activities=ACTIVITIES) as prof:
        for _ in range(steps):
            y = (x @ x).relu()
            with record_function("bwd"):
                y.backward(torch.ones_like(y))
        torch.spyre.synchronize()
    trace = export(prof)
    spans = [e for e in trace.of("gpu_user_annotation") if e["name"] == "bwd"]
    assert len(spans) == steps
    host = {e["ts"]: e for e in trace.of("user_annotation") if e["name"] == "bwd"}
    calls = {e["args"]["correlation"]: e for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]}
    for begin, annotation in host.items():
        inside = [
            k for k in trace.kernels if begin <= calls[k["args"]["correlation"]]["ts"] < begin + annotation["dur"]
        ]
        first = min(k["ts"] for k in inside)
        last = max(k["ts"] + k["dur"] for k in inside)
        assert any(abs(s["ts"] - first) < 0.01 and abs(s["ts"] + s["dur"] - last) < 0.01 for s in spans)
        assert len(inside) >= 3


@pytest.mark.parametrize("steps", [1, 3])
def test_the_range_around_backward_has_its_device_time_in_events_and_key_averages(steps):
    x = torch.ones(8, 8, device="spyre", requires_grad=True)
    with kineto_spyre.profile_spyre() as prof:
        for _ in range(steps):
            with record_function("step"):
                y = (x @ x).relu()
                gradient = torch.ones_like(y)
                with record_function("bwd"):
                    y.backward(gradient)
    device = [e for e in prof.events() if e.device_type == DeviceType.PrivateUse1 and not e.is_user_annotation]
    total = sum(e.device_time_total for e in device)
    rows = {e.key: e for e in prof.key_averages() if e.device_type == DeviceType.CPU and e.key in ("step", "bwd")}
    assert rows["step"].device_time_total == pytest.approx(total)
    ops = [e for e in prof.events() if e.name in ("aten::mm", "aten::relu", "aten::ones_like")]
    caller = next(e.thread for e in prof.events() if e.name == "bwd" and e.device_type == DeviceType.CPU)
    before = sum(e.device_time_total for e in ops if e.thread == caller)
    assert 0 < rows["bwd"].device_time_total == pytest.approx(total - before)
    assert rows["bwd"].self_device_time_total == pytest.approx(0, abs=1e-6)
    again = {e.key: e for e in prof.key_averages() if e.device_type == DeviceType.CPU}
    assert again["bwd"].device_time_total == rows["bwd"].device_time_total
