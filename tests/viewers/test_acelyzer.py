"""acelyzer (aiu-trace-analyzer), IBM's own analyser of Spyre traces."""

from __future__ import annotations

import json
import subprocess

import pytest


@pytest.fixture
def acelyzer(readers, tmp_path, trace_path):
    """Runs acelyzer on the trace, in a folder of its own."""

    def run(*arguments):
        command = [str(readers.parent / "acelyzer"), "-i", str(trace_path), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("arguments", [["--tb", "--keep_names"], ["-o", "out.json"]], ids=["torch_minimal", "default"])
def test_it_takes_the_trace(acelyzer, tmp_path, trace, arguments):
    done = acelyzer(*arguments, *([] if "-o" in arguments else ["-o", "out.json"]))
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in output and "ERROR" not in output, output[-2000:]
    written = next(path for name in ("out.pt.trace.json", "out.json") if (path := tmp_path / name).exists())
    kept = [e for e in json.loads(written.read_bytes())["traceEvents"] if e.get("cat") == "kernel" and e["ph"] == "X"]
    assert len(kept) == len(trace.kernels)


def test_its_verification_passes(acelyzer, tmp_path):
    done = acelyzer("-V")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert report["result"] == "PASS" and report["errors"] == []
    assert next(test for test in report["test_results"] if test["test"] == "Compute Overlap Check")["result"] == "pass"
    # A kernel's parent is aiuLaunchScheduleCompute or aiuScheduleWait to it; an eager program's kernels have others.
    assert {finding["finding"] for finding in report["warnings"]} <= {"orphan_kernels", "orphan_parents"}
