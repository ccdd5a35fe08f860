"""Programs as users have them, with tiny models of random weights: nothing is downloaded.

Each runs on the CPU and on the device. The results must be equal to the last bit, and the device's trace must be sound
by `kineto-spyre check`.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    pytest.importorskip("transformers", reason="these programs need transformers (pip install transformers)")
    import torch

    import kineto_spyre

    if not kineto_spyre.emulator.is_enabled():
        kineto_spyre.emulator.enable(devices=2)
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def as_it_was(machine: None) -> Iterator[None]:
    import torch

    torch.spyre.set_device(0)
    yield
    torch.spyre.set_device(0)


@pytest.fixture
def on_both(machine: None, tmp_path: pathlib.Path) -> Callable[..., Any]:
    """on_both(program) calls program("cpu") and program("spyre"), each from the same seed, and compares the results.

    A program returns tensors, or a structure of them, wherever they are. What the CPU gave is returned.
    """
    import torch
    from torch.utils._pytree import tree_flatten

    import kineto_spyre
    from kineto_spyre.traces import check

    def run(program: Callable[[str], Any]) -> Any:
        torch.manual_seed(0)
        on_cpu = program("cpu")
        torch.manual_seed(0)
        with kineto_spyre.profile_spyre() as prof:
            on_device = program("spyre")
        (expected, shape), (got, shape_got) = tree_flatten(on_cpu), tree_flatten(on_device)
        assert shape == shape_got and expected, "both gave the same structure, and something in it"
        for i, (a, b) in enumerate(zip(expected, got)):
            if isinstance(a, torch.Tensor):
                assert a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu()), f"result {i} differs"
            else:
                assert a == b, f"result {i} differs"
        trace = tmp_path / "trace.json"
        prof.export_chrome_trace(str(trace))
        report = check(str(trace))
        assert report["spyre"] and report["sound"], report["findings"]
        assert kineto_spyre.last_session().captured["kernel"] > 0
        return on_cpu

    return run
