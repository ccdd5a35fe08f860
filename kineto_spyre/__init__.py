"""IBM Spyre in PyTorch's own profiler.

>>> import kineto_spyre
>>> kineto_spyre.emulator.enable(devices=1)         # or a real Spyre: kineto_spyre.enable()
>>> with kineto_spyre.profile_spyre() as prof:
...     model(inputs.to("spyre"))
>>> prof.export_chrome_trace("trace.json")
>>> kineto_spyre.last_session().captured
{'kernel': 213, 'memcpy': 2, ...}

Importing this package imports neither torch nor a library of its own; each function does when it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._notices import SpyreProfilerError, SpyreProfilerWarning
from .profiler import Session, Status, enable, is_available, last_session, profile_spyre, status

if TYPE_CHECKING:
    from . import emulator, memory, recorder, report
    from .marks import instrument
    from .recorder import record
    from .report import show

__all__ = [
    "Session",
    "SpyreProfilerError",
    "SpyreProfilerWarning",
    "Status",
    "emulator",
    "enable",
    "instrument",
    "is_available",
    "last_session",
    "memory",
    "profile_spyre",
    "record",
    "recorder",
    "report",
    "show",
    "status",
]


def __getattr__(name: str) -> Any:
    if name in ("emulator", "memory", "recorder", "report"):
        return importlib.import_module(f".{name}", __name__)
    if name == "record":  # the flight recorder
        return importlib.import_module(".recorder", __name__).record
    if name == "show":  # a report, in a notebook or in the terminal
        return importlib.import_module(".report", __name__).show
    if name == "instrument":  # marks ops of compiled programs
        return importlib.import_module(".marks", __name__).instrument
    if name == "__version__":  # pyproject.toml's
        from importlib.metadata import version

        return version("kineto-spyre")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
