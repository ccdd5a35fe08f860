"""Processes that a program starts: they know the device by KINETO_SPYRE_EMULATE, and a bad value breaks nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


class OnTheDevice(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return (torch.full((2,), float(i), device="spyre:1") * 2).cpu()


def child(results, x):
    results.put((x.to("spyre:1") @ x.to("spyre:1").T).cpu().tolist())


def main(method):
    context = mp.get_context(method)
    results = context.Queue()
    process = context.Process(target=child, args=(results, torch.ones(1, 3)))
    process.start()
    assert results.get(timeout=120) == [[3.0]]
    process.join()
    assert process.exitcode == 0
    loader = DataLoader(OnTheDevice(), batch_size=2, num_workers=2, multiprocessing_context=method)
    assert torch.cat(list(loader)).tolist() == [[0, 0], [2, 2], [4, 4], [6, 6]]


if __name__ == "__main__":
    main(sys.argv[1])
"""


def run(script, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
    return subprocess.run(
        [sys.executable, "-P", script, *arguments],
        env=clean | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_and_loader_workers_use_the_device(tmp_path, method) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run(script, method, KINETO_SPYRE_EMULATE="2")
    assert done.returncode == 0, done.stderr


def test_importing_torch_starts_it_and_enable_with_the_same_arguments_changes_nothing(run_python) -> None:
    run_python(
        """
import torch
assert torch.spyre.device_count() == 2
x = torch.ones(2, device="spyre:1")
import kineto_spyre
kineto_spyre.emulator.enable(devices=2)
with kineto_spyre.profile_spyre():
    (x + x).cpu()
assert kineto_spyre.last_session().captured["kernel"] == 1
""",
        env={"KINETO_SPYRE_EMULATE": "2"},
    )


def test_enable_as_a_programs_first_line_wins_over_the_variable(run_python) -> None:
    run_python(
        """
from kineto_spyre import emulator
emulator.enable(devices=3)
import torch
assert torch.spyre.device_count() == 3
""",
        env={"KINETO_SPYRE_EMULATE": "2"},
    )


@pytest.mark.parametrize("value", ["0", "", " "])
def test_it_stays_off(run_python, value) -> None:
    run_python(
        """
import torch
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
from kineto_spyre import emulator
assert not emulator.is_enabled()
""",
        env={"KINETO_SPYRE_EMULATE": value},
        python=("-W", "error"),
    )


@pytest.mark.parametrize("value", ["9", "two", "-1", "1.5"])
def test_a_value_that_cannot_be_read_is_one_warning(run_python, value) -> None:
    done = run_python(
        """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
assert torch.ones(2).sum() == 2
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
""",
        env={"KINETO_SPYRE_EMULATE": value},
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("SpyreProfilerWarning: ")
    assert f"KINETO_SPYRE_EMULATE is {value!r}; expected a whole number from 0 to 8" in line


def test_beside_another_backend_it_is_one_warning(run_python) -> None:
    done = run_python(
        """
import importlib, warnings
import torch
torch.utils.rename_privateuse1_backend("other")
import os
os.environ["KINETO_SPYRE_EMULATE"] = "1"
from kineto_spyre import _autoload
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    _autoload.register()
print(*(w.message for w in caught), sep="\\n")
"""
    )
    assert "The emulated Spyre was not started" in done.stdout and "'other'" in done.stdout
