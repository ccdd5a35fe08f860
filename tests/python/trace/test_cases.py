"""The cases of a right trace, through the stock profiler, over the emulated device."""

from __future__ import annotations

import collections
import threading

import pytest
import torch
from torch.profiler import profile, record_function, schedule

import kineto_spyre
from kineto_spyre import emulator

from .conftest import ACTIVITIES, device_ns, is_cpu, session

MS = 1_000_000


def test_case_1_device_time_goes_to_the_op_that_launched(device, op, export):
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("case1", ns=MS))
        op("b", lambda: None)
        device.synchronize()
    trace = export(prof)
    [kernel] = trace.named("case1")
    [launch] = [
        e for e in trace.of("privateuse1_runtime") if e["args"].get("correlation") == kernel["args"]["correlation"]
    ]
    [host] = trace.named("kineto_spyre_tests::a")
    assert kernel["args"]["External id"] == launch["args"]["External id"] == host["args"]["External id"]
    assert device_ns(prof, "kineto_spyre_tests::a") == MS
    assert device_ns(prof, "kineto_spyre_tests::b") == 0
    assert [k.name for e in prof.events() if e.name == "kineto_spyre_tests::a" for k in e.kernels] == ["case1"]


def test_case_2_one_arrow_a_launch_and_its_work(device, op, export):
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("one", ns=1000))
        device.launch("three", ns=1000, count=3)
        device.synchronize()
    trace = export(prof)
    correlation = {k["name"]: k["args"]["correlation"] for k in trace.kernels}
    assert trace.flows("s") == collections.Counter([correlation["one"], correlation["three"]])
    assert trace.flows("f") == collections.Counter([correlation["one"]] + 3 * [correlation["three"]])
    hosts = collections.Counter(
        e["args"]["correlation"] for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]
    )
    assert set(hosts.values()) == {1}
    fwdbwd = [e["id"] for e in trace.events if e.get("cat") == "fwdbwd"]
    assert min(trace.flows("s")) > max(fwdbwd, default=0)


def test_a_call_that_launches_nothing_has_no_correlation(device, export):
    with profile(activities=ACTIVITIES) as prof:
        device.launch("k", ns=1000)
        device.memset(64)
        device.free(device.alloc(64))
        device.synchronize()
    trace = export(prof)
    calls = trace.of("privateuse1_runtime")
    assert "aiuScheduleWait" in {e["name"] for e in calls}
    carried = collections.Counter(e["args"]["correlation"] for e in calls if "correlation" in e["args"])
    allocations = [e for e in trace.events if e["name"].startswith("Memory (")]
    assert len(allocations) == 2
    assert carried == collections.Counter({e["args"]["correlation"]: 1 for e in trace.device_work + allocations})


def test_case_2_arrows_are_above_those_of_the_backward_pass(export):
    x = torch.ones(4, 4, device="spyre", requires_grad=True)
    with profile(activities=ACTIVITIES) as prof:
        (x @ x).relu().sum().backward()
        torch.spyre.synchronize()
    trace = export(prof)
    fwdbwd = [e["id"] for e in trace.events if e.get("cat") == "fwdbwd"]
    assert fwdbwd
    assert min(trace.flows("s")) > max(fwdbwd)
    backward = [e for e in prof.events() if "Backward" in e.name and is_cpu(e) and e.device_time_total > 0]
    assert backward, "work launched by autograd's thread belongs to its ops"


def test_case_3_streams_and_copies_that_overlap(device, export):
    with profile(activities=ACTIVITIES) as prof:
        device.launch("first", ns=10 * MS, stream=1)
        device.launch("second", ns=10 * MS, stream=2)
        device.copy("HtoD", 64 << 20, stream=1)
        device.copy("HtoD", 64 << 20, stream=2)
        device.synchronize()
    trace = export(prof)
    assert session().overlaps == 0
    assert {k["name"]: k["tid"] for k in trace.kernels} == {"first": 1, "second": 2}
    copies = trace.of("gpu_memcpy")
    assert {c["name"] for c in copies} == {"Memcpy (HtoD)"}
    assert sorted(c["tid"] for c in copies) == [100, 101]
    assert all(c["args"]["stream"] == c["tid"] for c in copies)
    assert trace.overlaps_by_row() == []


