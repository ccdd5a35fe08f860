"""Things to hand a process that is about to import torch."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

STANDINS = pathlib.Path(__file__).parents[2] / "standins"

# libaiupti's functions, which do nothing; each is there or not, by name.
_FUNCTIONS = {
    "RegisterCallbacks": "int aiuptiActivityRegisterCallbacks(void* request, void* complete) { return 0; }",
    "Enable": "int aiuptiActivityEnable(int kind) { return 0; }",
    "Disable": "int aiuptiActivityDisable(int kind) { return 0; }",
    "GetNextRecord": "int aiuptiActivityGetNextRecord(void* b, size_t n, void** record) { return 3; }",
    "GetNumDropped": "int aiuptiActivityGetNumDroppedRecords(size_t* dropped) { *dropped = 0; return 0; }",
    "FlushAll": "int aiuptiFlushAllActivities(void) { return 0; }",
}


@pytest.fixture(scope="session")
def make_libaiupti(tmp_path_factory):
    """Compiles a libaiupti.so with C linkage that records nothing, lacks a function, or only calls all of them."""

    def make(without: str = "", only_calls: bool = False) -> pathlib.Path:
        folder = tmp_path_factory.mktemp("aiupti")
        source = folder / "libaiupti.c"
        bodies = [body for name, body in _FUNCTIONS.items() if name != without]
        if only_calls:
            names = [re.search(r"aiupti\w+", body)[0] for body in bodies]
            bodies = [f"int {name}();" for name in names]
            bodies += [f"int calls(void) {{ return {' + '.join(f'{name}()' for name in names)}; }}"]
        source.write_text("#include <stddef.h>\n" + "\n".join(bodies) + "\n")
        library = folder / "libaiupti.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return library

    return make


@pytest.fixture(scope="session")
def standin_factory(tmp_path_factory):
    """The stand-in torch-spyre's own profiler, compiled against the installed torch."""
    import torch

    include = pathlib.Path(torch.__file__).parent / "include"
    lib = include.parent / "lib"
    library = tmp_path_factory.mktemp("standin") / "libstandin.so"
    source = STANDINS / "torch_spyre" / "factory.cpp"
    flags = ["-std=c++20", "-shared", "-fPIC", "-DUSE_KINETO", "-DFMT_HEADER_ONLY"]
    where = ["-isystem", include, "-isystem", include / "kineto", f"-L{lib}", "-ltorch_cpu", "-lc10"]
    subprocess.run(["c++", *flags, "-o", library, source, *where], check=True)
    return library


@pytest.fixture
def standin():
    """The folder that makes the stand-in torch-spyre importable."""
    return STANDINS / "torch_spyre"
