"""Programs as users have them, with tiny models of random weights: nothing is downloaded.

Each runs on the CPU and on the device, and the results must be equal to the last bit.
"""

from __future__ import annotations

import os
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
def on_both(machine: None) -> Callable[..., Any]:
    """on_both(program) calls program("cpu") and program("spyre"), each from the same seed, and compares the results.

    A program returns tensors, or a structure of them, wherever they are. What the CPU gave is returned.
    """
    import torch
    from torch.utils._pytree import tree_flatten

    def run(program: Callable[[str], Any]) -> Any:
        results = []
        for device in ("cpu", "spyre"):
            torch.manual_seed(0)
            results.append(program(device))
        (expected, shape), (got, shape_got) = (tree_flatten(r) for r in results)
        assert shape == shape_got and expected, "both gave the same structure, and something in it"
        for i, (a, b) in enumerate(zip(expected, got)):
            if isinstance(a, torch.Tensor):
                assert a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu()), f"result {i} differs"
            else:
                assert a == b, f"result {i} differs"
        return results[0]

    return run
