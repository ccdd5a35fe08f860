"""Reports: why a trace's steps took as long as they did. Needs no torch.

>>> report = kineto_spyre.report("trace.json")      # or a torch.profiler.profile that has stopped
>>> print(report)
>>> report.facts["steps"][0]["verdict"]
>>> report.html("report.html")

`work` (trace to device work), `idle` (why nothing ran), `facts` (all numbers), `verdict`; then `terminal` and `page`
show them. The module itself can be called, since the package's function and this folder have one name.
"""

from __future__ import annotations

import pathlib
import sys
import types
from typing import Any

from kineto_spyre.report.facts import NoDeviceWork, facts
from kineto_spyre.traces import Unreadable, read
from kineto_spyre.traces.opening import Source

__all__ = ["NoDeviceWork", "Report", "Unreadable", "make"]


class Report:
    """The facts of a trace (docs/reference/report.md), and ways to show them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def __str__(self) -> str:
        from kineto_spyre.report.terminal import plain, sections

        return "\n".join(plain(sections(self.facts)))

    def __repr__(self) -> str:
        return f"Report({self.facts['trace']!r})"

    def html(self, path: str | pathlib.Path, force: bool = False) -> None:
        """Writes one self-contained page.

        Raises:
            FileExistsError: the file is there and `force` is not set.
            OSError: it can't be written.
        """
        from kineto_spyre.report.page import page

        with open(path, "w" if force else "x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(page(self.facts))


def make(source: Source, link: float | None = None) -> Report:
    """A report of a trace: a path, a file's bytes, or a torch.profiler.profile that has stopped.

    Args:
        link: GB/s of the link between host and device; None: the best copy of the trace stands for it.

    Raises:
        Unreadable: the source is no trace; the text says why.
        NoDeviceWork: nothing in it ran on a device.
    """
    return Report(facts(read(source), link))


class _Callable(types.ModuleType):
    def __call__(self, source: Source) -> Report:
        return make(source)


sys.modules[__name__].__class__ = _Callable
