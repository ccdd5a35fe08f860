"""`kineto_spyre.traces.read`: the same as json.loads says, of any trace, whole or broken."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from foreign import cuda, xpu
from hand_made import BASE, Trace, slice_
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kineto_spyre.traces import Unreadable, iterate, read
from kineto_spyre.traces import trace as trace_module
from kineto_spyre.traces.blocks import Blocks
from kineto_spyre.traces.columns import Columns
from kineto_spyre.traces.events import ABSENT, WRONG
from kineto_spyre.traces.opening import opened

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)


def rows(trace):
    """The slices as tuples that can be compared with what json.loads gives."""
    columns = [
        trace.column(name) if name not in ("start", "duration", "name", "track", "cat") else trace.slices[name]
        for name in ("start", "duration", "name", "track", "cat", "correlation", "external_id", "dims")
    ]
    return [
        (
            start,
            duration,
            trace.names[name],
            *trace.tracks[track],
            trace.cats[cat],
            None if correlation == ABSENT else correlation,
            None if external == ABSENT else external,
            None if dims < 0 else json.loads(trace.texts[dims]),
        )
        for start, duration, name, track, cat, correlation, external, dims in zip(*(c.tolist() for c in columns))
    ]


def expected(events):
    found = []
    for event in events:
        if event["ph"] == "X":
            args = event.get("args") or {}
            found.append(
                (
                    round(event["ts"] * 1000),
                    round(event["dur"] * 1000),
                    event["name"],
                    event["pid"],
                    event["tid"],
                    event.get("cat", ""),
                    args.get("correlation"),
                    args.get("External id"),
                    args.get("Input Dims"),
                )
            )
    return found


text = st.text(max_size=6) | st.sampled_from(["}, {", '"},{"', "\\", "aten::mm", "\x01", "ä\U0001f600"])
time = st.floats(0, 1e13) | st.integers(0, 10**12)
place = st.integers(0, 3) | st.integers(0, 2**40) | text
slices = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": text, "ts": time, "dur": time, "pid": place, "tid": place},
    optional={
        "cat": text,
        "args": st.fixed_dictionaries(
            {},
            optional={
                "correlation": st.integers(0, 2**62),
                "External id": st.integers(0, 2**40),
                "Input Dims": st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
                "stream": st.integers(0, 9) | text,
                "more": st.recursive(text | st.none(), lambda inner: st.lists(inner) | st.dictionaries(text, inner)),
                "nested": st.lists(st.dictionaries(text, st.integers(), max_size=2), max_size=3),
            },
        ),
    },
)
flows = st.fixed_dictionaries(
    {"ph": st.sampled_from("sf"), "name": text, "ts": time, "pid": place, "tid": place, "id": st.integers(0, 99) | text}
)
others = st.fixed_dictionaries({"ph": st.sampled_from("Mn"), "name": text})
documents = st.lists(slices | flows | others, max_size=30)


@relaxed
@given(documents, st.sampled_from([1, 30, 200, 1 << 18]), st.sampled_from([None, 1]), st.booleans())
def test_random_traces_read_as_json_loads_reads_them(events, block, indent, ascii_only):
    content = json.dumps({"traceEvents": events, "traceName": "x"}, indent=indent, ensure_ascii=ascii_only)
    columns, merger = Columns(), trace_module._Merger()
    with opened(content.encode()) as stream:
        blocks = Blocks(stream, block)
        for one in blocks:
            merger.add(columns.part(one))
    trace = trace_module.Trace("x")
    trace_module._named(trace, columns)
    tables = merger.tables()
    trace.slices, trace.flows = tables["slices"], tables["flows"]
    assert blocks.events == len(events) and blocks.metadata == {"traceName": "x"}
    assert rows(trace) == expected(json.loads(content)["traceEvents"]) if events else len(trace) == 0
    arrows = [event for event in events if event["ph"] in "sf"]
    if arrows:
        assert trace.flows["opens"].tolist() == [event["ph"] == "s" for event in arrows]
        assert trace.flows["start"].tolist() == [round(event["ts"] * 1000) for event in arrows]


@relaxed
@given(st.data())
def test_a_trace_cut_anywhere_is_read_to_there(data):
    t = Trace()
    content = t.text().encode()
    at = data.draw(st.integers(1, len(content) - 1))
    first = content.index(b'{"ph"', content.index(b"traceEvents"))
    try:
        trace = read(content[:at])
    except Unreadable as error:
        assert at < first + 400 and (
            "truncated" in str(error) or "no traceEvents" in str(error) or "JSON" in str(error)
        )
        return
    assert trace.problem is not None and "is truncated" in trace.problem
    whole = expected(t.events)
    assert rows(trace) == whole[: len(rows(trace))] if len(trace) else True
    assert trace.events_read == sum(1 for end in ends_of_events(content) if end <= at)


def ends_of_events(content):
    """Where each event of the text ends."""
    decoder, text = json.JSONDecoder(), content.decode()
    at = text.index("[", text.index('"traceEvents"')) + 1
    while True:
        while text[at] in ", \n":
            at += 1
        if text[at] == "]":
            return
        _, at = decoder.raw_decode(text, at)
        yield at


def test_bad_bytes_in_the_middle_are_said_with_their_place():
    events = [slice_(f"op {i}", "cpu_op", 1, 1, float(i), 0.5) for i in range(5000)]
    content = json.dumps({"traceEvents": events})
    at = content.index('{"ph": "X", "cat": "cpu_op", "name": "op 4000"')
    trace = read((content[: at + 1] + "\x00\x00" + content[at + 1 :]).encode())
    assert len(trace) == 4000 and trace.names[-1] == "op 3999"
    place = int(trace.problem.split("at character ")[1].split(",  near")[0].split(", near")[0].replace(",", ""))
    assert abs(place - at) <= 5


@relaxed
@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_sentence(content):
    for bytes_ in (content, gzip.compress(content), b'{"traceEvents": [' + content):
        try:
            trace = read(bytes_)
        except Unreadable as error:
            assert str(error)
        else:
            assert trace.problem or trace.events_read <= content.count(b"{")


@relaxed
@given(st.data())
def test_fuzzed_bytes_of_a_trace_end_in_a_trace_or_a_sentence(data):
    content = bytearray(Trace().text().encode())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        trace = read(bytes(content))
    except Unreadable as error:
        assert str(error)
    else:
        assert all(len(column) == len(trace) for column in trace.slices.values())


def test_gzip_that_is_cut_off_gives_what_could_be_unpacked():
    events = [slice_(f"op {i * 7919 % 10007}", "cpu_op", 1, 1, float(i), 0.5) for i in range(20000)]
    packed = gzip.compress(json.dumps({"traceEvents": events}).encode())
    trace = read(packed[: len(packed) // 2])
    assert 5000 < len(trace) < 15000 and "truncated gzip file" in trace.problem
    assert rows(trace) == expected(events[: len(trace)])


def test_chunks_hold_the_same_as_the_whole(tmp_path):
    events = [slice_(f"op {i % 7}", "cpu_op", 1, i % 3, float(i), 0.5, correlation=i) for i in range(40000)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    whole, chunks = read(path), list(iterate(path))
    assert len(chunks) > 1 and sum(chunk.events_read for chunk in chunks) == 40000
    assert [row for chunk in chunks for row in rows(chunk)] == rows(whole)


def test_arguments_of_a_wrong_type_are_marked_and_the_slice_is_kept():
    good = slice_("k", "kernel", 0, 1, 1.0, 1.0, correlation=1, bytes=5)
    bad = slice_("k", "kernel", 0, 1, 2.0, 1.0, correlation="one", bytes=2.5, **{"Input Dims": [1]})
    trace = read(json.dumps({"traceEvents": [good, bad]}).encode())
    assert trace.column("correlation").tolist() == [1, WRONG] and trace.column("bytes").tolist() == [5, WRONG]
    assert trace.odd == 1 and [trace.texts[n] for n in trace.column("dims") if n >= 0] == ["[1]"]


def test_begin_and_end_events_become_slices():
    where = {"pid": 1, "tid": 1, "cat": "c"}
    events = [
        {"ph": "B", "name": "outer", "ts": 1, **where},
        {"ph": "B", "name": "inner", "ts": 2, **where},
        {"ph": "E", "ts": 3, **where},
        {"ph": "E", "ts": 5, **where},
    ]
    assert [row[:3] for row in rows(read(json.dumps(events).encode()))] == [
        (2000, 1000, "inner"),
        (1000, 4000, "outer"),
    ]


def test_counters_memory_and_names_are_read():
    t = Trace()
    t.add(
        {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "pid": 4321,
            "tid": 4322,
            "ts": BASE + 5,
            "args": {
                "Total Reserved": 64,
                "Total Allocated": 32,
                "Bytes": 8,
                "Device Id": 0,
                "Device Type": 20,
                "Addr": 2**63,
            },
        }
    )
    trace = read(t.text().encode())
    assert trace.counters["value"].tolist() == [41.5] and trace.texts[trace.counters["series"][0]] == "W"
    assert trace.memory["allocated"].tolist() == [32] and trace.memory["device_type"].tolist() == [20]
    assert trace.process_labels == {4321: "CPU", 0: "AIU 0"}
    assert trace.metadata["deviceProperties"][0]["type"] == "AIU"


def test_arrow_tables_and_parquet_hold_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    from kineto_spyre import SpyreProfilerError
    from kineto_spyre.traces import read_parquet, write_parquet

    trace = read(Trace().text().encode())
    events = trace.events.to_pylist()
    assert [(e["ts"], e["dur"], e["name"], e["correlation"]) for e in events] == [
        (row[0], row[1], row[2], row[6]) for row in rows(trace)
    ]
    assert trace.ranges["name"].to_pylist() == ["ProfilerStep#1"]
    assert trace.track_table["pid"].to_pylist()[0] == "4321"
    folder = tmp_path / "trace.parquet"
    write_parquet(trace, folder)
    for again in (read_parquet(folder), read(folder)):
        assert rows(again) == rows(trace) and again.metadata == trace.metadata
        assert again.process_labels == trace.process_labels
        assert again.flow_table.to_pylist() == trace.flow_table.to_pylist()
        assert again.counter_table.to_pylist() == trace.counter_table.to_pylist()
        for name in trace.slices:
            np.testing.assert_array_equal(
                again.slices[name] == again.slices[name][0], trace.slices[name] == trace.slices[name][0]
            )
    with pytest.raises(SpyreProfilerError, match="holds a trace already"):
        write_parquet(trace, folder)
    write_parquet(trace, folder, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(SpyreProfilerError, match="does not hold a trace"):
        write_parquet(trace, tmp_path / "other", overwrite=True)
    head = folder / "trace.json"
    head.write_text(head.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(Unreadable, match="format 99"):
        read(folder)


def test_a_profile_is_read_without_a_file_of_the_users():
    class Profile:
        def export_chrome_trace(self, path):
            with open(path, "w") as file:
                file.write(Trace().text())

    assert len(read(Profile())) == len(expected(Trace().events))


def test_traces_of_cuda_and_xpu_are_read():
    for made, kernels in ((cuda(), 3), (xpu(), 3)):
        trace = read(json.dumps(made).encode())
        assert trace.problem is None and trace.odd == 0
        cats = [trace.cats[n] for n in trace.slices["cat"]]
        assert cats.count("kernel") == kernels
        on_device = np.array([cat == "kernel" for cat in cats])
        assert (trace.column("correlation")[on_device] > 0).all()
        assert (trace.column("stream")[on_device] >= 0).all()


def test_it_needs_no_torch_and_no_pyarrow(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(Trace().text())
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['pyarrow'] = None\n"
        "from kineto_spyre import traces; print(len(traces.read(sys.argv[1])))\n"
        "try:\n    traces.read(sys.argv[1]).events\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == str(len(expected(Trace().events)))
    assert "pip install 'kineto-spyre[arrow]'" in done.stdout and "SpyreProfilerError" in done.stdout


def test_what_is_no_source_is_a_type_error():
    with pytest.raises(TypeError, match="int is not a trace"):
        read(12)
