"""A trace as Perfetto's protobuf, read back with the published messages. (Perfetto's own parser: tests/viewers.)"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict

import pytest
from foreign import cuda, xpu
from hand_made import BASE, Trace, arrow, slice_

from kineto_spyre import traces

perfetto = pytest.importorskip("kineto_spyre.traces.perfetto", exc_type=Exception)
protos = perfetto.protos


class Decoded:
    """What a reader of the format makes of the packets, by its published rules."""

    def __init__(self, content):
        whole = protos.Trace()
        whole.ParseFromString(content)
        self.tracks, self.slices, self.counters, self.clocks = {}, [], defaultdict(list), {}
        texts, stacks = defaultdict(dict), defaultdict(list)
        leaves, reaches, now = {}, {}, 0
        for packet in whole.packet:
            assert packet.trusted_packet_sequence_id
            for table, entries in packet.interned_data.ListFields():
                texts[table.name] |= {one.iid: one.str.decode() if hasattr(one, "str") else one.name for one in entries}
            if packet.HasField("clock_snapshot"):
                self.clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
                now = self.clocks[64]
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if not packet.HasField("track_event"):
                continue
            now += packet.timestamp
            event = packet.track_event
            stack = stacks[event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.counters[self.tracks[event.track_uuid].name].append((now, event.double_counter_value))
            elif event.type == event.TYPE_SLICE_END:
                self.slices[stack.pop()]["end"] = now
            else:
                stack.append(len(self.slices))
                leaves |= {one: len(self.slices) for one in event.flow_ids}
                reaches |= {one: len(self.slices) for one in event.terminating_flow_ids}
                (category,) = event.category_iids
                args = {}
                for one in event.debug_annotations:
                    kind = one.WhichOneof("value")
                    value = getattr(one, kind)
                    known = texts["debug_annotation_string_values"]
                    args[texts["debug_annotation_names"][one.name_iid]] = (
                        known[value] if kind.endswith("iid") else value
                    )
                self.slices.append({
                    "name": texts["event_names"][event.name_iid], "cat": texts["event_categories"][category],
                    "start": now, "track": event.track_uuid, "args": args,
                })  # fmt: skip
        assert not any(stacks.values())
        assert leaves.keys() == reaches.keys()
        self.arrows = Counter((self.slices[leaves[one]]["name"], self.slices[reaches[one]]["name"]) for one in leaves)

    def one(self, name):
        (found,) = (one for one in self.slices if one["name"] == name)
        return found


def written(document):
    text = document if isinstance(document, str) else json.dumps(document)
    out = io.BytesIO()
    done = perfetto.write(traces.read(text.encode()), out)
    return Decoded(out.getvalue()), done


def test_a_sound_trace_has_all_its_slices_arrows_and_counters():
    trace = Trace()
    decoded, done = written(trace.text())
    slices = [event for event in trace.events if event["ph"] == "X"]
    assert Counter((one["name"], one["cat"], one["start"], one["end"]) for one in decoded.slices) == Counter(
        (e["name"], e["cat"], round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)) for e in slices
    )
    assert decoded.arrows == {
        (trace.launch["name"], trace.kernel["name"]): 1,
        (trace.copy_call["name"], trace.copy["name"]): 1,
        (trace.set_call["name"], trace.set["name"]): 1,
    }
    assert decoded.counters == {"pwr (W) W": [(round(BASE * 1000), 41.5)]}
    assert done == perfetto.Written(slices=len(slices), arrows=3, counters=1)


def test_arguments_are_kept():
    decoded, _ = written(Trace().text())
    assert decoded.one("Memcpy (DtoH)")["args"] == {
        "correlation": 102, "External id": 7, "stream": 200, "device": 0, "bytes": 64,
        "memory bandwidth (GB/s)": pytest.approx(0.0128),
    }  # fmt: skip


def test_a_card_is_a_group_and_a_process_of_the_system_is_one():
    trace = Trace()
    decoded, _ = written(trace.text())
    kernel = decoded.tracks[decoded.one(trace.kernel["name"])["track"]]
    assert decoded.tracks[kernel.parent_uuid].name == "AIU 0"
    thread = decoded.tracks[decoded.one("aten::mm")["track"]]
    assert (thread.thread.pid, thread.thread.tid) == (4321, 4322)
    process = decoded.tracks[thread.parent_uuid].process
    assert (process.pid, process.process_name, list(process.process_labels)) == (4321, "python", ["CPU"])


def test_a_second_card_is_a_group_although_its_number_could_be_a_process():
    trace = Trace()
    trace.add(slice_("other", "kernel", 1, 1, 10.0, 1.0, stream=1))
    decoded, _ = written(trace.text())
    track = decoded.tracks[decoded.one("other")["track"]]
    assert not track.HasField("thread")
    assert not decoded.tracks[track.parent_uuid].HasField("process")


def test_slices_that_cross_keep_their_times_on_two_tracks():
    a, b = slice_("a", "python_function", 7, 7, 0.0, 10.0), slice_("b", "python_function", 7, 7, 5.0, 10.0)
    decoded, _ = written({"traceEvents": [a, b]})
    assert [one["end"] - one["start"] for one in decoded.slices] == [10_000, 10_000]
    assert decoded.one("a")["track"] != decoded.one("b")["track"]


def test_one_launch_has_an_arrow_to_each_of_its_three_kernels():
    trace = Trace()
    for number in (1, 2):
        trace.add(slice_(f"more {number}", "kernel", 0, 1, 50.0 + number, 0.5), arrow("f", 101, 0, 1, 50.0 + number))
    decoded, done = written(trace.text())
    assert done.arrows == 5
    for work in (trace.kernel["name"], "more 1", "more 2"):
        assert decoded.arrows[trace.launch["name"], work] == 1


def test_arrows_of_one_id_and_two_names_stay_apart():
    trace = Trace()
    trace.add(arrow("s", 101, 4321, 4322, 1.5, "fwdbwd"), arrow("f", 101, 4321, 4322, 6.0, "fwdbwd"))
    decoded, done = written(trace.text())
    assert done.arrows == 4
    assert decoded.arrows[trace.op["name"], trace.copy_call["name"]] == 1


def test_what_has_no_place_is_counted():
    early = slice_("early", "cpu_op", 4321, 4322, -2 * BASE, 1.0)
    trace = Trace()
    trace.add(early, slice_("back", "cpu_op", 4321, 4322, 1.0, -1.0))
    trace.remove(trace.end)  # the launch's arrow reaches nothing
    trace.add(arrow("f", 999, 0, 1, 10.0))  # and this one comes from nowhere
    decoded, done = written(trace.text())
    assert (done.unplaced_slices, done.unplaced_flow_ends, done.arrows) == (2, 2, 2)
    assert not {"early", "back"} & {one["name"] for one in decoded.slices}


def test_the_allocators_calls_are_curves_of_each_device():
    def call(ts, kind, index, allocated, reserved):
        args = {"Device Type": kind, "Device Id": index, "Addr": 1, "Bytes": 1,
                "Total Allocated": allocated, "Total Reserved": reserved}  # fmt: skip
        return {"ph": "i", "s": "t", "name": "[memory]", "pid": 4321, "tid": 4322, "ts": BASE + ts, "args": args}

    trace = Trace()
    trace.add(call(1, 20, 0, 512, 4096), call(2, 20, 0, 1024, 4096), call(3, 0, -1, 64, 0))
    decoded, _ = written(trace.text())
    first = round(BASE * 1000)
    assert decoded.counters["AIU 0 allocated"] == [(first + 1000, 512), (first + 2000, 1024)]
    assert decoded.counters["AIU 0 reserved"] == [(first + 1000, 4096), (first + 2000, 4096)]
    assert decoded.counters["CPU allocated"] == [(first + 3000, 64)]
    assert "CPU reserved" not in decoded.counters  # PyTorch reserves nothing there


def test_the_time_of_day_is_known():
    trace = Trace()
    trace.head["baseTimeNanoseconds"] = 1_700_000_000_000_000_000
    decoded, _ = written(trace.text())
    assert decoded.clocks[1] - decoded.clocks[6] == 1_700_000_000_000_000_000


def test_half_a_surrogate_pair_in_a_name_is_replaced():
    place = '"pid": 1, "tid": 1'
    decoded, _ = written(
        '{"traceEvents": [{"ph": "X", "name": "\\ud83d!", "ts": 1, "dur": 1, ' + place + "}, "
        '{"ph": "M", "name": "thread_name", "args": {"name": "t\\ud83d"}, ' + place + "}, "
        '{"ph": "M", "name": "process_name", "args": {"name": "p\\ud83d"}, ' + place + "}]}"
    )
    assert [one["name"] for one in decoded.slices] == ["?!"]
    assert [one.thread.thread_name for one in decoded.tracks.values() if one.HasField("thread")] == ["t?"]
    assert [one.process.process_name for one in decoded.tracks.values() if one.HasField("process")] == ["p?"]


@pytest.mark.parametrize("foreign", [cuda, xpu])
def test_traces_of_other_devices(foreign):
    document = foreign()
    decoded, done = written(document)
    assert len(decoded.slices) == sum(event["ph"] == "X" for event in document["traceEvents"])
    assert done.arrows == sum(event["ph"] == "f" for event in document["traceEvents"]) - done.unplaced_flow_ends
    assert done.arrows > 0
