"""`kineto-spyre bundle`: what a report needs in one file, shown before it is written, and without secrets."""

from __future__ import annotations

import gzip
import json
import re
import zipfile

import pytest

from kineto_spyre import _known_variables
from kineto_spyre.bundle import secrets
from kineto_spyre.cli import main


@pytest.fixture
def trace(tmp_path):
    events = [
        {"ph": "X", "cat": "privateuse1_runtime", "name": "aiuLaunchControlBlocks", "ts": 0, "dur": 2, "pid": 1,
         "tid": 1, "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 10, "dur": 5, "pid": 0, "tid": 1,
         "args": {"correlation": 1, "device": 0, "stream": 1}},
        {"ph": "X", "cat": "python_function", "name": "/home/ada/model.py(3): forward", "ts": 0, "dur": 9, "pid": 1,
         "tid": 1, "args": {}},
    ]  # fmt: skip
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"host_name": "secrethost", "traceEvents": events}).encode()))
    return path


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr("socket.gethostname", lambda: "secrethost")
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    for row in _known_variables.rows():
        monkeypatch.delenv(row.variable, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_" + "a" * 30)
    monkeypatch.setenv("SENCORES", "16")
    monkeypatch.setattr("kineto_spyre.cli.bundle._doctor", lambda: "No trouble on secrethost.\n")


def test_what_is_in_it(trace, tmp_path, capsys):
    program, table, out = tmp_path / "run.py", tmp_path / "smi.csv", tmp_path / "b.zip"
    program.write_text('token = "abcdefgh"\ntokens = logits[:, -1:]\n')
    table.write_text("ID,pwr W\n0,20\n")
    arguments = ["bundle", str(trace), "--telemetry", str(table), "--reproducer", str(program), "--out", str(out)]
    assert main([*arguments, "--note", "10 ms, was 5 ms", "--yes"]) == 0
    said = capsys.readouterr().out
    with zipfile.ZipFile(out) as archive:
        held = {name: archive.read(name).decode() for name in archive.namelist()}
    assert list(held) == [
        "expected.md", "versions.json", "environment.json", "doctor.txt", "trace/trace.json",
        "trace/trace.json.check.json", "trace/trace.json.report.txt", "telemetry/smi.csv", "reproducer/run.py",
    ]  # fmt: skip
    assert all(name in said for name in held)
    assert "10 ms, was 5 ms" in held["expected.md"] and "Verdict" in held["trace/trace.json.report.txt"]
    assert json.loads(held["environment.json"]) == {"SENCORES": "16"}  # of the table only, so no HF_TOKEN
    assert "kineto-spyre" in json.loads(held["versions.json"])["packages"]
    assert held["doctor.txt"] == "No trouble on [host].\n"
    document = json.loads(held["trace/trace.json"])
    assert document["host_name"] == "[host]" and document["traceEvents"][2]["name"] == "~/model.py(3): forward"
    assert held["reproducer/run.py"] == 'token = "[secret]"\ntokens = logits[:, -1:]\n'
    assert not [name for name, text in held.items() if re.search(r"secrethost|\bada\b|hf_a", text)]
    assert "the name of this machine: " in said and "the home folder: " in said and "Nothing was sent" in said


def test_nothing_is_written_before_it_was_shown_and_confirmed(trace, tmp_path, capsys, monkeypatch):
    out = tmp_path / "b.zip"
    arguments = ["bundle", str(trace), "--out", str(out)]
    assert main([*arguments, "--list"]) == 0 and not out.exists()
    assert "would hold" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(arguments) == 1 and not out.exists()
    assert "Nothing was written. Pass --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("n", 1), ("y", 0)):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert main(arguments) == code and out.exists() == (code == 0)
    assert main([*arguments, "--yes"]) == 1
    assert "exists" in capsys.readouterr().err
    assert main([*arguments, "--yes", "--force"]) == 0


SECRETS = [
    ("https://ada:pw12@host/x", "https://[login]@host/x"),
    ("hf_" + "x" * 24, "[token]"),
    ("ghp_" + "x" * 24, "[token]"),
    ("sk-" + "x" * 24, "[key]"),
    ("AKIA" + "ABCDEFGH" * 2, "[key]"),
    ("Authorization: Bearer abcdefghij", "Authorization: Bearer [token]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4", "[token]"),
    ('{"api_key": "abcd1234"}', '{"api_key": "[secret]"}'),
    (r'"{\"password\": \"abcd1234\"}"', r'"{\"password\": \"[secret]\"}"'),
    ("MY_PASSWORD=abcd1234 run", "MY_PASSWORD=[secret] run"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[key]"),
    ("/home/ada/x and /home/adam", "~/x and /home/adam"),
    ("by ada on secrethost.example", "by [user] on [host].example"),
    ("/tmp/pytest-of-ada/x", "/tmp/pytest-of-[user]/x"),
]
HARMLESS = [
    "tokens = logits[:, -1:].argmax(-1)", "aten::mm", '"key": 3', "token: int", "spyre_kernel_v1_mm_abcdefghijkl2345#0",
    "max_tokens=128", "https://host:8080/x", "canada", "adam",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_secret_is_replaced_and_counted(text, expected):
    found, counts = secrets.without_secrets(text)
    assert found == expected and sum(counts.values()) >= 1
    assert secrets.without_secrets(found)[0] == expected


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text):
    assert secrets.without_secrets(text) == (text, {})


def test_the_rules_can_be_read(capsys):
    assert main(["bundle", "--secrets"]) == 0
    said = capsys.readouterr().out
    assert all(f"{rule.name}: becomes {rule.instead}" in said for rule in secrets.rules())


def test_a_file_that_is_no_trace_says_so_in_its_place(tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text("hello")
    assert main(["bundle", str(path), "--list"]) == 0
    assert "trace/x.json.check.txt" in capsys.readouterr().out
    assert main(["bundle", str(tmp_path / "none.json"), "--list"]) == 2
    err = capsys.readouterr().err
    assert "none.json can't be read" in err and err.count("\n") == 1
