"""What `kineto-spyre check` does with the file itself: its forms, its size, what it says of one that is no trace."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import pytest
from hand_made import BASE, Trace, slice_
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kineto_spyre.cli import main
from kineto_spyre.traces import check
from kineto_spyre.traces.collecting import Collecting
from kineto_spyre.traces.json_text import Json, Unreadable
from kineto_spyre.traces.opening import Stream


def run(capsys, *arguments):
    code = main(["check", *[str(argument) for argument in arguments]])
    out, err = capsys.readouterr()
    return code, out, err


def written(tmp_path, content, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    return path


def test_exit_code_0_and_a_sentence_for_a_sound_trace(tmp_path, capsys):
    code, out, err = run(capsys, written(tmp_path, Trace().text()))
    assert code == 0 and "No faults were found." in out and err == ""


def test_exit_code_1_and_text_that_says_what_first_why_and_what_to_do(tmp_path, capsys):
    t = Trace()
    t.op["dur"] = -2.0
    code, out, _ = run(capsys, written(tmp_path, t.text()))
    assert code == 1
    assert "FAULT  negative-duration: 1 events that end before they start" in out
    assert f'first: "aten::mm", ts {BASE + 1.5}, pid 4321, tid 4322' in out
    assert "means: " in out and "do:    " in out


def test_notes_alone_leave_the_exit_code_at_0(tmp_path, capsys):
    t = Trace()
    t.remove(t.kernel, t.start, t.end)
    code, out, _ = run(capsys, written(tmp_path, t.text()))
    assert code == 0 and "NOTE   launch-without-work: 1" in out


def test_json_is_one_object_with_the_same_findings(tmp_path, capsys):
    t = Trace()
    t.op["dur"] = -2.0
    code, out, _ = run(capsys, written(tmp_path, t.text()), "--json")
    report = json.loads(out)
    assert code == 1 and report["sound"] is False and report["spyre"] is True
    assert report["events"] == len(t.events) and report["slices"]["kernel"] == 1
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"], finding["count"]) == ("negative-duration", "fault", 1)
    assert finding["first"]["name"] == "aten::mm"


def test_json_for_an_unreadable_file_is_an_object_too(tmp_path, capsys):
    code, out, err = run(capsys, written(tmp_path, ""), "--json")
    assert code == 2 and json.loads(out)["unreadable"].startswith("is empty.") and "is empty" in err


def test_several_traces_get_a_report_each_and_the_worst_exit_code(tmp_path, capsys):
    spoilt = Trace()
    spoilt.op["dur"] = -2.0
    sound, faulty = written(tmp_path, Trace().text(), "a.json"), written(tmp_path, spoilt.text(), "b.json")
    nothing = written(tmp_path, "", "c.json")
    code, out, err = run(capsys, sound, faulty)
    assert code == 1 and "a.json" in out and "b.json" in out and err == ""
    code, out, err = run(capsys, sound, nothing, faulty, "--json")
    assert code == 2 and [report["sound"] for report in json.loads(out)] == [True, False, False]
    assert str(nothing) in err


GZ = gzip.compress(Trace().text().encode())

UNREADABLE = {
    "empty": (b"", "is empty"),
    "white space": (b" \n\t ", "is empty"),
    "text": (b"hello, world", "isn't JSON: Expecting value at character 0"),
    "a web page": (b"<!DOCTYPE html><html></html>", "isn't JSON"),
    "binary": (bytes(range(256)) * 8, "isn't JSON"),
    "UTF-16": (Trace().text().encode("utf-16"), "is UTF-16"),
    "a number": (b"12", "not a trace"),
    "another object": (b'{"a": 1}', "has no traceEvents"),
    "another array": (b"[1, 2, 3]", "not a trace"),
    "traceEvents of another type": (b'{"traceEvents": {}}', "traceEvents is not an array"),
    "cut in an event": (Trace().text().encode()[:2000], "is truncated"),
    "cut in a string": (b'{"traceEvents": [{"ph": "X", "na', "is truncated"),
    "cut in a number": (b'{"traceEvents": [{"ph": "X", "dur": 3.', "is truncated"),
    "cut in an exponent": (b'{"traceEvents": [{"ph": "X", "dur": 3.5e-', "is truncated"),
    "cut between events": (b'{"traceEvents": [{"ph": "M"},', "is truncated"),
    "cut in the metadata": (Trace().text().encode()[:-8], "is truncated"),
    "a comma too many": (b'{"traceEvents": [{"ph": "M"},]}', "isn't JSON"),
    "a comma too few": (b'{"traceEvents": [{"ph": "M"} {"ph": "M"}]}', "',' expected"),
    "a key without quotes": (b'{traceEvents: [{"ph": "M"} {"ph": "M"}]}', "a key in quotes expected"),
    "something after it": (Trace().text().encode() + b"{}", "the end of the file expected"),
    "too deep": (b'{"traceEvents": ' + b"[" * 100_000, "nested too deep"),
    "a number too long": (b'{"traceEvents": [{"ph": "X", "ts": ' + b"9" * 5000 + b"}]}", "a number that can't be read"),
    "gz truncated": (GZ[:-20], "truncated gzip file"),
    "gz damaged": (GZ[:200] + bytes(20) + GZ[220:], "damaged gzip file"),
    "gz of nothing": (gzip.compress(b""), "is empty"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_exit_code_2_and_a_sentence_for_what_is_no_trace(tmp_path, capsys, case):
    content, sentence = UNREADABLE[case]
    path = written(tmp_path, content)
    code, out, err = run(capsys, path)
    assert code == 2 and out == ""
    assert sentence in err and str(path) in err


def test_a_directory_and_a_missing_file_are_said(tmp_path, capsys):
    code, _, err = run(capsys, tmp_path)
    assert code == 2 and "is a directory" in err
    code, _, err = run(capsys, tmp_path / "nothing.json")
    assert code == 2 and "can't be opened: No such file" in err
    code, _, err = run(capsys, "a\0b")
    assert code == 2 and "can't be opened" in err


def findings(path):
    report = check(str(path))
    return report["events"], {finding["rule"]: finding["count"] for finding in report["findings"]}


def test_gzip_is_told_from_the_content(tmp_path):
    t = Trace()
    t.op["dur"] = -2.0
    expected = (len(t.events), {"negative-duration": 1})
    compressed = gzip.compress(t.text().encode())
    assert findings(written(tmp_path, compressed, "a.json.gz")) == expected
    assert findings(written(tmp_path, compressed, "b.json")) == expected
    assert findings(written(tmp_path, t.text(), "c.json.gz")) == expected
    halves = t.text().encode()[:1000], t.text().encode()[1000:]
    assert findings(written(tmp_path, b"".join(map(gzip.compress, halves)), "two members.gz")) == expected


def test_an_array_of_events_may_lack_its_end(tmp_path):
    events = json.dumps([{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(3)])
    for text in (events, events[:-1], events[:-1] + ",", events[:-1] + ",\n"):
        assert findings(written(tmp_path, text)) == (3, {})


def test_a_byte_order_mark_is_skipped(tmp_path):
    assert findings(written(tmp_path, "\ufeff" + Trace().text()))[1] == {}


class Pieces(io.BytesIO):
    """A file that gives few bytes at a time."""

    def __init__(self, content, size):
        super().__init__(content)
        self.size = size

    def read(self, count=-1):
        return super().read(min(count, self.size) if count > 0 else self.size)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_pieces_of_any_size_give_the_same_values(size):
    t = Trace()
    t.op["name"] = 'quote " backslash \\ tab \t smile \U0001f600 umlaut \xe4'
    t.events.insert(0, {"ph": "C", "name": "n", "pid": 0, "args": {"a": [1e-3, -12, True, None, {}, []]}})
    for text in (t.text(), json.dumps(json.loads(t.text()), indent=1, ensure_ascii=False)):
        source = Json(Pieces(text.encode(), size).read)
        found = {key: source.value() for key in source.keys()}
        assert {key: value for key, (value, _) in found.items()} == json.loads(text)
        assert {key: json.loads(text) for key, (_, text) in found.items()} == json.loads(text)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("indent", [None, 1])
def test_pieces_of_any_size_give_the_same_findings(size, indent):
    t = Trace()
    t.op["dur"], t.kernel["args"]["stream"] = -2.0, 0
    blocks = Collecting(Stream(Pieces(json.dumps(json.loads(t.text()), indent=indent).encode(), size), 0), size)
    findings = blocks.collect(lambda: None).findings
    assert {rule: found["count"] for rule, found in findings.items()} == {"negative-duration": 1, "contract-stream": 1}
    assert blocks.events == len(t.events)
    assert blocks.metadata["deviceProperties"] == t.head["deviceProperties"]
    assert blocks.metadata["traceName"] == "trace.json"


def test_what_browsers_refuse_is_counted_and_read_on(tmp_path):
    t = Trace()
    text = t.text().replace("aten::mm", "aten::\x01mm").encode().replace(b"aiuMalloc", b"aiu\xff\xfeMalloc")
    assert findings(written(tmp_path, text)) == (len(t.events), {"not-strict-json": 3})


def test_names_cannot_harm_the_terminal_nor_the_json(tmp_path, capsys):
    t = Trace()
    t.op["name"], t.op["dur"] = "red\x1b[31m \ud800 \u202e end", -1.0
    path = written(tmp_path, t.text())
    _, out, _ = run(capsys, path)
    assert "\x1b" not in out and "\u202e" not in out and r"red\x1b[31m \ud800 \u202e end" in out
    _, out, _ = run(capsys, path, "--json")
    assert json.loads(out)["findings"][0]["first"]["name"] == t.op["name"]


def test_a_terminal_of_ascii_gets_escapes(tmp_path):
    t = Trace()
    t.op["name"], t.op["dur"] = "größe", -1.0
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kineto_spyre", "check", str(written(tmp_path, t.text()))],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 1 and rb"gr\xf6\xdfe" in done.stdout and done.stderr == b""


def test_it_needs_no_torch(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None; from kineto_spyre.cli import main;"
        "code = main(['check', sys.argv[1]]);"
        "assert not any(name.startswith('torch.') for name in sys.modules); sys.exit(code)"
    )
    path = written(tmp_path, Trace().text())
    done = subprocess.run([sys.executable, "-P", "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_memory_does_not_grow_with_the_text(tmp_path):
    """60 MB of JSON, in events as long as an op's with shapes, in far less memory than that; the same as .gz."""
    lists = {"Input Dims": [[8, 4, 32]] * 400, "Call stack": "frame.py(1): f;" * 400}
    filler = json.dumps(slice_("aten::mm", "cpu_op", 4321, 9, 0.0, 0.5, **lists))
    t = Trace()
    path = tmp_path / "large.json"
    with open(path, "w") as file:
        file.write('{"deviceProperties": [{"type": "AIU"}], "traceEvents": [')
        for event in t.events:
            file.write(json.dumps(event) + ",\n")
        count = 60_000_000 // len(filler)
        for i in range(count):
            file.write(filler.replace(str(BASE), str(BASE + 2 * i)) + ",\n")
        file.write('{"ph": "M"}]}')
    with open(path, "rb") as plain, gzip.open(tmp_path / "large.json.gz", "wb", compresslevel=1) as packed:
        packed.writelines(plain)
    code = (
        # VmHWM, not getrusage: ru_maxrss of a child begins with what its parent, this test run, had.
        "import re, sys; from kineto_spyre.traces import check; r = check(sys.argv[1]);"
        "print(r['events'], r['sound'], re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    for name in ("large.json", "large.json.gz"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        events, sound, peak = done.stdout.split()
        assert (int(events), sound) == (len(t.events) + count + 1, "True")
        assert int(peak) * 1024 < 60_000_000


# Nothing that a file can hold may end in a traceback.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
numbers = st.integers(-10, 10) | st.floats() | st.integers() | st.sampled_from([2**53, 2**63, -(2**63), 1e300])
events = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "B", "E", "s", "f", "M", "C", "i", "b", ""]) | json_values,
        "cat": st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "ac2g", "Trace"]) | json_values,
        "name": st.sampled_from(["ac2g", "fwdbwd", "process_labels", "PyTorch Profiler (0)", "k"]) | json_values,
        "ts": numbers | json_values,
        "dur": numbers | json_values,
        "pid": st.integers(0, 1) | json_values,
        "tid": st.integers(0, 1) | json_values,
        "id": st.integers(0, 3) | json_values,
        "bp": st.just("e"),
        "args": json_values
        | st.dictionaries(
            st.sampled_from(["correlation", "stream", "bytes", "device", "External id", "labels", "name", "TS1"]),
            numbers | json_values,
        ),
    },
)
documents = st.fixed_dictionaries(
    {"traceEvents": st.lists(events | json_values, max_size=12)},
    optional={
        "deviceProperties": st.just([{"type": "AIU"}]) | json_values,
        "kineto_spyre": json_values | st.fixed_dictionaries({"dropped": json_values, "invalid": json_values}),
        "distributedInfo": json_values,
    },
)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def survives(tmp_path, capsys, content):
    path = tmp_path / "any.json"
    path.write_bytes(content)
    code, out, err = run(capsys, path, "--json")
    report = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in the report"))
    assert code == (2 if "unreadable" in report else 0 if report["sound"] else 1)
    assert bool(err) == (code == 2)
    assert run(capsys, path)[0] == code
    return code


