"""What happens within kernels: marked ops (kineto_spyre.instrument), or the phases that cycle stamps tell.

In: a Trace, in whose metadata the layers "phases" and "stamps" have left sums. Out: facts in ns and bytes, and
sections; none where the trace has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration, size
from kineto_spyre.traces import Trace

_HOST = "the CPU"
_COLUMNS = ("op", "count", "time", "share", "DMA", "stick waste", "utilization", "stall", "energy", "source")


def phases(trace: Trace) -> list[dict[str, Any]]:
    """By kernel, the one whose marked ops take longest first, and by op; `share` is of the kernel's time."""
    said = _said(trace)
    found = []
    for kernel, ops in said.items():
        total = _total(trace, kernel) if kernel else sum(one["duration_ns"] for one in ops.values())
        rows = [{"op": name, "share": one["duration_ns"] / total if total else 0.0, **one} for name, one in ops.items()]
        found.append({"kernel": kernel or _HOST, "total": total, "ops": sorted(rows, key=_longest)})
    return sorted(found, key=lambda one: -sum(op["duration_ns"] for op in one["ops"]))


def _longest(row: dict[str, Any]) -> int:
    return -int(row["duration_ns"])


def _said(trace: Trace) -> dict[str, dict[str, Any]]:
    layers = trace.metadata.get("kineto_spyre_layers")
    found: dict[str, dict[str, Any]] = {}
    for layer in ("stamps", "phases"):  # marks tell more than stamps
        about = layers.get(layer) if isinstance(layers, dict) else None
        kernels = about.get("kernels") if isinstance(about, dict) else None
        found |= kernels if isinstance(kernels, dict) else {}
    return found


def _total(trace: Trace, kernel: str) -> int:
    if kernel not in trace.names:
        return 0
    chosen = trace.slices["name"] == trace.names.index(kernel)
    chosen &= np.isin(trace.slices["cat"], [i for i, cat in enumerate(trace.cats) if cat == "kernel"])
    return int(trace.slices["duration"][chosen].sum())


def sections(facts: dict[str, Any], top: int, kernel: str | None = None) -> Iterator[Section]:
    """A table for each kernel that has marked ops; of those whose name holds `kernel`, if it is given."""
    for one in [one for one in facts["phases"] if kernel is None or kernel in one["kernel"]][:top]:
        on_card = one["kernel"] != _HOST
        total = f"{duration(one['total'])} in all" + ("; shares are of that." if on_card else " between marks.")
        rows = [_row(op) for op in one["ops"]]
        shown = [i for i in range(len(_COLUMNS)) if i < 4 or any(row[i] for row in rows)]
        columns = tuple(_COLUMNS[i] for i in shown)
        yield Section(f"Within {one['kernel']}", [total], columns, [tuple(row[i] for i in shown) for row in rows])


def within(facts: dict[str, Any], kernel: str) -> Iterator[Section]:
    """Those of kernels whose name holds `kernel`, or a sentence if there are none."""
    found = list(sections(facts, len(facts["phases"]), kernel))
    yield from found
    if not found:
        sentence = (
            f"The trace has no marked op within a kernel whose name holds {kernel!r}. Mark ops with "
            "kineto_spyre.instrument() before the program is compiled, or profile with "
            "profile_spyre(phases=True)."
        )
        yield Section("Marked ops", [sentence])


def _row(op: dict[str, Any]) -> tuple[str, ...]:
    lasted = op["duration_ns"]
    moved = op["read bytes"] + op["written bytes"] if "read bytes" in op else None
    return (
        op["op"],
        f"{op['count']:,}",
        duration(lasted),
        f"{op['share']:.1%}",
        "" if moved is None else size(moved),
        "" if moved is None else size(op["stick-alignment waste"]),
        f"{op['utilised_ns'] / lasted:.0%}" if "utilised_ns" in op and lasted else "",
        ", ".join(f"{cause} ({duration(round(ns))})" for cause, ns in sorted(op["stalls"].items())),
        f"{op['energy']:.3g} J" if "energy" in op else "",
        op["source"],
    )
