"""`export --xplane`, decoded by protobuf with the messages of xplane.proto as published: every slice with its times."""

from __future__ import annotations

import io
import json

import pytest

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

from google.protobuf import descriptor_pool, message_factory  # noqa: E402

from kineto_spyre.cli import main  # noqa: E402
from kineto_spyre.traces import read, xplane  # noqa: E402

# message: (field, number, type); a type with "*" is repeated. Maps are written as what they are on the wire.
SCHEMA = {
    "XSpace": [("planes", 1, "XPlane*"), ("errors", 2, "string*"), ("warnings", 3, "string*")],
    "XPlane": [("id", 1, "int64"), ("name", 2, "string"), ("lines", 3, "XLine*"),
               ("event_metadata", 4, "EventEntry*"), ("stat_metadata", 5, "StatEntry*"), ("stats", 6, "XStat*")],
    "EventEntry": [("key", 1, "int64"), ("value", 2, "XEventMetadata")],
    "StatEntry": [("key", 1, "int64"), ("value", 2, "XStatMetadata")],
    "XLine": [("id", 1, "int64"), ("display_id", 10, "int64"), ("name", 2, "string"), ("display_name", 11, "string"),
              ("timestamp_ns", 3, "int64"), ("duration_ps", 9, "int64"), ("events", 4, "XEvent*")],
    "XEvent": [("metadata_id", 1, "int64"), ("offset_ps", 2, "int64"), ("num_occurrences", 5, "int64"),
               ("duration_ps", 3, "int64"), ("stats", 4, "XStat*")],
    "XStat": [("metadata_id", 1, "int64"), ("double_value", 2, "double"), ("uint64_value", 3, "uint64"),
              ("int64_value", 4, "int64"), ("str_value", 5, "string"), ("ref_value", 7, "uint64")],
    "XEventMetadata": [("id", 1, "int64"), ("name", 2, "string"), ("display_name", 4, "string")],
    "XStatMetadata": [("id", 1, "int64"), ("name", 2, "string"), ("description", 3, "string")],
}  # fmt: skip


@pytest.fixture(scope="module")
def space():
    """Decodes an XSpace."""
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="test.profiler", syntax="proto3")
    kinds = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
             for name in ("int64", "uint64", "string", "double")}  # fmt: skip
    for message, fields in SCHEMA.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = made.field.add(name=name, number=number, label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            if kind in kinds:
                field.type = kinds[kind]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".test.profiler.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.profiler.XSpace")).FromString


BASE = 1_790_857_026_000_000_000
EVENTS = [
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "AIU 0"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "stream 1"}},
    {"ph": "X", "cat": "kernel", "name": "mm", "pid": 0, "tid": 1, "ts": 20.125, "dur": 5.25,
     "args": {"correlation": 300, "External id": 5, "stream": 1, "device": 0}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy (HtoD)", "pid": 0, "tid": 1, "ts": 40, "dur": 0,
     "args": {"correlation": 301, "stream": 1, "bytes": 1 << 40}},
    {"ph": "X", "cat": "cpu_op", "name": "ätén", "pid": 7, "tid": 8, "ts": 10, "dur": 20,
     "args": {"External id": 5, "Input Dims": [[4, 4]]}},
    {"ph": "X", "cat": "cpu_op", "name": "crosses", "pid": 7, "tid": 8, "ts": 20, "dur": 20, "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "before time", "pid": 7, "tid": 8, "ts": 20, "dur": -1, "args": {}},
]  # fmt: skip


def decoded(space, content):
    """By plane and line: (name, begin in ps, duration in ns, stats) of each event."""
    found = {}
    for plane in space(content).planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        stats = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for line in plane.lines:
            found[plane.name, line.name] = [
                (names[event.metadata_id], line.timestamp_ns * 1000 + event.offset_ps, event.duration_ps / 1000,
                 {stats[s.metadata_id]: stats[s.ref_value] if s.ref_value else s.int64_value for s in event.stats})
                for event in line.events
            ]  # fmt: skip
    return found


def test_every_slice_has_its_plane_its_line_its_times_and_its_stats(space):
    document = {"schemaVersion": 1, "baseTimeNanoseconds": BASE, "traceEvents": EVENTS}
    out = io.BytesIO()
    assert xplane.write(read(json.dumps(document).encode()), out) == 1, "one slice has a negative duration"
    start = BASE + 10_000
    assert decoded(space, out.getvalue()) == {
        ("/device:CUSTOM:AIU 0", "stream 1"): [
            ("mm", (start + 10_125) * 1000, 5_250,
             {"category": "kernel", "correlation": 300, "External id": 5, "stream": 1}),
            ("Memcpy (HtoD)", (start + 30_000) * 1000, 0,
             {"category": "gpu_memcpy", "correlation": 301, "stream": 1, "bytes": 1 << 40}),
        ],
        ("/host:CPU", "8"): [
            ("ätén", (start) * 1000, 20_000, {"category": "cpu_op", "External id": 5, "Input Dims": "[[4, 4]]"}),
        ],
        ("/host:CPU", "8, crossing 1"): [("crosses", (start + 10_000) * 1000, 20_000, {"category": "cpu_op"})],
    }  # fmt: skip


def test_the_command_writes_it_where_tensorboard_looks(tmp_path, capsys, space):
    path = tmp_path / "run.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}))
    assert main(["export", str(path), "--xplane"]) == 0
    out = tmp_path / "plugins" / "profile" / "run" / "run.xplane.pb"
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n" and "1 slice has a negative time or duration" in printed.err
    assert [plane.name for plane in space(out.read_bytes()).planes] == ["/device:CUSTOM:AIU 0", "/host:CPU"]
    assert main(["export", str(path), "--xplane"]) == 2
