"""The machine of these tests: two devices, unless another test of the process has started one already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kineto_spyre import emulator


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    if not emulator.is_enabled():
        emulator.enable(devices=2)


@pytest.fixture
def device() -> Iterator[emulator.Device]:
    yield emulator.Device(0)
    emulator.Device(0).synchronize()
