"""Beside idle time: collectives, waiting, what bounds kernels, shapes, outliers, the link, memory."""

from __future__ import annotations

import json

import pytest
from hand_made_work import as_bytes, kernel, launch, slice_

from kineto_spyre.report import make


def facts(events, link=None):
    return make(as_bytes(events), link).facts


def op(name, number, ts, dims, types, dur=5, tid=1):
    return slice_("cpu_op", name, ts, dur, 1, tid, **{"External id": number, "Input Dims": dims, "Input type": types})


@pytest.mark.parametrize(
    "name, more",
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", {}),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", {}),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", {}),
        ("oneccl_allreduce_kernel", {}),
        ("some_kernel_of_a_vendor", {"Collective name": "reduce_scatter"}),
    ],
)
def test_a_collective_on_a_device_is_recognised(name, more):
    one = slice_("kernel", name, 10, 5, 0, 1, device=0, stream=1, correlation=1, **more)
    assert facts([one])["devices"][0]["by_kind"]["collectives"] == 5_000


@pytest.mark.parametrize("name", ["ampere_sgemm_64x64_nn", "vectorized_reduce_kernel", "all_heads_attention", "gather"])
def test_other_kernels_are_none(name):
    one = slice_("kernel", name, 10, 5, 0, 1, device=0, stream=1, correlation=1)
    assert facts([one])["devices"][0]["by_kind"]["collectives"] == 0


@pytest.mark.parametrize("name", ["record_param_comms", "c10d::allreduce_", "_c10d_functional::all_reduce"])
def test_the_host_in_a_collective_is_that_and_no_host_time(name):
    events = [slice_("cpu_op", name, 0, 80), launch(100, 1, 0), kernel(102, 10, 1, 0)]
    causes = {one["cause"]: one for one in facts(events)["devices"][0]["causes"]}
    assert causes["collective"]["duration"] == 80_000 and causes["collective"]["where"][0]["op"] == name
    assert causes["host"]["duration"] == 20_000


def test_the_host_outside_any_op_while_gloo_works_waits_for_it():
    """As torch writes it: the op returns at once, and gloo's own thread has the range."""
    events = [
        slice_("cpu_op", "c10d::allreduce_", 0, 10),
        slice_("user_annotation", "gloo:all_reduce", 5, 70, 1, 2),
        slice_("cpu_op", "aten::busy", 30, 20),
        launch(100, 1, 0), kernel(102, 10, 1, 0),
    ]  # fmt: skip
    causes = {one["cause"]: one["duration"] for one in facts(events)["devices"][0]["causes"]}
    assert causes == {"collective": 55_000, "host": 45_000, "launch latency": 2_000}