def test_case_4_odd_records_are_kept(device, export):
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="1 kernel.*second.*'long'"):
        with profile(activities=ACTIVITIES) as prof:
            device.launch("nothing", ns=0)
            device.launch("long", ns=1200 * MS)
            device.synchronize()
    trace = export(prof)
    assert {k["name"]: trace.ns(k)[1] for k in trace.kernels} == {"nothing": 0, "long": 1200 * MS}
    [long] = trace.named("long")
    assert "longer than a second" in long["args"]["note"]
    assert session().details["long_kernels"] == 1
    assert session().invalid == {}


@pytest.mark.parametrize(
    "fault, reason",
    [("zero_start", "start_zero"), ("backwards", "end_before_start"), ("duplicate", "duplicate")],
)
def test_case_4_invalid_records_are_one_warning(device, export, fault, reason):
    with pytest.warns(kineto_spyre.SpyreProfilerWarning) as warned:
        with emulator.faults(**{fault: 2}), profile(activities=ACTIVITIES) as prof:
            for i in range(6):
                device.launch(f"k{i}", ns=1000)
            device.synchronize()
    trace = export(prof)
    assert session().invalid == {reason: 3}
    assert len(trace.kernels) == session().captured["kernel"] == (6 if fault == "duplicate" else 3)
    [found] = session().diagnostics
    assert (found.code, found.count) == (f"invalid_{reason}", 3)
    assert [str(w.message) for w in warned] == session().warnings == [found.sentence]


def test_case_4_a_kernel_before_its_launch_is_aligned(device, export):
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="clock of device 0"):
        with emulator.faults(clock_offset="-5ms"), profile(activities=ACTIVITIES) as prof:
            for _ in range(5):
                device.launch("k", ns=1000)
                device.synchronize()
    trace = export(prof)
    launches = {e["args"]["correlation"]: e for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]}
    assert len(trace.kernels) == 5
    for kernel in trace.kernels:
        assert trace.ns(kernel)[0] >= trace.ns(launches[kernel["args"]["correlation"]])[0]
    clock = session().clock[0]
    assert clock.applied
    assert abs(clock.offset_ns + 5 * MS) < 20_000


def test_case_4_alignment_can_be_turned_off(device, export, monkeypatch):
    monkeypatch.setenv("KINETO_SPYRE_CLOCK_ALIGN", "off")
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="before the call that launched"):
        with emulator.faults(clock_offset="-5ms"), profile(activities=ACTIVITIES) as prof:
            device.launch("k", ns=1000)
            device.synchronize()
    [kernel] = export(prof).kernels
    assert "before the call" in kernel["args"]["note"]
    assert session().details["before_launch"] == 1
    assert not session().clock[0].applied


def test_case_5_each_cycle_has_the_kernels_of_its_active_steps(device, op, tmp_path, export):
    cycles = []

    def ready(prof):
        cycles.append(export(prof))

    with profile(
        activities=ACTIVITIES, schedule=schedule(wait=1, warmup=1, active=3, repeat=2), on_trace_ready=ready
    ) as prof:
        for step in range(10):
            # Launched in its step, still running in the next one.
            op("a", lambda step=step: device.launch(f"step {step}", ns=300_000))
            if step % 5 == 4:
                device.synchronize()
            prof.step()
    assert [[k["name"] for k in trace.kernels] for trace in cycles] == [
        ["step 2", "step 3", "step 4"],
        ["step 7", "step 8", "step 9"],
    ]
    for trace in cycles:
        assert trace.metadata["captured"]["kernel"] == 3
        steps = sorted(
            (
                e
                for e in trace.events
                if e["ph"] == "X" and e["name"].startswith("ProfilerStep") and e["cat"] == "gpu_user_annotation"
            ),
            key=lambda e: e["ts"],
        )
        assert len(steps) == 3
        for step, kernel in zip(steps, sorted(trace.kernels, key=lambda k: k["ts"]), strict=True):
            assert trace.ns(step) == trace.ns(kernel)
            assert step["pid"] == kernel["pid"]


