"""Each rule of `kineto-spyre check`: a sound trace is spoilt in one way, and that is what must be reported."""

from __future__ import annotations

import copy
import math
from collections import Counter

import pytest
from hand_made import BASE, Trace, arrow, slice_

from kineto_spyre.traces import check
from kineto_spyre.traces.rules import RULES


def report(tmp_path, trace):
    path = tmp_path / "trace.json"
    path.write_text(trace if isinstance(trace, str) else trace.text())
    return check(str(path))


def found(report):
    counts = Counter()
    for finding in report["findings"]:
        counts[finding["rule"]] += finding["count"]
    return dict(counts)


def test_a_sound_trace_has_no_finding(tmp_path):
    assert found(report(tmp_path, Trace())) == {}


def as_of_another_device(t):
    """The same trace as if it came from a CUDA device."""
    t.head = {"deviceProperties": [{"id": i, "name": "NVIDIA"} for i in range(8)]}
    t.names[-1]["args"]["labels"] = "GPU 0"
    for event in (t.launch, t.copy_call, t.set_call):
        event.update(cat="cuda_runtime", name="cudaLaunchKernel")
    t.copy["name"] = "Memcpy DtoH (Device -> Pinned)"


# Rule -> (how to spoil a sound trace, what must be found: this rule's count, and rules that follow from the same fault)
SPOILT = {}


def spoilt(rule, count=1, **also):
    def keep(function):
        SPOILT[rule] = (function, {rule: count} | {name.replace("_", "-"): n for name, n in also.items()})
        return function

    return keep


@spoilt("malformed-event", 6)
def _(t):
    t.add({"ph": "X", "name": "no time", "pid": 1, "tid": 1, "dur": 1})
    t.add({"ph": "X", "name": "text as time", "pid": 1, "tid": 1, "dur": 1, "ts": "12"})
    t.add({"ph": "X", "name": "no track", "dur": 1, "ts": 1})
    t.add({"ph": "X", "name": "no duration", "pid": 1, "tid": 1, "ts": 1})
    t.add({"name": "no phase"}, "not an event")


@spoilt("not-strict-json", malformed_event=1)
def _(t):
    t.add(slice_("nan", "cpu_op", 4321, 9, 1.0, math.nan))


@spoilt("unbalanced", 2, contract_phase=5)
def _(t):
    where = {"pid": 4321, "tid": 9, "name": "f"}
    t.add({"ph": "E", "ts": BASE, **where}, {"ph": "B", "ts": BASE + 1, **where}, {"ph": "E", "ts": BASE + 2, **where})
    t.add({"ph": "B", "ts": BASE + 3, **where}, {"ph": "b", "ts": BASE + 3, "id": 1, **where})


@spoilt("negative-duration")
def _(t):
    t.op["dur"] = -2.0


@spoilt("absurd-duration")
def _(t):
    t.step["dur"] = 90_000e6


@spoilt("absurd-time")
def _(t):
    t.add(slice_("at zero", "cpu_op", 4321, 9, -BASE, 1.0))


@spoilt("out-of-window")
def _(t):
    late = slice_("late", "kernel", 0, 1, 1_200_000.0, 1.0, correlation=104, stream=1, device=0)
    call = slice_("aiuLaunchControlBlocks", "privateuse1_runtime", 4321, 4322, 13.0, 1.0, correlation=104)
    t.add(late, call, arrow("s", 104, 4321, 4322, 13.0), arrow("f", 104, 0, 1, 1_200_000.0))


@spoilt("long-kernel")
def _(t):
    t.span["dur"] = 3e6
    t.kernel["dur"] = 1_200_000.0


@spoilt("device-overlap")
def _(t):
    t.copy["tid"] = 1
    t.copy["ts"] = BASE + 12.0  # inside the kernel
    t.copy["args"]["stream"] = 1
    for event in t.events:
        if event["ph"] == "f" and event["id"] == 102:
            event.update(tid=1, ts=BASE + 12.0)