def collective(ts, dur, correlation, nelems=100, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"):
    args = {"Collective name": "allreduce", "In msg nelems": nelems, "device": 0, "stream": 1}
    return slice_("kernel", name, ts, dur, 0, 1, correlation=correlation, **args)


def test_what_a_collective_takes_longer_than_its_like_is_waiting():
    events = [launch(0, 1, 0), collective(2, 10, 1), launch(20, 2, 0), collective(22, 100, 2),
              launch(130, 3, 0), collective(132, 50, 3, nelems=999)]  # fmt: skip
    step = facts(events)["steps"][0]
    assert step["parts"]["waiting on another rank"] == 90_000  # 100 less 10; the third is alone of its size
    assert step["parts"]["collectives"] == 70_000
    assert step["bound_by"] == "waiting on another rank" and "waiting on another rank" in step["verdict"]
    assert sum(step["parts"].values()) == step["duration"]


def test_cycle_stamps_tell_compute_from_memory():
    def stamped(ts, correlation, stamps, name):
        return slice_("kernel", name, ts, 20, 0, 1, device=0, stream=1, correlation=correlation, cycles_ts=stamps)

    wrapped = [2**32 - 50, 2**32 - 40, 0, 900, 910]  # computes for 900 cycles, moves for 20
    found = facts([
        launch(0, 1, 0), stamped(2, 1, wrapped, "c"), launch(3, 2, 0), stamped(22, 2, [0, 500, 510, 600, 1100], "m"),
        launch(4, 3, 0), stamped(42, 3, [0, 0, 0, 0, 0], "u"),
    ])  # fmt: skip
    assert {one["name"]: one["bound"] for one in found["kernels"]} == {
        "c": "compute", "m": "device memory", "u": "unknown"
    }  # fmt: skip
    assert found["steps"][0]["bound"] == {"compute": 20_000, "device memory": 20_000, "unknown": 20_000}
    assert "does not tell which" in found["steps"][0]["verdict"]  # none of the three has more than half
    only = facts([launch(0, 1, 0), stamped(2, 1, wrapped, "c")])["steps"][0]
    assert only["bound_by"] == "compute" and "compute" in only["verdict"]


@pytest.mark.parametrize(
    "name, dims, types, bound",
    [
        ("aten::mm", [[8192, 8192], [8192, 8192]], ["c10::Half", "c10::Half"], "compute"),
        ("aten::mm", [[1, 4096], [4096, 4096]], ["float", "float"], "device memory"),
        ("aten::mm", [[512, 512], [512, 512]], ["float", "float"], "unknown"),
        ("aten::addmm", [[8192], [8192, 8192], [8192, 8192]], ["c10::BFloat16"] * 3, "compute"),
        ("aten::add", [[4096, 4096], [4096, 4096], []], ["float", "float", "Scalar"], "device memory"),
        ("aten::some_op", [[4096, 4096]], ["float"], "unknown"),
    ],
)
def test_shapes_tell_compute_from_memory_where_they_can(name, dims, types, bound):
    found = facts([op(name, 7, 0, dims, types), launch(1, 1, 7), kernel(3, 10, 1, 7)])
    assert found["kernels"][0]["bound"] == bound
    assert json.loads(found["shapes"][0]["shape"]) == dims


def test_kernels_are_grouped_by_shape():
    small, large = [[8, 8], [8, 8]], [[64, 64], [64, 64]]
    events = []
    for n, (dims, dur) in enumerate([(small, 3), (large, 20), (small, 5)], 1):
        events += [
            op("aten::mm", n, 100 * n, dims, ["float"] * 2),
            launch(100 * n + 1, n, n),
            kernel(100 * n + 3, dur, n, n),
        ]
    found = facts(events)
    assert [(json.loads(one["shape"]), one["count"], one["total"]) for one in found["shapes"]] == [
        (large, 1, 20_000), (small, 2, 8_000),
    ]  # fmt: skip


def steps_of(lengths):
    events, at = [], 0
    for n, length in enumerate(lengths, 1):
        events += [slice_("user_annotation", f"ProfilerStep#{n}", at, length), launch(at, n, 0),
                   kernel(at + 2, length - 4, n, 0)]  # fmt: skip
        at += length
    return events


def test_an_outlier_is_named_with_its_part():
    found = facts(steps_of([100, 101, 99, 100, 180, 100, 100]))
    assert [one["title"] for one in found["outliers"]] == ["step 5"]
    assert found["outliers"][0]["part"] == "kernels" and found["outliers"][0]["excess"] == 80_000
    assert found["outliers"][0]["part_excess"] == 80_000


@pytest.mark.parametrize("lengths", [[100, 101, 99, 100, 104, 100], [100, 100, 500], [80, 120, 95, 130, 70, 110, 100]])
def test_noise_and_few_steps_have_no_outlier(lengths):
    assert facts(steps_of(lengths))["outliers"] == []


def copy(ts, dur, size, correlation, name="Memcpy (HtoD)"):
    return slice_("gpu_memcpy", name, ts, dur, 0, 200, device=0, stream=200, bytes=size, correlation=correlation)


def test_copies_are_measured_against_the_link():
    events = [copy(0, 10, 100_000, 1), copy(20, 10, 300_000, 2), copy(40, 10, 1, 3, "Memcpy (PtoP)")]
    found = facts(events)
    assert found["link"] == {"rate": pytest.approx(30.0), "source": "the best copy of the trace"}
    both = {one["name"]: one["of_link"] for one in found["copies"]}
    assert both == {"Memcpy (HtoD)": pytest.approx(20 / 30), "Memcpy (PtoP)": None}
    assert facts(events, link=40.0)["copies"][0]["of_link"] == pytest.approx(0.5)


def memory(ts, address, size, total, kind=20):
    args = {"Device Type": kind, "Device Id": 0, "Addr": address, "Bytes": size, "Total Allocated": total,
            "Total Reserved": total}  # fmt: skip
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": args,
    }


def test_memory_names_what_was_alive_at_the_peak():
    events = [
        slice_("user_annotation", "forward", 0, 100), slice_("cpu_op", "aten::mm", 10, 20),
        slice_("python_function", "nn.Module: Linear_0", 5, 30), slice_("cpu_op", "aten::relu", 50, 20),
        memory(12, 1, 1000, 1500), memory(15, 2, 70, 1570), memory(20, 2, -70, 1500),
        memory(55, 2, 400, 1900), memory(60, 1, -1000, 900), memory(70, 3, 900, 1800), memory(80, 3, -900, 900),
        launch(90, 1, 0), kernel(92, 5, 1, 0),
    ]  # fmt: skip
    (found,) = facts(events)["memory"]
    assert found["peak"] == {"time": 55_000, "allocated": 1900, "reserved": 1900}
    assert found["alive"] == [
        {"op": "aten::mm", "module": "Linear_0", "range": "forward", "bytes": 1000, "count": 1},
        {"op": "aten::relu", "module": "", "range": "forward", "bytes": 400, "count": 1},
    ]
    assert found["before"] == 500 and found["begin"] == 500 and found["end"] == 900
    assert max(value for _, value in found["curve"]) == 1900
    text = str(make(as_bytes(events)))
    assert "At the peak 1.86 KiB were allocated." in text and "Linear_0" in text


def test_the_curve_of_many_calls_is_short_and_keeps_the_peak():
    events = [memory(n, n, 1, n if n != 5000 else 99_999) for n in range(1, 10_000)]
    (found,) = facts([*events, launch(0, 1, 0), kernel(2, 5, 1, 0)])["memory"]
    assert len(found["curve"]) <= 300 and max(value for _, value in found["curve"]) == 99_999