def test_case_6_names_of_all_kinds(device, export):
    names = ['with "quotes"', "back\\slash", "new\nline", "käse €", "x" * 200, "", "\x01\x7f"]
    with profile(activities=ACTIVITIES) as prof:
        for name in names:
            device.launch(name, ns=1000)
        device.synchronize()
    trace = export(prof)  # json.load reads it as UTF-8
    seen = [k["name"] for k in trace.kernels]
    assert seen == [
        "with 'quotes'",
        "back/slash",
        "new line",
        "k<U+00E4>se <U+20AC>",
        "x" * 127,
        "unnamed kernel",
        "  ",
    ]
    assert [e.name for e in prof.events() if not is_cpu(e)] == seen


@pytest.mark.parametrize("fault", ["bad_name", "unterminated"])
def test_case_6_names_that_are_no_text(device, export, fault):
    with emulator.faults(**{fault: 1}), profile(activities=ACTIVITIES) as prof:
        device.launch("k" * 20, ns=1000)
        device.synchronize()
    trace = export(prof)
    [kernel] = trace.kernels
    [event] = [e for e in prof.events() if not is_cpu(e)]
    assert event.name == kernel["name"] != "unknown"
    if fault == "unterminated":
        assert len(kernel["name"]) == 128
    else:
        assert "<0xFF>" in kernel["name"]


def test_case_7_two_devices(devices, op, export):
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: (devices[0].launch("k0", ns=10_000), devices[1].launch("k1", ns=20_000)))
        for device in devices:
            device.synchronize()
    trace = export(prof)
    assert {k["name"]: (k["pid"], k["args"]["device"], k["tid"]) for k in trace.kernels} == {
        "k0": (0, 0, 1),
        "k1": (1, 1, 1),
    }
    labels = {e["pid"]: e["args"]["labels"] for e in trace.events if e["name"] == "process_labels"}
    assert (labels[0], labels[1]) == ("AIU 0", "AIU 1")
    names = {e["pid"]: e["args"]["name"] for e in trace.events if e["name"] == "process_name"}
    assert names[0] and names[1]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events if e["name"] == "thread_name"}
    assert rows[0, 1] == rows[1, 1] == "stream 1"
    assert device_ns(prof, "kineto_spyre_tests::a") == 30_000
    assert len(trace.json["deviceProperties"]) == 1
    assert trace.metadata["devices"] == [0, 1]


def test_ranges_span_their_work_and_nest(device, op, export):
    with profile(activities=ACTIVITIES) as prof:
        with record_function("outer"):
            op("a", lambda: device.launch("k1", ns=1000))
            with record_function("inner"):
                op("a", lambda: device.launch("k2", ns=1000))
                op("a", lambda: device.launch("k3", ns=1000, stream=2))
        with record_function("idle"):
            pass
        device.synchronize()
    trace = export(prof)
    time = {k["name"]: trace.ns(k) for k in trace.kernels}
    spans = {
        (
            e["name"],
            next(
                n["args"]["name"]
                for n in trace.events
                if n["name"] == "thread_name" and (n["pid"], n["tid"]) == (e["pid"], e["tid"])
            ),
        ): trace.ns(e)
        for e in trace.of("gpu_user_annotation")
    }
    assert spans == {
        ("outer", "stream 1 ranges"): (time["k1"][0], sum(time["k2"]) - time["k1"][0]),
        ("inner", "stream 1 ranges"): time["k2"],
        ("outer", "stream 2 ranges"): time["k3"],
        ("inner", "stream 2 ranges"): time["k3"],
    }
    assert trace.overlaps_by_row() == []
    # Each level of ranges has a stream of its own, which is no number: to HTA that would be a kernel's.
    streams = {e["args"]["track"] for e in trace.of("gpu_user_annotation")}
    assert streams == {f"stream {stream} ranges, level {level}" for stream in (1, 2) for level in (1, 2)}
    # The table counts each kernel once, whatever ranges are around it.
    assert device_ns(prof, "outer") == device_ns(prof, "inner") == 0
    assert device_ns(prof, "kineto_spyre_tests::a") == 3000


