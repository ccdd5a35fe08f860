"""Switching the emulated machine on: what it maps, whom it refuses beside it, what it can't be told."""

from __future__ import annotations

import pathlib

import pytest

STANDIN = pathlib.Path(__file__).parents[2] / "standins" / "torch_spyre"

MAPPED = """
def mapped(part):
    return any(part in line for line in open("/proc/self/maps"))
"""


def test_importing_maps_no_library_and_enabling_maps_the_runtime_alone(run_python):
    run_python(
        MAPPED
        + """
import sys
from kineto_spyre import emulator
assert "torch" not in sys.modules
assert not mapped("spyre_emulator") and not mapped("aiupti")
assert not emulator.is_enabled() and emulator.device_count() == 0
emulator.enable(devices=3)
assert mapped("libspyre_emulator") and not mapped("aiupti")
assert emulator.is_enabled() and emulator.device_count() == 3
import torch
assert torch.spyre.device_count() == 3
"""
    )


def test_the_same_again_changes_nothing_another_machine_is_refused_while_this_one_is_in_use(run_python):
    run_python(
        """
from kineto_spyre import emulator
emulator.enable(devices=1, seed=3)
emulator.enable(devices=1, seed=3)
address = emulator.Device(0).alloc(100)
try:
    emulator.enable(devices=2)
except ValueError as error:
    assert "in use with another configuration" in str(error), error
else:
    raise AssertionError("it was not refused")
emulator.Device(0).free(address)
emulator.enable(devices=2)
assert emulator.device_count() == 2
"""
    )


def test_it_stays_off_beside_torch_spyre_unless_forced(run_python):
    run_python(
        f"""
import os, sys
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
sys.path.insert(0, {str(STANDIN)!r})
from kineto_spyre import emulator
try:
    emulator.enable()
except RuntimeError as error:
    assert "torch-spyre is installed" in str(error) and "force=True" in str(error), error
else:
    raise AssertionError("it was not refused")
assert not emulator.is_enabled()
emulator.enable(force=True)
assert emulator.is_enabled()
"""
    )


def test_it_stays_off_beside_another_backend(run_python):
    run_python(
        """
import torch
torch.utils.rename_privateuse1_backend("other")
from kineto_spyre import emulator
try:
    emulator.enable(force=True)
except RuntimeError as error:
    assert "'other'" in str(error), error
else:
    raise AssertionError("it was not refused")
assert not emulator.is_enabled()
"""
    )


@pytest.mark.parametrize(
    "arguments, says",
    [
        ("devices=0", "devices=0: expected a whole number from 1 to 8"),
        ("devices=9", "devices=9"),
        ("devices='two'", "devices='two'"),
        ("time='real'", "expected 'modelled' or 'measured'"),
        ("seed=-1", "seed=-1"),
        ("seed=1.5", "seed=1.5"),
        ("memory_bytes=1", "memory_bytes=1"),
    ],
)
def test_arguments_that_make_no_sense(run_python, arguments, says):
    run_python(
        f"""
from kineto_spyre import emulator
try:
    emulator.enable({arguments})
except ValueError as error:
    assert {says!r} in str(error), error
else:
    raise AssertionError("it was not refused")
assert not emulator.is_enabled()
"""
    )


def test_faults_from_the_environment(run_python):
    run_python(
        """
from kineto_spyre import emulator
emulator.enable()
device = emulator.Device(0)
assert device.clock(10**9) == 10**9 + 5_000_000
with emulator.faults(clock_offset="1ms"):
    assert device.clock(10**9) == 10**9 + 1_000_000
assert device.clock(10**9) == 10**9 + 5_000_000, "those of the environment are in force again"
""",
        env={"KINETO_SPYRE_FAULTS": "clock_offset=5ms"},
    )
    done = run_python(
        "from kineto_spyre import emulator; emulator.enable()",
        env={"KINETO_SPYRE_FAULTS": "clock_offset=soon"},
        check=False,
    )
    assert done.returncode != 0
    assert "KINETO_SPYRE_FAULTS: the fault 'clock_offset' takes a duration" in done.stderr


def test_a_device_needs_a_machine(run_python):
    run_python(
        """
from kineto_spyre import emulator
try:
    emulator.Device(0)
except RuntimeError as error:
    assert "enable() first" in str(error)
else:
    raise AssertionError("it was not refused")
"""
    )


def test_the_child_of_a_fork_has_none_and_can_make_one(run_python):
    run_python(
        """
import os
from kineto_spyre import emulator
emulator.enable(devices=2)
emulator.Device(0).launch("k", ns=5_000_000)
child = os.fork()
if child == 0:
    assert not emulator.is_enabled() and emulator.device_count() == 0
    try:
        emulator.Device(0)
    except RuntimeError:
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )
