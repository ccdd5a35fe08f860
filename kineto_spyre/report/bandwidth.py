"""How fast collectives were: bytes, time and bandwidth by group of ranks, where a Spyre's records tell.

In: a Trace. Out: facts; durations in ns, bandwidths in GB/s. What is known of a collective comes from `coll_group`,
`coll_algo` and `coll_bytes` of the work that belongs to it. A kernel that has them is the collective. Where only copies
have them (the data is staged through the host), the host's call aiuCommsColl... that follows the copy is.

The bus bandwidth is the collective's own (bytes over time) times what each link carries for a byte of it, as NCCL's
tests define it: 2 (n - 1) / n for an all-reduce of n ranks, (n - 1) / n for all-gather and reduce-scatter, 1 for the
others. n is the trace's world size; the bus bandwidth is None for a group that may be smaller than that, or where the
trace does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration, size
from kineto_spyre.traces import Trace
from kineto_spyre.traces.events import ABSENT

Array = npt.NDArray[Any]

# Id 41 is an all-reduce in some releases and another call in others, so that it has no name. Behind a copy that belongs
# to a collective it is the all-reduce.
_CALL = re.compile(r"aiuCommsColl(?!.*Setup)|Unknown CBID 41$")
_ALL_REDUCE = re.compile(r"all_?reduce|Unknown CBID 41$", re.IGNORECASE)
_PARTS = re.compile(r"all_?gather|reduce_?scatter", re.IGNORECASE)
_WHOLE_WORLD = 0  # torch.distributed's number of the group of all ranks


def bandwidth(trace: Trace) -> list[dict[str, Any]]:
    """By name and group; empty where no record tells."""
    told = trace.column("coll_bytes")
    rows = np.flatnonzero(told != ABSENT) if len(trace) else np.empty(0, np.int64)
    if not len(rows):
        return []
    slices = trace.slices
    is_kernel = np.isin(slices["cat"][rows], [i for i, cat in enumerate(trace.cats) if cat == "kernel"])
    pairs = [(int(row), int(row)) for row in rows[is_kernel].tolist()]
    pairs += _called(trace, rows[~is_kernel])
    ranks, of_group, algorithms = _world(trace), trace.column("coll_group"), trace.column("coll_algo")
    groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for collective, teller in pairs:
        key = int(slices["name"][collective]), int(of_group[teller]), int(algorithms[teller])
        groups.setdefault(key, []).append((int(slices["duration"][collective]), int(told[teller])))
    found = []
    for (name, group, algorithm), each in groups.items():
        lasted, sent = (sum(column) for column in zip(*each))
        own = sent / lasted if lasted else 0.0
        factor = _factor(trace.names[name], ranks) if group == _WHOLE_WORLD else None
        found.append({
            "name": trace.names[name], "group": group, "algorithm": algorithm, "count": len(each), "bytes": sent,
            "total": lasted, "bandwidth": own, "bus_bandwidth": own * factor if factor is not None else None,
            "waiting": lasted - sum(min(ns for ns, bytes in each if bytes == mine) for _, mine in each),
        })  # fmt: skip
    return sorted(found, key=lambda one: -one["total"])


def _called(trace: Trace, copies: Array) -> list[tuple[int, int]]:
    """The host's calls of collectives, each with the last copy before it that has its bytes."""
    slices = trace.slices
    calls = np.flatnonzero(np.isin(slices["name"], [i for i, name in enumerate(trace.names) if _CALL.match(name)]))
    calls = calls[np.argsort(slices["start"][calls], kind="stable")]
    copies = copies[np.argsort(slices["start"][copies], kind="stable")]
    pairs, before = [], -1
    for call in calls.tolist():
        place = int(np.searchsorted(slices["start"][copies], slices["start"][call], "right")) - 1
        if place > before:
            pairs.append((call, int(copies[place])))
            before = place
    return pairs


def _world(trace: Trace) -> int | None:
    info = trace.metadata.get("distributedInfo")
    ranks = info.get("world_size") if isinstance(info, dict) else None
    return ranks if type(ranks) is int and ranks > 0 else None


def _factor(name: str, ranks: int | None) -> float | None:
    if ranks is None:
        return None
    part = (ranks - 1) / ranks
    return 2 * part if _ALL_REDUCE.search(name) else part if _PARTS.search(name) else 1.0


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown."""
    if shown := facts["bandwidth"][:top]:
        yield Section(
            "Collectives", [], ("name", "group", "count", "bytes", "total", "waiting", "GB/s", "bus GB/s"),
            [(one["name"], str(one["group"]), f"{one['count']:,}", size(one["bytes"]), duration(one["total"]),
              duration(one["waiting"]), f"{one['bandwidth']:.3g}",
              "" if one["bus_bandwidth"] is None else f"{one['bus_bandwidth']:.3g}") for one in shown])  # fmt: skip
