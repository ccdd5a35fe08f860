"""What the layers of `profile_spyre` put into a trace, as facts: memory by category, scratchpad, torch.compile.

In: a Trace. Out: facts and sections; bytes, and ns. A trace without a layer has empty facts and no section. Errors:
none; what a layer wrote and this can't read counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kineto_spyre.memory.scratchpad import scratchpad as scratchpad_of
from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration, size
from kineto_spyre.traces import Trace

CATEGORIES = "device memory by category (bytes)"  # the counter's name, kineto_spyre.memory._category_layer
SLOTS = 300  # of a curve
_LONGEST = 1000  # recompiles and graph breaks of a report


def by_category(trace: Trace) -> list[dict[str, Any]]:
    """By device: `times`, `bytes` by category at these (each the entry with the most in its slot), and the `peak`."""
    table = trace.counters
    if not table or CATEGORIES not in trace.names:
        return []
    mine = np.flatnonzero(table["name"] == trace.names.index(CATEGORIES))
    pids = np.array([pid if type(pid) is int else -1 for pid, _ in trace.tracks] or [-1], np.int64)
    found = []
    for device in np.unique(pids[table["track"][mine]]).tolist():
        rows = mine[pids[table["track"][mine]] == device]
        names = np.unique(table["series"][rows]).tolist()
        columns = [table["value"][rows[table["series"][rows] == name]].astype(np.int64) for name in names]
        count = min(map(len, columns))  # a cut file may end within an event
        sizes = np.stack([column[:count] for column in columns])
        times = table["start"][rows[table["series"][rows] == names[0]]][:count]
        whole = sizes.sum(axis=0)
        peak = int(whole.argmax())
        edges = np.unique(np.linspace(0, count, min(SLOTS, count) + 1).astype(np.int64))
        kept = [begin + int(whole[begin:end].argmax()) for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist())]
        texts = [trace.texts[name] for name in names]
        found.append({
            "device": device,
            "times": times[kept].tolist(),
            "bytes": {text: sizes[place, kept].tolist() for place, text in enumerate(texts)},
            "peak": {"time": int(times[peak]), "bytes": {text: int(sizes[place, peak])
                                                        for place, text in enumerate(texts) if sizes[place, peak]}},
        })  # fmt: skip
    return found


def scratchpad(trace: Trace) -> list[dict[str, Any]]:
    """By device, as kineto_spyre.memory.scratchpad tells; without kernels that tell theirs, none."""
    devices: list[dict[str, Any]] = scratchpad_of(trace)["devices"]
    return devices


def compilation(trace: Trace) -> dict[str, Any] | None:
    """What the layer "compile" said; None without it."""
    layers = trace.metadata.get("kineto_spyre_layers")
    said = layers.get("compile") if isinstance(layers, dict) else None
    if not isinstance(said, dict):
        return None
    lists = {key: [one for one in said.get(key) or [] if isinstance(one, dict)][:_LONGEST]
             for key in ("recompiles", "graph_breaks") if isinstance(said.get(key), list)}  # fmt: skip
    caches = said.get("caches")
    caches = {cache: counts for cache, counts in caches.items() if isinstance(counts, dict)
              and all(type(one) is int for one in counts.values())} if isinstance(caches, dict) else {}  # fmt: skip
    whole = {key: said[key] if type(said.get(key)) is int else 0 for key in ("compilations", "duration_ns")}
    return {
        "compilations": whole["compilations"],
        "duration": whole["duration_ns"],
        "recompiles": lists.get("recompiles", []),
        "graph_breaks": lists.get("graph_breaks", []),
        "caches": caches,
    }


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown of them."""
    for one in facts["categories"]:
        whole = sum(one["peak"]["bytes"].values())
        rows = sorted(one["peak"]["bytes"].items(), key=lambda pair: -pair[1])
        shown = [(name.replace("_", " "), size(held), f"{held / max(whole, 1):.1%}") for name, held in rows]
        yield Section(f"Memory of device {one['device']} by category", [], ("at the peak", "bytes", "share"), [*shown])
    for one in facts["scratchpad"]:
        yield _scratchpad(one, top)
    if (said := facts["compile"]) and (said["compilations"] or said["caches"]):
        yield _compilation(said, top)


def _scratchpad(one: dict[str, Any], top: int) -> Section:
    sentences = [
        f"The peak is {size(one['peak']['bytes'])}, {one['peak_of_usable']:.1%} of what the compiler uses (80 % of "
        f"32 x 2 MiB); the average while kernels ran is {size(one['average'])}."
    ]
    if one["spills"]:
        how_many = "1 launch of a kernel" if one["spills"] == 1 else f"{one['spills']:,} launches of kernels"
        sentences.append(f"{how_many} took all of it, so what they touch did not fit at once.")
    return Section(f"Scratchpad of device {one['device']}", sentences,
                   ("name", "count", "peak", "average", "remark"),
                   [(row["name"], f"{row['calls']:,}", size(row["peak"]), size(row["average"]), _remark(row))
                    for row in one["kernels"][:top]])  # fmt: skip


def _remark(row: dict[str, Any]) -> str:
    if row["spills"]:
        return f"spills ({row['spills']:,})"
    return "more than half unused" if row["more_than_half_unused"] else ""


def _compilation(said: dict[str, Any], top: int) -> Section:
    count = said["compilations"]
    sentences = []
    if count:
        frames = "1 function was compiled" if count == 1 else f"{count:,} functions were compiled"
        sentences.append(f"{frames} within the recording, in {duration(said['duration'])}.")
    for cache, counts in sorted(said["caches"].items()):
        told = [f"{counts[found]} {word}" for found, word in (("hit", "found"), ("miss", "not found"),
                                                              ("bypass", "bypassed")) if counts.get(found)]  # fmt: skip
        sentences.append(f"Asked of {cache}: {', '.join(told)}.")
    rows: list[tuple[str, ...]] = [
        ("graph break", f"{one.get('file', '')}:{one.get('line', '')}".strip(":"), str(one.get("reason", "")))
        for one in said["graph_breaks"]
    ]
    rows += [("recompile", "", " ".join(str(one.get("reason", "")).split())) for one in said["recompiles"]]
    return Section("torch.compile", sentences, ("event", "where", "reason"), rows[:top])
