"""CUDA's names for tools that know no other."""

from __future__ import annotations

import json

import pytest
from foreign import cuda
from hand_made import Trace, slice_

from kineto_spyre import SpyreProfilerError
from kineto_spyre.traces import Unreadable
from kineto_spyre.traces.cuda_names import renamed


def exported(trace):
    return b"".join(renamed(trace.text().encode()))


def named(content):
    return {event["args"].get("Spyre name", event["name"]): (event["name"], event["cat"])
            for event in json.loads(content)["traceEvents"] if event["ph"] == "X"}  # fmt: skip


def test_a_call_is_named_by_the_work_that_it_started():
    calls = named(exported(Trace()))
    assert calls["aiuLaunchControlBlocks"] == ("cudaLaunchKernel", "cuda_runtime")
    assert calls["aiuDataTransferDtoH"] == ("cudaMemcpyAsync", "cuda_runtime")
    assert calls["aiuMalloc"] == ("cudaMemsetAsync", "cuda_runtime")


def test_a_call_that_started_nothing_keeps_its_name_unless_cuda_has_one():
    trace = Trace()
    trace.add(
        slice_("aiuScheduleWait", "privateuse1_runtime", 4321, 4322, 70.0, 1.0, correlation=900),
        slice_("aiuCompileGraph", "privateuse1_runtime", 4321, 4322, 72.0, 1.0),
        slice_("Memory (Release)", "privateuse1_driver", 4321, 4322, 74.0, 1.0),
    )
    calls = named(exported(trace))
    assert calls["aiuScheduleWait"] == ("cudaStreamSynchronize", "cuda_runtime")
    assert calls["aiuCompileGraph"] == ("aiuCompileGraph", "cuda_runtime")
    assert calls["Memory (Release)"] == ("Memory (Release)", "cuda_driver")


def test_a_launch_of_the_driver_is_where_the_tools_look_for_launches():
    trace = Trace()
    trace.launch["cat"] = "privateuse1_driver"
    assert named(exported(trace))["aiuLaunchControlBlocks"] == ("cudaLaunchKernel", "cuda_runtime")


def test_nothing_else_is_changed():
    trace = Trace()
    before, after = json.loads(trace.text()), json.loads(exported(trace))
    assert list(before) == list(after)
    for old, new in zip(before.pop("traceEvents"), after.pop("traceEvents"), strict=True):
        if old.get("cat") == "privateuse1_runtime":
            assert new["args"].pop("Spyre name") == old["name"]
            old["name"] = old["cat"] = new["name"] = new["cat"] = None
        assert old == new
    assert before == after


def test_numbers_that_a_double_can_not_hold_are_kept_in_calls():
    trace = Trace()
    trace.launch["args"]["address"] = 2**64 - 1
    events = json.loads(exported(trace))["traceEvents"]
    assert [e["args"]["address"] for e in events if "address" in e.get("args", {})] == [2**64 - 1]


def test_a_text_in_a_name_is_no_category():
    trace = Trace()
    trace.op["name"] = 'about "privateuse1_runtime"'
    assert trace.op["name"] in named(exported(trace))


def test_a_trace_without_a_spyres_calls_is_refused():
    with pytest.raises(SpyreProfilerError, match="privateuse1_runtime"):
        renamed(json.dumps(cuda()).encode())


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"null", b"\xff\xfe", b"\x1f\x8b\x08", b'{"traceEvents": 7}'])
def test_what_is_no_trace_is_refused(content):
    with pytest.raises(Unreadable):
        renamed(content)


def test_a_trace_that_is_cut_off_is_refused():
    with pytest.raises(Unreadable, match="truncated"):
        renamed(Trace().text().encode()[:-200])
