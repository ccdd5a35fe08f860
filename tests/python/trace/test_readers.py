"""What PyTorch itself makes of a profile: events, tables, stacks, modules, memory, schedules, observers."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import warnings

import pytest
import torch
from torch.profiler import ExecutionTraceObserver, profile, record_function, schedule

import kineto_spyre

from .conftest import ACTIVITIES, Trace, device_ns, is_cpu, session


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("spyre")


def test_key_averages_by_shape_tell_device_time_apart(device):
    small, large = torch.randn(8, 8, device="spyre"), torch.randn(512, 512, device="spyre")
    with profile(activities=ACTIVITIES, record_shapes=True) as prof:
        small @ small
        large @ large
        torch.spyre.synchronize()
    rows = {
        str(row.input_shapes): row.self_device_time_total
        for row in prof.key_averages(group_by_input_shape=True)
        if row.key == "aten::mm"
    }
    assert 0 < rows["[[8, 8], [8, 8]]"] < rows["[[512, 512], [512, 512]]"]


def test_table_has_the_device_columns_and_sorts_by_them(device, op):
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("k", ns=3000))
        device.synchronize()
    table = prof.key_averages().table(sort_by="self_device_time_total", row_limit=2)
    assert "Self SPYRE" in table and "SPYRE total" in table
    assert "3.000us" in table
    total = prof.key_averages().total_average()
    assert total.self_device_time_total >= 3


def test_stacks(device, tmp_path):
    x = torch.randn(32, 32, device="spyre")

    def the_caller():
        return x @ x

    # Stacks of events, as opposed to those of the trace, are an experimental setting of PyTorch's.
    config = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=ACTIVITIES, with_stack=True, experimental_config=config) as prof:
        the_caller()
        torch.spyre.synchronize()
    rows = [r for r in prof.key_averages(group_by_stack_n=5) if r.key == "aten::mm"]
    assert any("the_caller" in line for row in rows for line in row.stack)
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path), metric="self_privateuse1_time_total")
    lines = path.read_text().splitlines()
    assert any("the_caller" in line for line in lines)
    assert all(int(line.rsplit(" ", 1)[1]) > 0 for line in lines)


def test_modules(export):
    net = model()
    x = torch.randn(2, 16, device="spyre")
    with profile(activities=ACTIVITIES, with_stack=True, with_modules=True) as prof:
        net(x)
        torch.spyre.synchronize()
    trace = export(prof)
    assert any("nn.Module: Linear" in e["name"] for e in trace.of("python_function"))
    assert trace.kernels
    assert trace.overlaps_by_row() == []


def test_memory_columns_and_events(export):
    kept = torch.empty(1 << 10, device="spyre")  # so that what is allocated is never nothing
    with profile(activities=ACTIVITIES, profile_memory=True) as prof:
        x = torch.empty(1 << 20, device="spyre")
        address, allocated, reserved = x.data_ptr(), torch.spyre.memory_allocated(), torch.spyre.memory_reserved()
        del x
        torch.spyre.synchronize()
    assert "SPYRE Mem" in prof.key_averages().table()
    [empty] = [e for e in prof.key_averages() if e.key == "aten::empty"]
    assert empty.self_device_memory_usage == 4 << 20
    memory = [e["args"] for e in export(prof).events if e["ph"] == "i" and e["name"] == "[memory]"]
    on_device = [m for m in memory if m["Device Type"] == 20]
    assert [m["Bytes"] for m in on_device] == [4 << 20, -(4 << 20)]
    assert {(m["Addr"], m["Device Id"]) for m in on_device} == {(address, 0)}
    assert [m["Total Allocated"] for m in on_device] == [allocated, allocated - (4 << 20)]
    assert {m["Total Reserved"] for m in on_device} == {reserved}
    assert allocated - (4 << 20) >= kept.nbytes


def test_memory_timeline(tmp_path):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with profile(activities=ACTIVITIES, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        for _ in range(2):
            net(torch.randn(4, 16, device="spyre")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.spyre.synchronize()
    assert prof._memory_profile().timeline
    path = tmp_path / "memory.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        prof.export_memory_timeline(str(path), device="spyre:0")
    times, sizes = json.loads(path.read_text())
    assert times and len(times) == len(sizes)
    assert max(sum(row) for row in sizes) > 0


def test_trace_only(device, export):
    if "trace_only" not in torch._C._profiler._ExperimentalConfig.__init__.__doc__:
        pytest.skip("this release has no trace_only")
    config = torch._C._profiler._ExperimentalConfig(trace_only=True)
    with profile(activities=ACTIVITIES, experimental_config=config) as prof:
        device.launch("k", ns=1000)
        device.synchronize()
    assert [k["name"] for k in export(prof).kernels] == ["k"]


def test_the_autograd_profiler(device, op):
    with torch.autograd.profiler.profile(use_device="spyre", use_kineto=True) as prof:
        op("a", lambda: device.launch("k", ns=2000))
        device.synchronize()
    assert sum(e.self_device_time_total for e in prof.function_events if e.name == "kineto_spyre_tests::a") == 2.0
    assert "Self SPYRE" in prof.table()


def test_the_autograd_profiler_without_kineto(device, op, capfd):
    # Marks on the device's stream around each op, instead of records of what the device did.
    with torch.autograd.profiler.profile(use_device="spyre") as prof:
        op("a", lambda: device.launch("k", ns=5_000_000))
        op("b", lambda: None)
    time = {e.name: e.device_time_total for e in prof.function_events if e.name.startswith("kineto_spyre_tests")}
    assert time["kineto_spyre_tests::a"] >= 5000 > time["kineto_spyre_tests::b"]
    assert "Self SPYRE" in prof.table()
    assert "Exception in RecordFunction callback" not in capfd.readouterr().err


def test_execution_trace_observer(device, op, tmp_path):
    path = tmp_path / "execution.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    with profile(activities=ACTIVITIES, execution_trace_observer=observer) as prof:
        op("a", lambda: device.launch("k", ns=2000))
        device.synchronize()
    assert device_ns(prof, "kineto_spyre_tests::a") == 2000
    nodes = json.loads(path.read_text())["nodes"]
    assert any(node["name"] == "kineto_spyre_tests::a" for node in nodes)


def test_accumulated_events(device, op):
    with profile(
        activities=ACTIVITIES, schedule=schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=True
    ) as prof:
        for step in range(4):
            op("a", lambda step=step: device.launch(f"step {step}", ns=1000))
            device.synchronize()
            prof.step()
    assert sorted(e.name for e in prof.events() if e.name.startswith("step ") and not is_cpu(e)) == ["step 1", "step 3"]
    assert device_ns(prof, "kineto_spyre_tests::a") == 2000


def test_only_the_device(device, export):
    with profile(activities=ACTIVITIES[1:]) as prof:
        device.launch("k", ns=1000)
        device.synchronize()
    trace = export(prof)
    assert [k["name"] for k in trace.kernels] == ["k"]
    assert not trace.of("cpu_op")


def test_only_some_kinds(device, op, export):
    if not hasattr(torch.profiler.profiler, "_parse_activities"):
        pytest.skip("this release of PyTorch has no choice of activities within a device")
    with profile(activities=[ACTIVITIES[0], {ACTIVITIES[1]: ["CONCURRENT_KERNEL"]}]) as prof:
        op("a", lambda: device.launch("k", ns=1000))
        device.copy("HtoD", 100)
        device.synchronize()
    trace = export(prof)
    assert [k["name"] for k in trace.kernels] == ["k"]
    assert not trace.of("gpu_memcpy")
    assert device_ns(prof, "kineto_spyre_tests::a") == 1000


def test_a_profile_of_the_cpu_alone_is_not_ours(device, export):
    before = session().details
    sessions = kineto_spyre.status().sessions
    with profile(activities=ACTIVITIES[:1]) as prof:
        device.launch("k", ns=1000)
        device.synchronize()
    trace = export(prof)
    assert "kineto_spyre" not in trace.json
    assert not trace.kernels and not trace.of("privateuse1_runtime")
    assert kineto_spyre.status().sessions == sessions
    assert session().details == before


def test_the_tensorboard_handler_writes_what_we_say(device, tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), use_gzip=True)
    with profile(activities=ACTIVITIES, on_trace_ready=handler) as prof:
        device.launch("k", ns=1000)
        device.synchronize()
        prof.step()
    [path] = tmp_path.glob("*.pt.trace.json.gz")
    trace = Trace(path)
    assert trace.metadata["captured"]["kernel"] == 1
    with gzip.open(path, "rt") as file:
        text = file.read()
    # torch-tb-profiler takes the last bracket of the file for the end of the events.
    _, end = json.JSONDecoder().raw_decode(text, text.index("[", text.index('"traceEvents"')))
    assert text.rindex("]") == end - 1


def test_metadata_of_the_user_stands_beside_ours(device, export):
    with profile(activities=ACTIVITIES) as prof:
        prof.add_metadata("mine", "value")
        prof.add_metadata_json("list", "[1, 2]")
        device.launch("k", ns=1000)
        device.synchronize()
    trace = export(prof)
    assert (trace.json["mine"], trace.json["list"]) == ("value", [1, 2])
    assert trace.metadata["runtime"] == "emulated"


def test_nested_ranges_of_threads(device, op, export):
    def work(name):
        with record_function(name):
            for i in range(20):
                op_name = "a" if name == "one" else "b"
                op(op_name, lambda i=i: device.launch(f"{name} {i}", ns=2000))

    with profile(activities=ACTIVITIES) as prof:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        with contextlib.ExitStack() as stack:
            for thread in threads:
                thread.start()
                stack.callback(thread.join)
        device.synchronize()
    trace = export(prof)
    assert len(trace.kernels) == 40
    assert trace.overlaps_by_row() == []
    assert set(trace.flows("s").values()) == {1}
    # PyTorch profiles threads that it did not start only if asked to: their launches are known, their ops are not.
    assert device_ns(prof, "kineto_spyre_tests::a") == 0


def test_ops_of_all_threads(device, op, export):
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=ACTIVITIES, experimental_config=config) as prof:
        thread = threading.Thread(target=lambda: op("a", lambda: device.launch("k", ns=2000)))
        thread.start()
        thread.join()
        device.synchronize()
    trace = export(prof)
    [kernel], [host] = trace.kernels, trace.named("kineto_spyre_tests::a")
    assert kernel["args"]["External id"] == host["args"]["External id"]
