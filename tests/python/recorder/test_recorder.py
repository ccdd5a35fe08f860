"""The flight recorder: what goes round, what a dump holds, sessions on top, and all that may go wrong."""

from __future__ import annotations

import json
import os
import pathlib
import threading
from collections import Counter

import pytest
from dumps import events_of

import kineto_spyre
from kineto_spyre import SpyreProfilerError, traces

torch = pytest.importorskip("torch")


def exact(path) -> tuple[int, list[dict]]:
    """The base of a trace's times, and its slices with `begin` and `end` in nanoseconds since the epoch."""
    document = json.loads(pathlib.Path(path).read_text())
    base = document["baseTimeNanoseconds"]
    slices = [event for event in document["traceEvents"] if event["ph"] == "X" and event.get("cat") != "Trace"]
    for event in slices:
        event["begin"] = base + round(event["ts"] * 1000)
        event["end"] = event["begin"] + round(event["dur"] * 1000)
    return base, slices


DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "privateuse1_runtime")


def test_a_dump_is_a_sound_trace_with_ops_ranges_and_linked_kernels(recorder, work):
    for number in range(10):
        work(f"request {number}")
    dump = recorder.dump()
    assert dump.complete
    assert dump.kernels == 30
    report = traces.check(dump.path)
    assert report["sound"], report["findings"]
    assert report["spyre"]
    ops = {event["args"]["External id"]: event["name"] for event in events_of(dump.path, "cpu_op")}
    kernels = events_of(dump.path, "kernel")
    assert Counter(ops[kernel["args"]["External id"]] for kernel in kernels) == {
        "aten::mm": 10, "aten::relu": 10, "aten::sum": 10,
    }  # fmt: skip
    ranges = [event["name"] for event in events_of(dump.path, "user_annotation")]
    assert ranges == [f"request {number}" for number in range(10)]
    on_device = [event["name"] for event in events_of(dump.path, "gpu_user_annotation")]
    assert set(on_device) == set(ranges)


def test_a_session_on_top_and_the_recorder_hold_the_same(recorder, work, tmp_path):
    """Kernels, calls, copies: names, times, tracks, launches. Neither loses what the other has."""
    work("before")
    with kineto_spyre.profile_spyre(record_shapes=False) as prof:
        for number in range(20):
            work(f"request {number}")
    work("after")
    session = kineto_spyre.last_session()
    assert session.complete, session.diagnostics
    theirs = tmp_path / "kineto.json"
    prof.export_chrome_trace(str(theirs))
    dump = recorder.dump(tmp_path / "ours.json")
    assert dump.complete
    begin, end = session.details["window_begin_ns"], session.details["window_end_ns"]

    def held(path):
        _, slices = exact(path)
        inside = [event for event in slices if event["cat"] in DEVICE and begin <= event["begin"] <= end]
        work = Counter(
            (event["cat"], event["name"], event["begin"], event["end"], event["pid"], event["tid"],
             event["args"].get("bytes"))
            for event in inside if event["cat"] != "privateuse1_runtime"
        )  # fmt: skip
        return work, Counter((e["name"], e["tid"]) for e in inside if e["cat"] == "privateuse1_runtime")

    kinetos_work, kinetos_calls = held(theirs)
    our_work, our_calls = held(dump.path)
    assert sum(kinetos_work.values()) == 80
    assert our_work == kinetos_work
    assert our_calls == kinetos_calls
    assert dump.kernels == 3 * 22


def test_arrows_join_the_same_launches_and_work_as_kinetos(recorder, work, tmp_path):
    with kineto_spyre.profile_spyre(record_shapes=False) as prof:
        work()
    prof.export_chrome_trace(str(tmp_path / "kineto.json"))
    recorder.dump(tmp_path / "ours.json")

    def arrows(path):
        document = json.loads(pathlib.Path(path).read_text())
        ends: dict = {}
        for event in document["traceEvents"]:
            if event["ph"] in "sf" and event["name"] == "ac2g":
                ends.setdefault(event["id"], {})[event["ph"]] = event["tid"]
        return Counter((one["s"], one["f"]) for one in ends.values())

    assert sum(arrows(tmp_path / "kineto.json").values()) == 4
    assert arrows(tmp_path / "ours.json") == arrows(tmp_path / "kineto.json")


