"""Where each kernel comes from: op, module and source line. In: a Trace, and what is known of provenance. Out: facts.

From the trace itself: the op that launched it, and with with_stack the module and the Python function around that. From
the compiler's file, if one is given: the ATen ops and source lines of what was fused into it, and its debug handles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from kineto_spyre.provenance import Known
from kineto_spyre.report.section import Section
from kineto_spyre.traces import Trace
from kineto_spyre.traces.places import Place, kernels, of_launches

_MOST = 5  # of each kind, a kernel


def origins(trace: Trace, known: Known | None = None) -> list[dict[str, Any]]:
    """By kernel name, the longest in total first."""
    rows = kernels(trace)
    by_name: dict[int, list[Place]] = defaultdict(list)
    total: dict[int, int] = defaultdict(int)
    if len(rows):
        names, lasted = trace.slices["name"][rows].tolist(), trace.slices["duration"][rows].tolist()
        for name, ns, place in zip(names, lasted, of_launches(trace, rows)):
            by_name[name].append(place)
            total[name] += ns
    return [_origin(trace.names[name], by_name[name], known) for name in sorted(total, key=lambda one: -total[one])]


def _origin(name: str, launched: list[Place], known: Known | None) -> dict[str, Any]:
    origin = known.origin(name) if known is not None else None
    found = {
        "name": name,
        "known": origin is not None,
        "ops": _most(place.op for place in launched),
        "modules": _most(place.module for place in launched),
        "lines": _most(place.line for place in launched),
    }
    if origin is not None:
        found |= {"aten_ops": list(origin.aten_ops), "source": list(origin.lines), "nodes": list(origin.nodes),
                  "debug_handles": list(origin.handles)}  # fmt: skip
    return found


def _most(texts: Iterator[str]) -> list[str]:
    counts: dict[str, int] = defaultdict(int)
    for text in texts:
        if text:
            counts[text] += 1
    return sorted(counts, key=lambda one: -counts[one])[:_MOST]


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown: a compiler's answer goes before what the trace tells."""
    rows = []
    for one in facts["origins"][:top]:
        ops, lines = one.get("aten_ops") or one["ops"], one.get("source") or one["lines"]
        if lines or one["modules"] or one["known"]:
            rows.append((one["name"], ", ".join(ops), ", ".join(one["modules"]), ", ".join(lines)))
    if rows:
        yield Section("Where kernels come from", [], ("name", "op", "module", "source"), [*rows])