@spoilt("track-overlap")
def _(t):
    t.add(slice_("crosses the op", "cpu_op", 4321, 4322, 20.0, 30.0))


@spoilt("estimate-overlap")
def _(t):
    t.add(slice_("frame.py(1): f", "python_function", 4321, 4322, 20.0, 30.0))


@spoilt("duplicate", contract_launch=1)
def _(t):
    t.add(copy.deepcopy(t.launch))


@spoilt("kernel-before-launch")
def _(t):
    t.kernel["ts"] = t.end["ts"] = BASE + 1.0


@spoilt("orphan")
def _(t):
    t.remove(t.launch, t.start, t.end)


@spoilt("unlinked", contract_correlation=1, launch_without_work=1)
def _(t):
    del t.kernel["args"]["correlation"]


@spoilt("no-launches", 3)
def _(t):
    t.remove(*(e for e in t.events if e["ph"] in "sf" or e.get("cat") == "privateuse1_runtime"))


@spoilt("launch-without-work")
def _(t):
    t.remove(t.kernel, t.start, t.end)


@spoilt("missing-flow")
def _(t):
    t.remove(t.start, t.end)


@spoilt("flow-end")
def _(t):
    t.remove(t.start)


@spoilt("flow-stray", 2)
def _(t):
    as_of_another_device(t)
    t.add(arrow("s", 105, 4321, 4322, 3.0), arrow("f", 106, 4321, 4322, 3.0))


@spoilt("contract-arrow", missing_flow=1)
def _(t):
    t.remove(t.end)


@spoilt("flow-reused")
def _(t):
    t.add(arrow("s", 101, 4321, 4322, 2.5))


@spoilt("flow-unbound")
def _(t):
    t.start["ts"] = BASE + 90.0


@spoilt("link-differs")
def _(t):
    t.kernel["args"]["External id"] = 101


@spoilt("empty")
def _(t):
    t.events = t.names


@spoilt("incomplete", 5)
def _(t):
    t.head["kineto_spyre"] = {"dropped": 3, "invalid": {"start 0": 2}}


@spoilt("counter-value")
def _(t):
    t.add({"ph": "C", "name": "pwr (W)", "pid": 0, "tid": 0, "ts": BASE, "args": {"W": "41"}})


@spoilt("contract-properties")
def _(t):
    t.head["deviceProperties"] *= 2


@spoilt("contract-phase")
def _(t):
    t.add({"ph": "n", "name": "async", "cat": "c", "id": 1, "pid": 4321, "tid": 9, "ts": BASE})


@spoilt("contract-category")
def _(t):
    t.add(slice_("Prepare", "device_prepare", 0, 400, 50.0, 1.0))


@spoilt("contract-process")
def _(t):
    t.names[-1]["args"]["labels"] = ""


@spoilt("contract-name", 3)
def _(t):
    t.copy["name"] = "Memcpy DtoH (Device -> Pinned)"
    t.set["name"] = "memset"
    t.add(slice_("Cmpt Exec", "cpu_op", 4321, 9, 1.0, 1.0))


@spoilt("contract-correlation", unlinked=1, orphan=0)
def _(t):
    t.set["args"]["correlation"] = "103"


@spoilt("contract-launch")
def _(t):
    t.add(slice_("aiuRoundtrip", "privateuse1_runtime", 4321, 4322, 14.0, 1.0, correlation=101))


@spoilt("contract-stream", 3)
def _(t):
    t.kernel["args"]["stream"] = 0
    del t.copy["args"]["stream"]
    t.add(slice_("Memory (Release)", "gpu_memset", 0, 400, 50.0, 1.0, correlation=103, stream=400))


@spoilt("contract-track")
def _(t):
    t.copy["args"]["stream"] = 1


@spoilt("contract-device")
def _(t):
    t.kernel["args"]["device"] = 64