def test_perfettos_form_holds_what_the_json_holds(recorder, work, tmp_path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", exc_type=Exception)
    for number in range(5):
        work(f"request {number}")
    dump = recorder.dump(tmp_path / "dump.pftrace")
    recorder.dump(tmp_path / "dump.json")
    whole = protos.Trace()
    whole.ParseFromString(pathlib.Path(dump.path).read_bytes())
    names, categories, keys, stacks, slices, leave, reach = {}, {}, {}, {}, [], {}, {}
    for packet in whole.packet:
        names |= {one.iid: one.name for one in packet.interned_data.event_names}
        categories |= {one.iid: one.name for one in packet.interned_data.event_categories}
        keys |= {one.iid: one.name for one in packet.interned_data.debug_annotation_names}
        if packet.HasField("clock_snapshot"):
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            base = clocks[1] - clocks[64]
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            slices.append({
                "name": names[event.name_iid], "cat": categories[event.category_iids[0]],
                "begin": base + packet.timestamp,
                "args": {keys[one.name_iid]: one.int_value for one in event.debug_annotations},
            })  # fmt: skip
            stacks.setdefault(event.track_uuid, []).append(slices[-1])
            leave |= dict.fromkeys(event.flow_ids, slices[-1])
            reach |= dict.fromkeys(event.terminating_flow_ids, slices[-1])
        elif event.type == event.TYPE_SLICE_END:
            stacks[event.track_uuid].pop()["end"] = base + packet.timestamp
    assert not any(stacks.values())
    _, expected = exact(tmp_path / "dump.json")
    ours = ("kernel", "gpu_memcpy", "cpu_op", "user_annotation", "gpu_user_annotation", "privateuse1_runtime")
    shown = lambda events: Counter((e["cat"], e["name"], e["begin"], e["end"]) for e in events if e["cat"] in ours)  # noqa: E731
    found = shown(slices)
    assert sum(found.values()) == dump.slices
    # The second dump ends later: what it has more is its own.
    assert found - shown(expected) == Counter()
    assert len(leave) == dump.arrows == 20
    assert leave.keys() == reach.keys()
    for flow, launch in leave.items():
        assert launch["args"]["correlation"] == reach[flow]["args"]["correlation"]
        assert launch["begin"] <= reach[flow]["begin"]
    (metadata,) = (p.track_event for p in whole.packet if p.track_event.type == p.track_event.TYPE_INSTANT)
    assert json.loads(metadata.debug_annotations[0].string_value)["recording"]["reason"] == "call"
    assert dump.bytes * 3 < (tmp_path / "dump.json").stat().st_size


def test_ops_of_many_short_threads_are_kept(recorder, work):
    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dump = recorder.dump()
    assert dump.complete
    ranges = events_of(dump.path, "user_annotation")
    assert {event["name"] for event in ranges} == {f"thread {number}" for number in range(32)}
    assert len({event["tid"] for event in ranges}) > 1


def test_the_last_seconds_alone(recorder, work):
    work("old")
    threading.Event().wait(0.3)
    work("new")
    dump = recorder.dump(seconds=0.2)
    assert [event["name"] for event in events_of(dump.path, "user_annotation")] == ["new"]
    assert dump.seconds == pytest.approx(0.2, abs=0.01)
    assert dump.kernels == 3


def test_an_op_that_has_not_ended_reaches_to_the_end(recorder):
    with torch.profiler.record_function("still open"):
        dump = recorder.dump()
    (event,) = events_of(dump.path, "user_annotation")
    assert event["name"] == "still open"
    assert event["dur"] > 0


def test_a_full_disk_is_said_and_leaves_no_file(recorder, work, tmp_path):
    work()
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with pytest.raises(SpyreProfilerError, match=r"not written: .*/none/x.json can't be opened: No such file"):
        recorder.dump(tmp_path / "none" / "x.json")
    target = tmp_path / "x.json"
    (tmp_path / f"x.json.unfinished-{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(SpyreProfilerError, match="can't be written: No space left on device"):
        recorder.dump(target)
    assert not list(tmp_path.glob("x.json*"))
    assert recorder.dump(target).complete  # the recorder goes on


def test_new_files_never_take_an_older_ones_name(recorder, work):
    paths = {recorder.dump(reason="same reason").path for _ in range(3)}
    assert len(paths) == 3
    assert all("same-reason" in path for path in paths)


def test_memory_that_is_small_keeps_the_newest(two_devices, work, tmp_path):
    with kineto_spyre.record(seconds=60, memory_mib=4, folder=tmp_path) as recorder:
        for number in range(4000):
            work(f"request {number}")
        dump = recorder.dump()
        status = recorder.status()
    assert status.op_events_dropped == status.records_dropped == 0
    assert status.kept_bytes <= 4 * 2**20
    assert 0 < dump.kernels < 12_000
    assert events_of(dump.path, "user_annotation")[-1]["name"] == "request 3999"
    assert dump.seconds < 60
    assert dump.complete, dump.diagnostics  # of what it covers


def test_a_second_recorder_is_refused_and_a_stopped_one_can_be_followed(recorder, work):
    with pytest.raises(SpyreProfilerError, match="runs already"):
        kineto_spyre.record()
    recorder.stop()
    recorder.stop()
    assert not recorder.status().running
    with pytest.raises(SpyreProfilerError, match="is not running"):
        recorder.dump()
    with kineto_spyre.record(folder=recorder.folder) as another:
        work("again")
        dump = another.dump()
    assert dump.kernels == 3
    assert [event["name"] for event in events_of(dump.path, "user_annotation")] == ["again"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seconds": 0}, "seconds is 0; expected 1 to 3600."),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"memory_mib": 1}, "memory_mib is 1; expected 4 to"),
        ({"format": "xml"}, "The format is 'xml'; expected one of 'json', 'perfetto'."),
        ({"folder": "/nowhere"}, "The folder '/nowhere' does not exist. Make it first."),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        kineto_spyre.record(**arguments)


def test_a_forked_child_says_so_and_the_parent_goes_on(recorder, work):
    work()
    child = os.fork()
    if child == 0:
        try:
            recorder.dump()
        except SpyreProfilerError as error:
            os._exit(0 if "forked child has none" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert recorder.dump().complete


def test_the_variable_starts_it_once_the_device_is_in_use(run_python, tmp_path):
    said = run_python(
        """
        import time, torch
        from kineto_spyre.recorder import _autostart
        x = torch.ones(4, device="spyre")
        end = time.monotonic() + 20
        while _autostart.started is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        (x + x).cpu()
        print(_autostart.started.dump("dump.json").kernels)
        """,
        env={"KINETO_SPYRE_RECORD": "5", "KINETO_SPYRE_EMULATE": "1"},
    )
    assert said.stdout == "1\n"
    assert said.stderr == ""


def test_the_variable_maps_nothing_while_there_is_no_device(run_python):
    said = run_python(
        """
        import time, torch
        time.sleep(0.3)
        print("libaiupti" in open("/proc/self/maps").read())
        """,
        env={"KINETO_SPYRE_RECORD": "5"},
    )
    assert said.stdout == "False\n"


def test_a_program_that_ends_with_its_recorder_running_ends_well(run_python):
    run_python(
        """
        import torch, kineto_spyre
        kineto_spyre.emulator.enable()
        kineto_spyre.record()
        x = torch.ones(64, 64).to("spyre")
        for _ in range(50):
            x + x
        """
    )
