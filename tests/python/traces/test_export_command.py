"""`kineto-spyre export`: where it writes, what it never replaces, and its exit codes."""

from __future__ import annotations

import gzip
import json
import os
import stat
import sys

import pytest
from hand_made import Trace

from kineto_spyre import traces
from kineto_spyre.cli import main

KINDS = ["--perfetto", "--parquet", "--cuda-names"]
NEEDS = {"--perfetto": "perfetto", "--parquet": "pyarrow"}


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param in NEEDS:
        pytest.importorskip(NEEDS[request.param])
    return request.param


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "run.pt.trace.json"
    path.write_text(Trace().text())
    return path


def content(path):
    """What is there, with when it was written."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [(one.name, one.read_bytes(), one.stat().st_mtime_ns) for one in files]


def names(folder):
    return sorted(one.name for one in folder.iterdir())


def test_it_writes_beside_the_trace_and_says_where(trace, kind, capsys):
    before = content(trace)
    assert main(["export", str(trace), kind]) == 0
    ending = {"--perfetto": "pftrace", "--parquet": "parquet", "--cuda-names": "cuda.json"}[kind]
    assert capsys.readouterr().out == f"{trace.parent / f'run.{ending}'}\n"
    assert names(trace.parent) == sorted(["run.pt.trace.json", f"run.{ending}"])
    assert content(trace) == before


def test_it_replaces_nothing_unless_it_is_told_to(trace, kind, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["export", str(trace), kind, "-o", str(out)]) == 0
    before = content(out)
    assert main(["export", str(trace), kind, "-o", str(out)]) == 2
    assert f"{out} exists; pass --force to replace it, or name another file with -o." in capsys.readouterr().err
    assert content(out) == before
    assert main(["export", str(trace), kind, "-o", str(out), "--force"]) == 0
    assert content(out) != before  # written anew: at least the time


def test_the_trace_itself_is_never_replaced(trace, kind, capsys):
    before = content(trace)
    assert main(["export", str(trace), kind, "-o", str(trace), "--force"]) == 2
    assert "is the input trace, which is never changed" in capsys.readouterr().err
    assert content(trace) == before


def test_a_directory_of_something_else_is_never_replaced(trace, kind, tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.png").write_bytes(b"cat")
    before = content(folder)
    assert main(["export", str(trace), kind, "-o", str(folder), "--force"]) in (1, 2)
    assert str(folder) in capsys.readouterr().err
    assert content(folder) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02", "isn't JSON"),
        (b'{"a": 1}', "no traceEvents"),
        (b"\x1f\x8b", "truncated"),
    ],
)
def test_what_is_no_trace_is_one_sentence_and_exit_code_2(text, told, kind, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    assert main(["export", str(path), kind]) == 2
    told_so = capsys.readouterr().err
    assert told in told_so
    assert told_so.startswith(f"kineto-spyre export: {path}")
    assert told_so.count("\n") == 1
    assert names(tmp_path) == ["bad.json"]


def test_a_file_that_is_not_there(kind, tmp_path, capsys):
    assert main(["export", str(tmp_path / "nothing.json"), kind]) == 2
    assert "can't be opened" in capsys.readouterr().err


def test_a_trace_without_slices_has_nothing_to_export(kind, tmp_path, capsys):
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    assert main(["export", str(path), kind]) == 1
    assert "there is no" in capsys.readouterr().err
    assert names(tmp_path) == ["empty.json"]


@pytest.mark.parametrize("kind", KINDS[:2])
def test_of_a_trace_that_is_cut_off_what_comes_before_is_written(kind, trace, tmp_path, capsys):
    pytest.importorskip(NEEDS[kind])
    trace.write_text(Trace().text()[:-400])
    assert main(["export", str(trace), kind, "-o", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "truncated" in told
    assert told.endswith(" What comes before that was written.\n")
    assert ".." not in told and "?." not in told
    assert (tmp_path / "out").exists()


def test_a_place_that_can_not_be_written_leaves_nothing(trace, kind, tmp_path, capsys):
    out = tmp_path / "run.pt.trace.json" / "out"  # a file is no directory
    assert main(["export", str(trace), kind, "-o", str(out)]) == 1
    assert "can't be written" in capsys.readouterr().err
    assert names(tmp_path) == ["run.pt.trace.json"]


@pytest.mark.parametrize("arguments", [[], ["--perfetto", "--parquet"]])
def test_exactly_one_format_must_be_named(arguments, trace, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["export", str(trace), *arguments])
    assert ended.value.code == 2
    assert "--perfetto" in capsys.readouterr().err


def test_gzip_stays_gzip_where_it_is_json_again(tmp_path, capsys):
    path = tmp_path / "run.pt.trace.json.gz"
    path.write_bytes(gzip.compress(Trace().text().encode()))
    assert main(["export", str(path), "--cuda-names"]) == 0
    out = tmp_path / "run.cuda.json.gz"
    calls = [e for e in json.loads(gzip.decompress(out.read_bytes()))["traceEvents"] if e.get("cat") == "cuda_runtime"]
    assert len(calls) == 3


def test_a_failure_while_writing_leaves_what_was_there(trace, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    out.write_text("mine")

    def broken(_):
        yield b"{"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kineto_spyre.traces.cuda_names.renamed", broken)
    assert main(["export", str(trace), "--cuda-names", "-o", str(out), "--force"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert names(tmp_path) == ["out.json", "run.pt.trace.json"]


def test_a_file_that_another_program_makes_meanwhile_is_not_replaced(trace, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"

    def slow(_):
        yield b"{}"
        out.write_text("theirs")

    monkeypatch.setattr("kineto_spyre.traces.cuda_names.renamed", slow)
    assert main(["export", str(trace), "--cuda-names", "-o", str(out)]) == 2
    assert f"{out} exists" in capsys.readouterr().err
    assert out.read_text() == "theirs"
    assert names(tmp_path) == ["out.json", "run.pt.trace.json"]


def test_the_file_has_the_permissions_of_any_new_file(trace, tmp_path, capsys):
    assert main(["export", str(trace), "--cuda-names"]) == 0
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "run.cuda.json").stat().st_mode) == 0o666 & ~mask


def test_without_the_package_one_sentence_says_what_to_install(trace, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "perfetto", None)
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    monkeypatch.delitem(sys.modules, "kineto_spyre.traces.perfetto", raising=False)
    monkeypatch.delattr(traces, "perfetto", raising=False)
    assert main(["export", str(trace), "--perfetto"]) == 1
    told = capsys.readouterr().err
    assert "pip install 'kineto-spyre[viewers]'" in told
    assert told.count("\n") == 1


def test_a_trace_in_parquet_becomes_perfettos(trace, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("perfetto")
    assert main(["export", str(trace), "--parquet"]) == 0
    for source, out in ((trace, "a"), (tmp_path / "run.parquet", "b")):
        assert main(["export", str(source), "--perfetto", "-o", str(tmp_path / out)]) == 0
    assert (tmp_path / "a").stat().st_size == (tmp_path / "b").stat().st_size
