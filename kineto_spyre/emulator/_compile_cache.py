"""Inductor's cache of compiled graphs, told of this package: a program that another release generated is not taken.

The key of a cached graph holds PyTorch's release and Inductor's settings, and nothing of a device that is not PyTorch's
own. What is added to it: a hash of this package's code generator.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
from types import ModuleType
from typing import Any

from ._lazy import when_imported


def register() -> None:
    """Adds to the key of each graph that is looked up from now on. Imports nothing."""
    when_imported("torch._inductor.codecache", _wrap)


@functools.cache
def _code_generator() -> str:
    digest = hashlib.sha256()
    for file in sorted((pathlib.Path(__file__).parent / "inductor").glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _wrap(module: ModuleType) -> None:
    details = getattr(module, "FxGraphHashDetails", None)
    if details is None:
        return
    before = details.__init__

    @functools.wraps(before)
    def with_ours(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        self.kineto_spyre = _code_generator()  # every attribute is part of the key

    details.__init__ = with_ours
