"""What the tests of the flight recorder share."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kineto_spyre  # noqa: E402


@pytest.fixture
def recorder(two_devices, tmp_path):
    """A recorder whose dumps go to the test's own folder."""
    with kineto_spyre.record(seconds=60, folder=tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def work(two_devices):
    """Runs a request: three kernels, a copy back, a range around them."""
    x, w = torch.full((64, 64), 0.5).to("spyre"), torch.full((64, 64), 0.25).to("spyre")

    def run(name: str = "request") -> None:
        with torch.profiler.record_function(name):
            assert (x @ w).relu().sum().item() == 64 * 64 * 8.0

    run("warm")
    return run
