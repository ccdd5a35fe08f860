"""Each layer of profile_spyre works alone, is not even imported when it is off, and fails alone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest
import torch

import kineto_spyre
from kineto_spyre import _emulator, traces
from kineto_spyre.profiler import _layers

NAMES = sorted(_layers._MODULES)
MODULES = [(name, module) for name in NAMES for module in _layers._MODULES[name]]


@pytest.fixture(scope="module", autouse=True)
def metrics_files(machine, tmp_path_factory):
    """What telemetry reads."""
    _emulator.write_metrics(str(tmp_path_factory.mktemp("metrics")))
    yield
    _emulator.write_metrics(None)


def failures(said):
    """A busy machine may read telemetry late: that is no failure."""
    return [one for one in said.get("diagnostics", []) if one["code"] != "telemetry_missed"]


def recorded(path, **layers):
    x = torch.ones(8, 8).to("spyre")
    with kineto_spyre.profile_spyre(**layers) as prof:
        torch.compile(lambda x: x * 3 + 1, backend="aot_eager")(x @ x).cpu()
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def work(trace):
    return [one["name"] for one in trace["traceEvents"] if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_works_alone(tmp_path, name):
    path = tmp_path / "trace.json"
    trace = recorded(path, **{name: True})
    said = trace[_layers.KEY]
    assert not failures(said)
    mine = {importlib.import_module(module).layer().name for module in _layers._MODULES[name]}
    assert set(said) & mine and set(said) - {"diagnostics"} <= mine
    faults = [one["rule"] for one in traces.check(path)["findings"] if one["severity"] == "fault"]
    assert set(faults) <= {"track-overlap"}  # PyTorch's own ranges of a compilation may overlap
    assert work(trace)


@pytest.mark.parametrize(("name", "module"), MODULES)
@pytest.mark.parametrize("where", ["start", "stop", "additions"])
def test_a_layer_fails_alone(tmp_path, monkeypatch, name, module, where):
    """All are on and one fails: the others add what they add, the trace is whole, and it says what is missing."""
    made = type(importlib.import_module(module).layer())

    def fails(*_):
        raise OSError("gone")

    monkeypatch.setattr(made, where, fails)
    path = tmp_path / "trace.json"
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match=r"failed \(OSError: gone\)"):
        trace = recorded(path, **dict.fromkeys(NAMES, True))
    (diagnostic,) = failures(trace[_layers.KEY])
    failed = importlib.import_module(module).layer().name
    assert diagnostic["code"] == "layer_failed" and diagnostic["details"]["layer"] == failed
    others = {importlib.import_module(other).layer().name for _, other in MODULES if other != module}
    assert set(trace[_layers.KEY]) - {"diagnostics"} <= others
    assert {"memory", "scratchpad", "compile"} - {failed} <= set(trace[_layers.KEY])
    assert work(trace)


def test_what_is_off_is_not_imported():
    program = """
import sys, torch, kineto_spyre
kineto_spyre.emulator.enable()
with kineto_spyre.profile_spyre() as prof:
    torch.ones(4).to("spyre")
prof.export_chrome_trace(sys.argv[1])
layers = ("kineto_spyre.memory", "kineto_spyre.compiler", "kineto_spyre.telemetry", "kineto_spyre.traces")
print([name for name in sys.modules if name.startswith(layers)])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "/dev/stdout"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("[]")


def test_no_compile_events_where_nothing_was_compiled(tmp_path):
    with kineto_spyre.profile_spyre(compile=True) as prof:
        torch.ones(4).to("spyre")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    said = json.loads((tmp_path / "trace.json").read_text())[_layers.KEY]
    assert said["compile"]["phases"] == 0 and "diagnostics" not in said


def test_layers_that_are_off_run_nothing_while_the_program_runs() -> None:
    """Not one Python function of this package runs on any thread, and no thread and no log handler is added."""
    import logging
    import sys
    import threading

    x = torch.ones(4, device="spyre")
    log = logging.getLogger("torch.__trace")
    before = threading.active_count(), list(log.handlers)
    called: list[str] = []

    def seen(frame, event, argument) -> None:
        if "kineto_spyre" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    with kineto_spyre.profile_spyre():
        assert (threading.active_count(), list(log.handlers)) == before
        threading.setprofile(seen)
        sys.setprofile(seen)
        try:
            for _ in range(100):
                x = x + 1
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    assert called == []
