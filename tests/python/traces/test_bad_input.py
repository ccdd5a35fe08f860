"""Every command that reads a trace, given what is none: one sentence, a documented exit code, nothing overwritten."""

from __future__ import annotations

import json

import pytest

from kineto_spyre.cli import load, main


def slice_(cat, name, ts, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": 3, "pid": 1, "tid": 1, "args": args}


KERNEL = [
    slice_("privateuse1_runtime", "aiuLaunchControlBlocks", 1, correlation=1),
    slice_("kernel", "k", 5, correlation=1, device=0, stream=1) | {"pid": 0},
]
NO_TRACE = {
    "an empty file": (b"", "is empty"),
    "text": (b"hello\nworld\n", "isn't JSON"),
    "a web page": (b"<!doctype html><html></html>", "isn't JSON"),
    "bytes": (bytes(range(256)) * 4, "isn't JSON"),
    "another tool's object": (b'{"nodes": [1, 2], "edges": []}', "has no traceEvents"),
    "another tool's array": (b'[{"node": 1}]', "is not an event"),
    "a number": (b"3", "not a trace"),
    "a stump of gzip": (b"\x1f\x8b\x08", "truncated"),
}
READERS = {
    "check": ["check", "IN"],
    "report": ["report", "IN"],
    "report of two": ["report", "GOOD", "IN"],
    "view": ["view", "--no-browser", "IN"],
    "export to Perfetto": ["export", "--perfetto", "-o", "OUT", "IN"],
    "export to Parquet": ["export", "--parquet", "-o", "OUT", "IN"],
    "export with CUDA's names": ["export", "--cuda-names", "-o", "OUT", "IN"],
    "merge": ["merge", "-o", "OUT", "IN", "GOOD"],
    "analyze": ["analyze", "IN"],
}
EVERY = pytest.mark.parametrize("command", READERS.values(), ids=READERS)


@pytest.fixture
def run(tmp_path, capsys):
    def run(command, content=None, name="in.json"):
        """Exit code, output, errors, and the input's path."""
        given, good, out = tmp_path / name, tmp_path / "good.json", tmp_path / "out"
        if content is not None:
            given.write_bytes(content)
        good.write_bytes(json.dumps({"distributedInfo": {"rank": 1}, "traceEvents": KERNEL}).encode())
        code = main([{"IN": str(given), "GOOD": str(good), "OUT": str(out)}.get(one, one) for one in command])
        said = capsys.readouterr()
        assert content is None or given.read_bytes() == content
        return code, said.out, said.err, str(given)

    return run


def is_one_sentence(text, *words):
    assert len(text.splitlines()) == 1 and text.startswith("kineto-spyre ") and "Traceback" not in text, text
    for word in words:
        assert word in text


@EVERY
@pytest.mark.parametrize("content, words", NO_TRACE.values(), ids=NO_TRACE)
def test_what_is_no_trace_is_one_sentence(run, tmp_path, command, content, words):
    code, out, err, path = run(command, content)
    assert (code, out) == (2, "")
    is_one_sentence(err, words, path)
    assert not (tmp_path / "out").exists()


@EVERY
def test_a_file_that_is_not_there(run, command):
    code, out, err, path = run(command)
    assert (code, out) == (2, "")
    is_one_sentence(err, "No such file", path)


@EVERY
def test_a_directory_of_strangers(run, tmp_path, command):
    (tmp_path / "strangers").mkdir()
    (tmp_path / "strangers" / "notes.txt").write_text("mine")
    code, out, err, path = run(command, name="strangers")
    assert (code, out) == (2, "")
    is_one_sentence(err, "director", path)


@pytest.mark.parametrize("command", ["report", "report of two", "analyze"])
@pytest.mark.parametrize("events", [[], [slice_("cpu_op", "aten::mm", 1)]], ids=["no events", "no device events"])
def test_a_trace_without_device_work(run, command, events):
    code, out, err, path = run(READERS[command], json.dumps({"traceEvents": events}).encode())
    assert (code, out) == (1, "")
    is_one_sentence(err, "holds no device work", "ProfilerActivity.PrivateUse1", path)


@pytest.mark.parametrize("command", ["report", "report of two", "export to Perfetto", "export with CUDA's names"])
def test_a_trace_without_ranges_is_read(run, command):
    code, out, err, _ = run(READERS[command], json.dumps({"traceEvents": KERNEL}).encode())
    assert (code, err) == (0, "") and out


def test_ranks_that_do_not_say_which_they_are(run):
    code, _, err, path = run(READERS["merge"], json.dumps({"traceEvents": KERNEL}).encode())
    assert code == 1
    is_one_sentence(err, "does not say which rank it is", path)


@pytest.mark.parametrize("command", [one for one in READERS if one != "view"])  # which would serve it
def test_a_trace_of_a_later_version_is_read_and_said_to_be_one(run, command):
    trace = {"schemaVersion": 99, "distributedInfo": {"rank": 0}, "traceEvents": KERNEL}
    _, out, err, path = run(READERS[command], json.dumps(trace).encode())
    is_one_sentence(
        next(line for line in err.splitlines() if "schemaVersion" in line),
        f"{path} has schemaVersion 99 and this kineto-spyre knows up to 1",
    )
    assert err.count("schemaVersion") == 1
    if command.startswith("report"):
        assert "has schemaVersion 99" in out
    assert "schemaVersion" not in "".join(run(["check", "IN"], json.dumps({"traceEvents": KERNEL}).encode())[1:3])


@pytest.mark.parametrize(
    "command",
    [READERS[one] for one in ("export to Perfetto", "export to Parquet", "export with CUDA's names", "merge")]
    + [["report", "IN", "--html", "OUT"], ["analyze", "IN", "--html", "OUT"]],
    ids=" ".join,
)
def test_nothing_is_overwritten_without_asking(run, tmp_path, command):
    (tmp_path / "out").write_text("mine")
    code, _, err, _ = run(command, json.dumps({"distributedInfo": {"rank": 0}, "traceEvents": KERNEL}).encode())
    assert code in (1, 2) and "--force" in err and (tmp_path / "out").read_text() == "mine"
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["check", "report", "view", "export", "merge", "analyze"])
def test_the_exit_codes_are_documented(name):
    described = load(name).DESCRIPTION.lower()
    assert "exit code" in described and "0 " in described and "1 " in described and "2 " in described
