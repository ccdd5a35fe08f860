"""The one seam between the profiler and a runtime of our own: a name, and the module that starts it.

The emulator imports the profiler; the profiler imports the emulator only here, by name, when somebody asks for it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol, cast

_MODULES = {"emulated": "kineto_spyre.emulator"}


class Runtime(Protocol):
    """What the profiler asks of such a module."""

    def is_enabled(self) -> bool: ...
    def enable(self) -> Any: ...
    def device_count(self) -> int: ...
    def metrics_files(self) -> list[str]: ...


def module(name: str) -> Runtime:
    """The module of a runtime, imported."""
    return cast(Runtime, importlib.import_module(_MODULES[name]))


def running() -> Runtime | None:
    """The runtime of our own that was started in this process, if there is one. Imports nothing."""
    for path in _MODULES.values():
        found = cast("Runtime | None", sys.modules.get(path))
        if found is not None and found.is_enabled():
            return found
    return None