@spoilt("contract-bytes", 2)
def _(t):
    t.copy["args"]["memory bandwidth (GB/s)"] = "N/A"
    t.set["args"]["bytes"] = "8"


@spoilt("contract-flow")
def _(t):
    t.add(arrow("s", 101, 4321, 4322, 2.5, "fwdbwd"), arrow("f", 101, 4321, 4322, 3.5, "fwdbwd"))


@spoilt("contract-counter")
def _(t):
    t.add({"ph": "C", "name": "Power", "pid": 0, "tid": 0, "ts": BASE, "args": {"W": 41.5}})


@spoilt("contract-ts")
def _(t):
    t.kernel["args"]["TS1"] = 12


@spoilt("contract-rank")
def _(t):
    t.head["distributedInfo"] = {"backend": "gloo", "rank": "0"}


@spoilt("contract-tail")
def _(t):
    t.tail["devices"] = []


@spoilt("contract-ranges")
def _(t):
    t.add(
        slice_("outer", "gpu_user_annotation", 0, 600, 10.0, 20.0),
        slice_("next", "gpu_user_annotation", 0, 600, 30.0, 5.0),
    )
    t.add(slice_("inner, on another track", "gpu_user_annotation", 0, 601, 12.0, 3.0))
    t.add(slice_("inner, with a stream of its own", "gpu_user_annotation", 0, 602, 12.0, 3.0, stream="level 2"))


@spoilt("contract-steps")
def _(t):
    t.add(slice_("ProfilerStep#1", "gpu_user_annotation", 0, 600, 10.0, 20.0))


@spoilt("contract-memory")
def _(t):
    args = {"Device Type": 20, "Bytes": 64}
    t.add({"ph": "i", "s": "t", "name": "[memory]", "pid": 4321, "tid": 4322, "ts": BASE, "args": args})


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_reports_its_fault_and_nothing_else(tmp_path, rule):
    spoil, expected = SPOILT[rule]
    trace = Trace()
    spoil(trace)
    result = report(tmp_path, trace)
    assert found(result) == {name: count for name, count in expected.items() if count}
    assert result["sound"] == (not any(RULES[name].fault for name, count in expected.items() if count))
    for finding in result["findings"]:
        assert finding["means"] and finding["do"]


def test_first_is_the_earliest_in_time_with_its_place(tmp_path):
    t = Trace()
    t.add(slice_("later", "cpu_op", 4321, 9, 30.0, -1.0), slice_("earlier", "cpu_op", 4321, 8, 20.0, -1.0))
    (finding,) = report(tmp_path, t)["findings"]
    assert finding["first"] == {"name": "earlier", "ts": BASE + 20.0, "pid": 4321, "tid": 8}


def test_kernel_before_launch_names_the_launch(tmp_path):
    t = Trace()
    t.kernel["ts"] = t.end["ts"] = BASE + 1.999  # one nanosecond would be the file's resolution, this is no tolerance
    assert found(report(tmp_path, t)) == {}
    t.kernel["ts"] = t.end["ts"] = BASE + 1.0
    (finding,) = report(tmp_path, t)["findings"]
    assert finding["first"]["launch"] == "aiuLaunchControlBlocks"
    assert finding["first"]["launched"] == BASE + 2.0


@pytest.mark.parametrize("tracks, overlaps", [((1, 1), 1), ((1, 2), 0)])
def test_kernels_overlap_on_one_stream_only(tmp_path, tracks, overlaps):
    t = Trace()
    t.events = [*t.names, t.span]
    for i, (track, ts) in enumerate(zip(tracks, (0.0, 5.0))):
        t.add(slice_(f"k{i}", "kernel", 0, track, ts, 10.0, correlation=200 + i, stream=track, device=0))
    assert found(report(tmp_path, t)).get("device-overlap", 0) == overlaps


