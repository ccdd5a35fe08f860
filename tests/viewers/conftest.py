"""The tools that our users read traces with, on the trace that `kineto-spyre demo` writes.

A tool that is not here makes its tests skip with a reason. KINETO_SPYRE_VIEWERS=1: then they fail instead (for CI);
KINETO_SPYRE_VIEWERS=0: all of them skip. KINETO_SPYRE_VIEWERS_TRACE=FILE: read this trace in the demo's place.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections import Counter

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "tools"))

import screenshot  # noqa: E402

WANTED = os.environ.get("KINETO_SPYRE_VIEWERS", "")


def pytest_collection_modifyitems(items):
    if WANTED == "0":
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason="KINETO_SPYRE_VIEWERS=0"))


@pytest.fixture(scope="session")
def missing():
    """What to do when a tool is missing: missing(reason)."""

    def missing(reason):
        if WANTED == "1":
            pytest.fail(f"KINETO_SPYRE_VIEWERS=1, but {reason}")
        pytest.skip(reason)

    return missing


@pytest.fixture(scope="session")
def log_directory(tmp_path_factory):
    """A TensorBoard log directory with one run."""
    directory = tmp_path_factory.mktemp("log") / "demo"
    given = os.environ.get("KINETO_SPYRE_VIEWERS_TRACE")
    if given:
        directory.mkdir()
        name = pathlib.Path(given).name
        if ".pt.trace.json" not in name:
            name = "given.pt.trace.json" + (".gz" if given.endswith(".gz") else "")
        shutil.copy(given, directory / name)
    else:
        command = [sys.executable, "-m", "kineto_spyre", "demo", "--out", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="session")
def trace_path(log_directory, tmp_path_factory):
    """The run's trace as a plain JSON file."""
    (path,) = log_directory.glob("*.pt.trace.json*")
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    plain = tmp_path_factory.mktemp("trace") / "trace.json"
    plain.write_bytes(content)
    return plain


class Trace:
    """What the tests compare a tool's figures with: sums over the trace itself."""

    def __init__(self, path):
        self.document = json.loads(path.read_bytes())
        self.events = self.document["traceEvents"]
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.kernels = self.of("kernel")
        self.work = self.of("kernel", "gpu_memcpy", "gpu_memset")
        self.steps = [event for event in self.of("user_annotation") if event["name"].startswith("ProfilerStep#")]

    def of(self, *categories):
        return [event for event in self.slices if event.get("cat") in categories]

    def by_name(self, events):
        """name -> (count, microseconds)."""
        counts, sums = Counter(), Counter()
        for event in events:
            counts[event["name"]] += 1
            sums[event["name"]] += event["dur"]
        return {name: (counts[name], sums[name]) for name in counts}


@pytest.fixture(scope="session")
def trace(trace_path):
    trace = Trace(trace_path)
    assert trace.kernels, "no kernel in this trace"
    return trace


@pytest.fixture(scope="session")
def readers(missing):
    """The Python of an environment that has acelyzer and HTA; made once, kept in the cache."""
    requirements = HERE / "requirements-readers.txt"
    key = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    environment = screenshot.cache() / f"readers-{key}"
    python = environment / "bin" / "python"
    if not (environment / "complete").exists():
        shutil.rmtree(environment, ignore_errors=True)
        make = [sys.executable, "-m", "venv", str(environment)]
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "-r", str(requirements)]
        for command in (make, install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                missing(f"acelyzer and HTA could not be installed: {done.stderr.strip()[-300:]}")
        (environment / "complete").touch()
    return python


@pytest.fixture(scope="session")
def tensorboard(log_directory):
    """TensorBoard as a user has it who installed kineto-spyre."""
    pytest.importorskip("torch_tb_profiler")
    with screenshot.TensorBoard(log_directory) as board:
        yield board


@pytest.fixture
def viewer(missing):
    """Headless Chromium without internet."""
    try:
        viewer = screenshot.Viewer()
    except screenshot.Missing as error:
        missing(str(error))
    with viewer:
        yield viewer
