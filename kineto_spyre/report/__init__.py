"""Reports: why a trace's steps took as long as they did. Needs no torch.

>>> report = kineto_spyre.report("trace.json")      # or a torch.profiler.profile that has stopped
>>> print(report)
>>> report.facts["steps"][0]["verdict"]
>>> report.html("report.html")

>>> kineto_spyre.report("before.json", "after.json")    # what changed
>>> kineto_spyre.report("traces/")                      # the traces of many ranks: who keeps the others waiting

`work` (trace to device work), `idle` (why nothing ran), `facts` (all numbers), `verdict`; `changes` compares two traces
and `ranks` many; `terminal`, `page` and `plots` show them. The module itself can be called, since the package's
function and this folder have one name.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from kineto_spyre.provenance import load
from kineto_spyre.report import changes, changes_shown, notebook, phases, plots, terminal
from kineto_spyre.report.energy import CELSIUS_LIMIT
from kineto_spyre.report.facts import NoDeviceWork, facts
from kineto_spyre.report.ideal import IdealError, ideal_cycles
from kineto_spyre.report.ranks import comparing, ranks_shown
from kineto_spyre.report.ranks.comparing import NotComparable
from kineto_spyre.report.ranks.finding import lone_trace
from kineto_spyre.report.section import Plot, Section
from kineto_spyre.report.shown import Shown
from kineto_spyre.traces import Trace, Unreadable, parquet, read
from kineto_spyre.traces.opening import Source

__all__ = [
    "Comparison",
    "IdealError",
    "NoDeviceWork",
    "NotComparable",
    "Ranks",
    "Report",
    "Unreadable",
    "compare",
    "make",
    "many",
    "show",
]


class Report(Shown):
    """The facts of a trace (docs/reference/report.md), and ways to show them."""

    title = "Report of a trace"

    @property
    def sources(self) -> list[str]:
        return [self.facts["trace"]]

    def sections(self, top: int = 10) -> Iterator[Section]:
        return terminal.sections(self.facts, top)

    def within(self, kernel: str) -> Iterator[Section]:
        """What marked ops took (kineto_spyre.instrument) within kernels whose name holds `kernel`."""
        return phases.within(self.facts, kernel)

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


class Ranks(Shown):
    """What the traces of many ranks tell together, and ways to show it."""

    title = "Report of many ranks"

    @property
    def sources(self) -> list[str]:
        return [self.facts["directory"]]

    def sections(self, top: int = 10) -> Iterator[Section]:
        return ranks_shown.sections(self.facts, top)

    def plots(self) -> list[Plot]:
        return ranks_shown.plots(self.facts)

    def rank(self, number: int) -> str:
        """One rank against the rest, as text.

        Raises:
            KeyError: there is no such rank.
        """
        return "\n".join(terminal.plain(iter([ranks_shown.against(self.facts, number)])))


def make(
    source: Source | Trace,
    link: float | None = None,
    provenance: str | os.PathLike[str] | None = None,
    ideal: str | os.PathLike[str] | None = None,
    celsius: float = CELSIUS_LIMIT,
) -> Report:
    """A report of a trace: a path, a file's bytes, or a torch.profiler.profile that has stopped.

    Args:
        link: GB/s of the link between host and device; None: the best copy of the trace stands for it.
        provenance: where kernels come from: a spyre_provenance.json, or Inductor's node mappings.
        ideal: the folder in which the compiler wrote `inductor-spyre/KERNEL/perf/ideal_cycles.json`.
        celsius: the temperature at which a step is named as one that met a limit.

    Raises:
        IdealError: that folder can't be read; the text says why.
        ProvenanceError: the file of provenance can't be read; the text says why.
        Unreadable: the source is no trace; the text says why.
        NoDeviceWork: nothing in it ran on a device.
    """
    known = load(provenance) if provenance is not None else None
    return Report(facts(_read(source), link, known, ideal_cycles(ideal) if ideal is not None else None, celsius))


def compare(before: Source | Trace, after: Source | Trace) -> Comparison:
    """What changed from one trace to another.

    Args:
        before, after: traces, as `make` takes them.

    Raises:
        Unreadable, NoDeviceWork: one of the two, as in `make`.
    """
    return Comparison(changes.changes(_read(before), _read(after)))


def _read(source: Source | Trace) -> Trace:
    return source if isinstance(source, Trace) else read(source)


def many(
    directory: str | os.PathLike[str],
    scheduler: str | None = None,
    jobs: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Ranks:
    """A report of the ranks whose traces are in a directory. It needs DuckDB (`pip install 'kineto-spyre[ranks]'`).

    Args:
        scheduler: the address of a Dask scheduler; its workers read, each the files that it is given.
        jobs: how many processes read on this machine. More than one needs a program that Python can import again
            (`if __name__ == "__main__":`).
        progress: called with the part of the traces that has been read, 0 to 1.

    Raises:
        NotComparable: there is no trace, one rank only, or the ranks don't match; the text says what to do.
        SpyreProfilerError: DuckDB or the cluster is missing.
    """
    return Ranks(comparing.compared(directory, scheduler, jobs, progress))


def show(source: Any, after: Source | None = None) -> None:
    """Shows a report: in a notebook as a page in the cell, elsewhere as text.

    Args:
        source: a report, or what one is made of: a torch.profiler.profile that has stopped, a path, a directory.
        after: a second trace: what changed is shown.

    Raises:
        Unreadable, NoDeviceWork, NotComparable: as when the report is made.
    """
    report = source if isinstance(source, Shown) else sys.modules[__name__](source, after)  # type: ignore[operator]
    notebook.display(report)


def _lone(source: Any) -> Any:
    return lone_trace(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else source


def holds_ranks(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether the source is a directory of traces (and none that `export --parquet` wrote)."""
    return isinstance(source, (str, os.PathLike)) and os.path.isdir(source) and not parquet.is_one(source)


class _Callable(types.ModuleType):
    def __call__(
        self, source: Source, after: Source | None = None, *, link: float | None = None, scheduler: str | None = None
    ) -> Shown:
        source = _lone(source)
        if after is not None:
            return compare(source, _lone(after))
        return many(source, scheduler) if holds_ranks(source) else make(source, link)


sys.modules[__name__].__class__ = _Callable
