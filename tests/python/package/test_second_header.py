"""The plugin and the emulated libaiupti, built against another release's header (tests/sdk), write the same trace."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]

PROGRAM = """
import json
import sys
import torch
from torch.profiler import record_function
import kineto_spyre
from kineto_spyre import emulator

emulator.enable(devices=2, seed=7)
one, two = emulator.Device(0), emulator.Device(1)
with kineto_spyre.profile_spyre() as prof:
    with record_function("a range"):
        x = torch.ones(64, 64, dtype=torch.float16).to("spyre")
        y = (x @ x).relu().cpu()
    one.launch("hold", ns=20_000_000)
    one.launch("spyre_kernel_v1_long_aaaaaaaaaaaaaaaa#0", ns=1000, count=3)
    one.launch("modelled", flops=1e9, bytes_read=1 << 20, bytes_written=1 << 20)
    one.copy("HtoD", 1 << 20)
    one.copy("PtoP", 4096, stream=2)
    one.memset(4096)
    one.free(one.alloc(1 << 20))
    two.launch("k", ns=500, stream=2)
    two.copy("DtoH", 12345, stream=3)
    for device in one, two:
        device.synchronize()
prof.export_chrome_trace(sys.argv[1])
"""

# What differs from run to run, and what the second header's records don't tell.
VARYING = {"address", "submitted", "External id"}
NOT_TOLD = {"queued", "local memory total", "cycles_ts", "context"}


def shown(trace: dict[str, Any]) -> list[str]:
    """What the trace shows of the device and of the calls to it, row by row, without what varies."""
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    ops = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op"}
    lines = []
    for event in sorted(events, key=lambda e: (str(e["pid"]), str(e["tid"]), e["ts"])):
        host = event.get("cat") == "privateuse1_runtime"
        if not host and event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
            continue
        row = "host" if host else f"{event['pid']}/{event['tid']}"
        if event["cat"] in ("kernel", "gpu_memcpy") or event["name"].startswith("Memset"):
            row += f" for {round(event['dur'] * 1000)} ns"  # the seed fixes the device's work, not the host's
        args = {k: v for k, v in event["args"].items() if k not in VARYING | NOT_TOLD}
        lines.append(f"{row}: {event['cat']} {event['name']} of {ops.get(event['args'].get('External id'))} {args}")
    return lines + [f"{key}: {trace['kineto_spyre'][key]}" for key in ("captured", "invalid", "out_of_window", "warnings")]


@pytest.fixture(scope="module")
def second_build(tmp_path_factory):
    """The folder of a kineto_spyre whose plugin and emulated libaiupti were built against tests/sdk."""
    pybind11 = pytest.importorskip("pybind11")
    if not (cmake := shutil.which("cmake")):
        pytest.skip("needs cmake")
    import torch

    import kineto_spyre

    build, site = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("site")
    package = site / "kineto_spyre"
    settings = {
        "CMAKE_BUILD_TYPE": "Debug",
        "LIBAIUPTI_INSTALL_DIR": ROOT / "tests/sdk",
        "KINETO_SPYRE_TORCH_DIR": pathlib.Path(torch.__file__).parent,
        "Python_EXECUTABLE": sys.executable,
        "pybind11_DIR": pybind11.get_cmake_dir(),
    }
    for command in (
        [cmake, "-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{name}={value}" for name, value in settings.items())],
        [cmake, "--build", build, "--target", "_C", "aiupti_emulated"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(pathlib.Path(kineto_spyre.__file__).parent, package)
    for pattern, folder in (("_C*.so", package), ("lib*_emulated.so", package / "lib")):
        (built,) = build.rglob(pattern)
        shutil.copy(built, folder)
    return site


def test_the_second_header_gives_the_same_trace(run_python, tmp_path, second_build):
    traces = []
    for name, path in (("first", None), ("second", str(second_build))):
        run_python(PROGRAM, str(tmp_path / name), env={"PYTHONPATH": path})
        traces.append(json.loads((tmp_path / name).read_text()))
    first, second = traces
    assert [t["kineto_spyre"]["versions"]["libaiupti header"] for t in traces] == ["own", "SDK"]
    assert first["kineto_spyre"]["records"] != second["kineto_spyre"]["records"]
    for trace in traces:
        assert all(size["built"] == size["seen"] for size in trace["kineto_spyre"]["records"].values())
    told = {key for e in first["traceEvents"] if e.get("cat") == "kernel" for key in e["args"]}
    assert NOT_TOLD <= told
    assert shown(first) == shown(second)