def test_no_row_is_empty(device, op, export):
    with profile(activities=ACTIVITIES, schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        thread = threading.Thread(target=lambda: device.launch("k0", ns=1000))
        thread.start()
        thread.join()
        device.synchronize()
        prof.step()
        op("a", lambda: device.launch("k1", ns=1000))
        device.synchronize()
    trace = export(prof)
    # Kineto names every thread that it has ever seen; the others are ours.
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events if e["name"] == "thread_name"}
    ours = {row for row, name in names.items() if row[0] == 0 or "no ops recorded" in name}
    assert {(0, 1), (0, 600)} <= ours <= {(e["pid"], e["tid"]) for e in trace.events if e["ph"] == "X"}
    assert trace.metadata["out_of_window"] > 0


def test_what_each_kind_of_event_carries(device, export):
    with profile(activities=ACTIVITIES) as prof:
        device.launch("spyre_kernel_v1_mm_abcdefghijkl2345#0", ns=1000)
        device.copy("DtoH", 5000)
        device.memset(6000)
        address = device.alloc(7000)
        device.free(address)
        device.synchronize()
    trace = export(prof)
    [kernel] = trace.kernels
    args = kernel["args"]
    assert args["provenance_key"] == "abcdefghijkl2345"
    assert args["device"] == 0 and args["stream"] == 1 and isinstance(args["context"], str)
    assert len(args["cycles_ts"]) == 5
    start = trace.ns(kernel)[0]
    assert args["queued"] <= args["submitted"] <= start
    [copy] = trace.of("gpu_memcpy")
    assert copy["name"] == "Memcpy (DtoH)" and copy["tid"] == 200
    assert copy["args"]["bytes"] == 5000
    assert copy["args"]["memory bandwidth (GB/s)"] == pytest.approx(5000 / trace.ns(copy)[1])
    [fill] = trace.named("Memset (Device)")
    assert fill["args"]["bytes"] == 6000 and fill["args"]["stream"] == 400
    for name in ("Memory (Allocation)", "Memory (Release)"):
        [memory] = trace.named(name)
        assert memory["args"]["bytes"] >= 7000 and memory["args"]["address"] == address
        assert "stream" not in memory["args"] and memory["args"]["correlation"] > 0
        assert memory["cat"] == "privateuse1_driver" and memory["tid"] == threading.get_native_id()
    launches = {e["name"]: e["args"] for e in trace.of("privateuse1_runtime")}
    assert launches["aiuLaunchControlBlocks"]["num_cbs"] == 1
    assert launches["aiuDataTransferDtoH"]["bytes"] == 5000
    assert trace.json["deviceProperties"][0]["type"] == "AIU"
    captured = session().captured
    assert captured == {
        "kernel": 1,
        "memcpy": 1,
        "memset": 1,
        "memory": 2,
        "runtime": captured["runtime"],
        "driver": 0,
        "prepare": 0,
    }
    assert captured["runtime"] == len(trace.of("privateuse1_runtime"))


def test_self_times_add_up_to_the_nanosecond():
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to("spyre")
    x = torch.randn(8, 32)
    with profile(activities=ACTIVITIES) as prof:
        for _ in range(3):
            model(x.to("spyre")).sum().backward()
        torch.spyre.synchronize()
    host = sum(round(e.self_device_time_total * 1000) for e in prof.events() if is_cpu(e))
    linked = sum(
        e.duration_ns()
        for e in prof.profiler.kineto_results.events()
        if e.device_type() == torch.autograd.DeviceType.PrivateUse1 and e.linked_correlation_id() > 0
    )
    assert host == linked > 0
    assert session().details["unlinked"] == 0
