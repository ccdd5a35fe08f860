"""`kineto-spyre analyze`: acelyzer's findings join the report, and its failures are shown as its own.

Here its place is taken by small programs; tests/viewers runs the real one.
"""

from __future__ import annotations

import gzip
import json
import sys

import pytest
from hand_made_work import as_bytes, kernel, launch

from kineto_spyre.cli import main
from kineto_spyre.report.acelyzer import analyze

GOOD = """
import json, sys
if "--version" in sys.argv:
    print("9.9")
elif "-V" in sys.argv:
    found = {"finding": "orphan_kernels", "is_error": False, "count": 3, "instances": []}
    tests = [{"test": "Compute Overlap Check", "result": "pass"}]
    json.dump({"result": RESULT, "test_results": tests, "errors": [], "warnings": [found]}, open("report.json", "w"))
else:
    assert "--tb" in sys.argv and "--keep_names" in sys.argv
    document = json.load(open("trace.json"))
    for event in document["traceEvents"]:
        event.setdefault("args", {})["class"] = "COMPUTE_EXEC" if event.get("cat") == "kernel" else "OTHER"
    document["traceEvents"].append({"ph": "C", "name": "TransferBW", "ts": 1, "pid": 0, "args": {"GB/s": 4.0}})
    json.dump(document, open("refined.pt.trace.json", "w"))
    open("refined_summary.csv", "w").write("Time\\t Calls\\n 1.5\\t 2\\n")
    open("refined_active.csv", "w").write("Time\\n")
"""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "a,trace*.json"  # acelyzer takes commas and patterns in names for several files
    path.write_bytes(as_bytes([launch(0, 1, 1), kernel(10, 100, 1, 1)]))
    return path


@pytest.fixture
def program(tmp_path):
    def make(text):
        path = tmp_path / "acelyzer"
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize("packed", [False, True])
def test_what_it_found_is_in_the_report(trace, program, capsys, tmp_path, packed):
    if packed:
        trace = tmp_path / "trace.json.gz"
        trace.write_bytes(gzip.compress(as_bytes([launch(0, 1, 1), kernel(10, 100, 1, 1)])))
    command = program(GOOD.replace("RESULT", "'PASS'"))
    keep = tmp_path / "kept"
    assert main(["analyze", str(trace), "--acelyzer", command, "--keep", str(keep)]) == 0
    said = capsys.readouterr().out
    assert "Verdict" in said and "acelyzer's verification: PASS." in said and "TransferBW" in said
    found = analyze(trace, command)
    assert found["problem"] is None and found["version"] == "9.9"
    assert found["warnings"] == [{"finding": "orphan_kernels", "count": 3}]
    assert found["classes"]["COMPUTE_EXEC"] == {"count": 1, "duration": 100_000}
    assert found["counters"] == {"TransferBW": {"count": 1, "mean": 4.0, "largest": 4.0}}
    assert found["tables"] == {"refined_summary.csv": [["Time", "Calls"], ["1.5", "2"]]} and found["kept"] == []
    assert sorted(path.name for path in keep.iterdir()) == [
        "refined.pt.trace.json", "refined_active.csv", "refined_summary.csv", "report.json"
    ]  # fmt: skip


def test_a_verification_that_fails_is_exit_code_1(trace, program, capsys):
    assert main(["analyze", str(trace), "--acelyzer", program(GOOD.replace("RESULT", "'FAIL'"))]) == 1
    assert "acelyzer's verification: FAIL." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise KeyError('Power')", "acelyzer ended with exit code 1; its last line was: KeyError: 'Power'"),
        ("import os; os.abort()", "acelyzer ended with exit code -6; its last line was: nothing"),
        ("", "acelyzer did not write its file report.json."),
        ("open('report.json', 'w').write('{')", "acelyzer wrote a report.json that is not JSON"),
        ("open('report.json', 'w').write('[]')", "acelyzer wrote a report.json that is not a JSON object."),
        ("import time; time.sleep(60)", "acelyzer did not finish within 0.5 s, so it was stopped."),
        (None, "can't be started: No such file or directory."),
    ],
)
def test_its_failure_is_its_own_and_the_report_is_whole(trace, program, capsys, monkeypatch, text, says):
    if text is not None and "sleep" in text:
        monkeypatch.setattr(analyze, "__defaults__", (None, None, None, 0.5))
    command = "/nowhere/acelyzer" if text is None else program(text)
    assert main(["analyze", str(trace), "--acelyzer", command]) == 1
    told = capsys.readouterr()
    assert says in told.out and "Verdict" in told.out and "Kernels" in told.out
    assert told.err.startswith("kineto-spyre analyze: acelyzer") and "Traceback" not in told.err


