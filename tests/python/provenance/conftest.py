"""The emulated Spyre with two devices, each test on device 0 with an empty cache."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    pytest.importorskip("torch")
    import kineto_spyre

    if not kineto_spyre.emulator.is_enabled():
        kineto_spyre.emulator.enable(devices=2)


@pytest.fixture(autouse=True)
def clean(machine: None) -> None:
    import torch

    gc.collect()
    torch.spyre.synchronize()
    torch.spyre.empty_cache()
    torch.spyre.reset_peak_memory_stats()
