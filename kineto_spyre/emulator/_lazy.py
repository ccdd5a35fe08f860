"""Calling a function once a module is imported, without importing it.

PyTorch keeps some registries of devices in modules that take seconds to import (Dynamo) or that may be absent. What
belongs into them is registered when the program itself imports them.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Calls `then` with the module `name`: now if it is imported already, else right after its import.

    Args:
        name: The module's full name.
        then: Called once. What it raises, the import raises.
    """
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        sys.meta_path.insert(0, _Finder(name, then))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the others find it, and has a function called when it is loaded."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.then)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, real: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self.real = real
        self.then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader, for inspect.getsource and importlib.resources.
        module.__loader__ = self.real
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        self.real.exec_module(module)
        self.then(module)
