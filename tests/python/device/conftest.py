"""The device's tests share one process and one emulated machine of two devices."""

from __future__ import annotations

import pytest

DEVICES = 2


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    torch = pytest.importorskip("torch")
    import kineto_spyre

    kineto_spyre.emulator.enable(devices=DEVICES)
    torch.set_num_threads(1)


def reset() -> None:
    import torch

    for index in range(DEVICES):
        torch.spyre.set_stream(torch.spyre.default_stream(index))
    torch.spyre.set_device(0)
    torch.set_default_device(None)


@pytest.fixture(autouse=True)
def as_it_was(machine: None):
    """Each test begins on device 0 with its default stream, a known seed and an empty cache."""
    import torch

    from kineto_spyre import _device

    reset()
    torch.manual_seed(0)
    moved = _device.bytes_moved()
    yield
    assert _device.bytes_moved() == moved, "an op's result was copied into the device's memory"
    torch.spyre.synchronize()
    reset()