@relaxed
@given(st.binary(max_size=200))
def test_any_bytes_get_a_sentence(tmp_path, capsys, content):
    assert survives(tmp_path, capsys, content) == 2
    survives(tmp_path, capsys, gzip.compress(content))


@relaxed
@given(json_values)
def test_any_json_gets_a_sentence_or_a_report(tmp_path, capsys, value):
    survives(tmp_path, capsys, json.dumps(value).encode())


@relaxed
@given(documents)
def test_any_events_get_a_report(tmp_path, capsys, document):
    assert survives(tmp_path, capsys, json.dumps(document).encode()) in (0, 1)


@relaxed
@given(st.data())
def test_a_trace_cut_or_spoilt_anywhere_gets_an_answer(tmp_path, capsys, data):
    content = bytearray(Trace().text().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    survives(tmp_path, capsys, bytes(content))
    assert (
        survives(tmp_path, capsys, Trace().text().encode()[: data.draw(st.integers(0, len(Trace().text()) - 1))]) == 2
    )


def test_too_large_a_value_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(Json, "LARGEST", 1000)
    content = io.BytesIO(b'{"traceEvents": [{"ph": "M", "name": "' + b"x" * 5000 + b'"}]}')
    with pytest.raises(Unreadable, match="one JSON value of over"):
        Collecting(Stream(content, 0), 100).collect(lambda: None)