def test_touching_and_nested_slices_are_no_overlap(tmp_path):
    t = Trace()
    t.add(*(slice_(f"nested {i}", "cpu_op", 4321, 9, 1.0 + i, 20.0 - 2 * i) for i in range(5)))
    t.add(slice_("touches", "cpu_op", 4321, 9, 21.0, 1.0), slice_("nothing", "cpu_op", 4321, 9, 21.0, 0.0))
    assert found(report(tmp_path, t)) == {}


def test_tracks_out_of_order_and_longer_than_a_run_are_judged_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("kineto_spyre.traces.packed.RUN", 4)
    monkeypatch.setattr("kineto_spyre.traces.judging.PART", 3)
    t = Trace()
    for i in (7, 3, 5, 1, 6, 2, 4, 0, 9, 8):
        t.add(slice_(f"k{i}", "kernel", 0, 1, 100.0 + 10 * i, 11.0, correlation=300 + i, stream=1, device=0))
        t.add(slice_("aiuLaunchControlBlocks", "privateuse1_runtime", 4321, 9, 100.0 + i, 0.5, correlation=300 + i))
        t.add(arrow("s", 300 + i, 4321, 9, 100.0 + i), arrow("f", 300 + i, 0, 1, 100.0 + 10 * i))
    assert found(report(tmp_path, t)) == {"device-overlap": 9}


def test_a_trace_of_whole_microseconds_is_judged_with_that_tolerance(tmp_path):
    events = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":10,"args":{{"correlation":{ts}}}}},'
        f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":5,"tid":5,"ts":{ts - 9},"dur":1,'
        f'"args":{{"correlation":{ts}}}}},'
        f'{{"ph":"s","id":{ts},"cat":"ac2g","name":"ac2g","pid":5,"tid":5,"ts":{ts - 9}}},'
        f'{{"ph":"f","id":{ts},"cat":"ac2g","name":"ac2g","pid":0,"tid":7,"ts":{ts},"bp":"e"}}'
        for ts in (1000, 1009, 1017)  # the second shares 1 us with the first: rounding; the third 2 us: an overlap
    )
    result = report(tmp_path, f'{{"traceEvents":[{events}]}}')
    assert found(result) == {"device-overlap": 1}
    assert result["findings"][0]["first"]["ts"] == 1017


def test_another_devices_trace_is_not_held_to_the_spyre_contract(tmp_path):
    t = Trace()
    as_of_another_device(t)
    t.tail["more"] = []
    result = report(tmp_path, t)
    assert found(result) == {} and result["spyre"] is False


def test_a_driver_call_may_share_its_launchs_correlation(tmp_path):
    t = Trace()
    t.add(slice_("aiuSubmitToHardware", "privateuse1_driver", 4321, 4322, 3.0, 1.0, correlation=101))
    assert found(report(tmp_path, t)) == {}


def test_more_names_than_are_kept_lose_names_but_no_finding(tmp_path, monkeypatch):
    monkeypatch.setattr("kineto_spyre.traces.collecting.NAMES", 3)
    t = Trace()
    t.kernel["ts"] = t.end["ts"] = BASE + 1.0
    (finding,) = report(tmp_path, t)["findings"]
    assert finding["rule"] == "kernel-before-launch" and finding["first"]["ts"] == BASE + 1.0


@pytest.mark.parametrize(
    "key, value, what",
    [
        ("traceName", "log/[rank 0].pt.trace.json", "a ] in the trace's file name"),
        ("comment", "a [b]", "a ] in the text of the metadata key comment"),
        ("devices", [1], "a list in the metadata key devices"),
    ],
)
def test_a_bracket_after_the_events_is_called_what_it_is(tmp_path, key, value, what):
    t = Trace()
    t.tail[key] = value
    (finding,) = report(tmp_path, t)["findings"]
    assert finding["rule"] == "contract-tail" and finding["what"].startswith(what)
    assert finding["first"] == {"name": key}