def test_without_it_the_report_says_what_to_install(trace, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("kineto_spyre.report.acelyzer.find", lambda: None)
    assert main(["analyze", str(trace), "--json"]) == 1
    told = capsys.readouterr()
    assert "pip install 'kineto-spyre[analyze]'" in json.loads(told.out)["acelyzer"]["problem"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.json"], 2, "nowhere.json"),
        (["TRACE", "--ideal-cycles", "nowhere"], 2, "nowhere is not a folder"),
        (["TRACE", "--html", "TRACE"], 1, "exists; name another file"),
    ],
)
def test_bad_input_is_one_sentence(trace, capsys, arguments, code, says):
    assert main(["analyze", *(str(trace) if one == "TRACE" else one for one in arguments)]) == code
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


HTA = """
import json, os, sys
assert sys.argv[1] == "-c" and os.environ["HTA_DISABLE_NS_ROUNDING"] == "1"
names = [event["name"] for event in json.load(open(sys.argv[3]))["traceEvents"]]
assert "cudaLaunchKernel" in names
json.dump({"version": "9.9", "problems": PROBLEMS, "time": {"idle": 4.0, "compute": 100.0, "non_compute": 0.0},
           "idle": [{"stream": 1, "cause": "host_wait", "us": 4.0}],
           "launches": {"count": 1, "delay": {"median": 1.5, "largest": 2.0}},
           "critical_path": {"step": "ProfilerStep#3", "bound_by": {"cpu_bound": 0.75, "gpu_compute_bound": 0.25}}},
          open(sys.argv[4], "w"))
"""


@pytest.fixture
def passing(program, tmp_path):
    """acelyzer passes in these tests, so that what is seen is HTA's."""
    path = tmp_path / "passes"
    path.write_text(f"#!{sys.executable}\n{GOOD.replace('RESULT', repr('PASS'))}")
    path.chmod(0o755)
    return str(path)


def test_what_hta_found_is_in_the_report(trace, program, passing, capsys):
    command = ["analyze", str(trace), "--acelyzer", passing, "--hta", program(HTA.replace("PROBLEMS", "[]"))]
    assert main(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "HTA's critical path of ProfilerStep#3, the longest step: cpu bound 75%, gpu compute bound 25%." in said
    assert "1 launch; from the call's end to the start of the work 1.5 us (median), 2 us at most." in said
    assert "compute 100 us" in said and "stream 1 idle: host_wait 4 us" in said
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["hta"]
    assert (found["problem"], found["version"], found["launches"]["count"]) == (None, "9.9", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise KeyError('stream')", "HTA ended with exit code 1; its last line was: KeyError: 'stream'"),
        ("raise ModuleNotFoundError(\"No module named 'hta'\")", "HTA is not installed for"),
        ("", "HTA wrote nothing that can be read."),
        ("import sys; open(sys.argv[4], 'w').write('[]')", "HTA wrote nothing that can be read."),
        (HTA.replace("PROBLEMS", "['HTA\\'s idle failed: KeyError: 0']"), "HTA's idle failed: KeyError: 0"),
        (None, "HTA's Python (/nowhere/python) can't be started: No such file or directory."),
    ],
)
def test_a_failure_of_hta_is_its_own_and_the_report_is_whole(trace, program, passing, capsys, text, says):
    python = "/nowhere/python" if text is None else program(text)
    assert main(["analyze", str(trace), "--acelyzer", passing, "--hta", python]) == 1
    told = capsys.readouterr()
    assert says in " ".join(told.out.split()) and "Verdict" in told.out and "acelyzer's verification: PASS." in told.out
    assert says in told.err and told.err.count("\n") == 1 and "Traceback" not in told.err


def test_a_trace_without_a_spyres_calls_is_not_given_to_hta(tmp_path, passing, capsys):
    path = tmp_path / "trace.json"
    path.write_bytes(as_bytes([launch(0, 1, 1) | {"cat": "cuda_runtime"}, kernel(10, 100, 1, 1)]))
    assert main(["analyze", str(path), "--acelyzer", passing, "--hta", "/nowhere/python"]) == 1
    assert "HTA was not started because the trace can't be given CUDA's names: The trace holds" in (
        capsys.readouterr().err
    )
