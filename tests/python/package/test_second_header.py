"""A plugin that was built against another release's header (tests/sdk) knows that the emulator's records differ.

That it reads its own header's records is tested in C++ (the test `second_header`).
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from kineto_spyre import diagnostics

ROOT = pathlib.Path(__file__).parents[3]

PROGRAM = """
import sys
import torch
import kineto_spyre
from kineto_spyre import emulator

emulator.enable(seed=7)
with kineto_spyre.profile_spyre() as prof:
    x = torch.ones(64, 64, dtype=torch.float16).to("spyre")
    y = (x @ x).relu().cpu()
prof.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def second_build(tmp_path_factory):
    """The folder of a kineto_spyre whose plugin was built against tests/sdk."""
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


def test_records_of_another_layout_are_not_guessed_at(run_python, tmp_path, second_build):
    run_python(PROGRAM, str(tmp_path / "trace.json"), env={"PYTHONPATH": str(second_build)})
    trace = json.loads((tmp_path / "trace.json").read_text())
    session = trace["kineto_spyre"]
    assert session["versions"]["libaiupti_header"] == "SDK"
    assert session["records_read"] == 0
    assert not [e for e in trace["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "privateuse1_runtime")]
    said = " ".join(found.sentence for found in diagnostics.parse(session["diagnostics"]))
    assert "build it without LIBAIUPTI_INSTALL_DIR" in said
    assert "libaiupti_emulated.so" in said
