"""Reports: why a trace's steps took as long as they did. Needs no torch.

>>> report = kineto_spyre.report("trace.json")      # or a torch.profiler.profile that has stopped
>>> print(report)
>>> report.facts["steps"][0]["verdict"]
>>> report.html("report.html")

>>> kineto_spyre.report("before.json", "after.json")    # what changed

`work` (trace to device work), `idle` (why nothing ran), `facts` (all numbers), `verdict`; `changes` compares two
traces; `terminal`, `page` and `plots` show them. The module itself can be called, since the package's function and this
folder have one name.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator

from kineto_spyre.provenance import load
from kineto_spyre.report import changes, changes_shown, plots, terminal
from kineto_spyre.report.facts import NoDeviceWork, facts
from kineto_spyre.report.section import Plot, Section
from kineto_spyre.report.shown import Shown
from kineto_spyre.traces import Trace, Unreadable, read
from kineto_spyre.traces.opening import Source

__all__ = ["Comparison", "NoDeviceWork", "Report", "Unreadable", "compare", "make"]


class Report(Shown):
    """The facts of a trace (docs/reference/report.md), and ways to show them."""

    title = "Report of a trace"

    @property
    def sources(self) -> list[str]:
        return [self.facts["trace"]]

    def sections(self, top: int = 10) -> Iterator[Section]:
        return terminal.sections(self.facts, top)

    def plots(self) -> list[Plot]:
        return plots.of_trace(self.facts)


class Comparison(Shown):
    """What changed between two traces, and ways to show it."""

    title = "Two traces compared"

    @property
    def sources(self) -> list[str]:
        return [one["trace"] for one in self.facts["traces"]]

    def sections(self, top: int = 10) -> Iterator[Section]:
        return changes_shown.sections(self.facts, top)

    def plots(self) -> list[Plot]:
        return changes_shown.plots(self.facts)


def make(source: Source | Trace, link: float | None = None, provenance: str | os.PathLike[str] | None = None) -> Report:
    """A report of a trace: a path, a file's bytes, or a torch.profiler.profile that has stopped.

    Args:
        link: GB/s of the link between host and device; None: the best copy of the trace stands for it.
        provenance: where kernels come from: a spyre_provenance.json, or Inductor's node mappings.

    Raises:
        ProvenanceError: the file of provenance can't be read; the text says why.
        Unreadable: the source is no trace; the text says why.
        NoDeviceWork: nothing in it ran on a device.
    """
    known = load(provenance) if provenance is not None else None
    return Report(facts(_read(source), link, known))


def compare(before: Source | Trace, after: Source | Trace) -> Comparison:
    """What changed from one trace to another; sources as in `make`.

    Raises:
        Unreadable, NoDeviceWork: one of the two, as in `make`.
    """
    return Comparison(changes.changes(_read(before), _read(after)))


def _read(source: Source | Trace) -> Trace:
    return source if isinstance(source, Trace) else read(source)


class _Callable(types.ModuleType):
    def __call__(self, source: Source, after: Source | None = None, *, link: float | None = None) -> Shown:
        return make(source, link) if after is None else compare(source, after)


sys.modules[__name__].__class__ = _Callable
