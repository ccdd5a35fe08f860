"""The wheel's metadata and contents, and what the build asks for."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).parents[3] / "tools"


def test_the_wheel_depends_on_the_torch_it_was_built_for():
    import torch

    minor = ".".join(torch.__version__.split(".")[:2])
    requirements = importlib.metadata.requires("kineto-spyre")
    assert [r for r in requirements if r.startswith("torch=")] == [f"torch=={minor}.*"]


def test_the_wheel_holds_its_libraries_and_types_and_no_templates():
    files = {str(f) for f in importlib.metadata.files("kineto-spyre")}
    for library in ("libspyre_emulator.so", "libaiupti_emulated.so"):
        assert f"kineto_spyre/lib/{library}" in files
    assert "kineto_spyre/py.typed" in files
    assert "kineto_spyre/_C.pyi" in files
    assert not [f for f in files if f.endswith(".in")]


def test_the_wheel_is_at_most_5_mb():
    files = [f for f in importlib.metadata.files("kineto-spyre") if "__pycache__" not in str(f)]
    assert sum(f.locate().stat().st_size for f in files) < 5_000_000


def test_no_path_of_the_build_stays_in_the_extensions():
    package = pathlib.Path(importlib.metadata.distribution("kineto-spyre").locate_file("kineto_spyre"))
    extensions = [*package.glob("_*.so"), *package.glob("lib/*.so")]
    assert len(extensions) >= 5
    for extension in extensions:
        dynamic = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
        paths = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "PATH)" in line]
        assert all(p.startswith("$ORIGIN") for path in paths for p in path.split(":")), (extension, paths)


@pytest.mark.parametrize(("version", "asked"), [("2.14.1", []), (None, ["torch==2.13.0"])])
def test_the_build_takes_the_torch_that_is_there_and_asks_for_one_only_if_there_is_none(tmp_path, version, asked):
    pytest.importorskip("scikit_build_core")
    if version:
        (tmp_path / "version.py").write_text(f"__version__ = '{version}'\n")
    code = f"""
import sys
sys.path.insert(0, {str(TOOLS)!r})
import find_torch
import pathlib
find_torch.torch_dir = lambda: {f"pathlib.Path({str(tmp_path)!r})" if version else None}
import build_backend
print([r for r in build_backend.get_requires_for_build_wheel() if "torch" in r])
print(build_backend.dynamic_metadata({{}}, {{}})["dependencies"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TOOLS.parent)
    required, depends = done.stdout.splitlines()[-2:]
    assert required == str(asked)
    assert depends.startswith(str(["torch ==2.14.*" if version else "torch ==2.13.*"])[:-1])
