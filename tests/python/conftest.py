"""What all Python tests share."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

CHECKOUT = pathlib.Path(__file__).parents[2]


def pytest_configure(config: pytest.Config) -> None:
    """The installed wheel is what must be tested; the checkout has no extension modules."""
    import kineto_spyre

    where = pathlib.Path(kineto_spyre.__file__).resolve()
    if where.is_relative_to(CHECKOUT) and "site-packages" not in where.parts:
        raise pytest.UsageError(
            f"kineto_spyre comes from {where}, the source tree; run `make test`, or pytest without "
            "PYTHONPATH and with the wheel installed"
        )


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: pathlib.Path) -> RunPython:
    """Runs a program in an interpreter of its own: run_python(code, *args, env={...}, check=True, python=[...]).

    Most of what this package does can be done once a process: a backend is named, a plugin registered, a library
    opened. Keyword `env` is added to the environment; a value of None takes a variable away.
    """

    def run(
        code: str,
        *args: str,
        env: dict[str, str | None] | None = None,
        check: bool = True,
        python: tuple[str, ...] = (),
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
        environment["PYTHONSAFEPATH"] = "1"
        for name, value in (env or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        done = subprocess.run(
            [sys.executable, *python, "-c", textwrap.dedent(code), *args],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            pytest.fail(f"the program ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run


@pytest.fixture(scope="session")
def two_devices() -> None:
    """An emulated Spyre in this process, with two devices unless another test has made one."""
    pytest.importorskip("torch")
    import kineto_spyre

    if not kineto_spyre.emulator.is_enabled():
        kineto_spyre.emulator.enable(devices=2)


@pytest.fixture
def clean_device(two_devices: None) -> None:
    """Device 0 has an empty cache and no peak yet."""
    import torch

    gc.collect()
    torch.spyre.synchronize()
    torch.spyre.empty_cache()
    torch.spyre.reset_peak_memory_stats()
