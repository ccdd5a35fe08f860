"""Kernels by name and by shape, ops, and copies against the link. In: Work. Out: facts, durations in ns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kineto_spyre.report.roofline import BOUNDS
from kineto_spyre.report.work import COLLECTIVE, COPY, FILL, KERNEL, Array, Work

_OVER_LINK = re.compile(r"HtoD|DtoH", re.IGNORECASE)


def grouped(names: Array, values: Array) -> dict[int, Array]:
    """Values by name."""
    order = np.argsort(names, kind="stable")
    keys, first = np.unique(names[order], return_index=True)
    return dict(zip(keys.tolist(), np.split(values[order], first[1:])))


def summary(values: Array, total: int) -> dict[str, Any]:
    """Count, total, mean, spread and share of durations."""
    whole = int(values.sum())
    return {
        "count": len(values),
        "total": whole,
        "mean": float(values.mean()),
        "spread": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "smallest": int(values.min()),
        "largest": int(values.max()),
        "share": whole / total if total else 0.0,
    }


def _kernels(work: Work, chosen: Array | None) -> Array:
    chosen = np.arange(len(work)) if chosen is None else chosen
    return chosen[np.isin(work.kind[chosen], (KERNEL, COLLECTIVE))]


def kernels(work: Work, chosen: Array | None = None) -> list[dict[str, Any]]:
    """By name, the longest in total first; `bound` is what most of its time is bound by."""
    chosen = _kernels(work, chosen)
    total = int((work.end - work.start)[chosen].sum())
    found = []
    for name, mine in grouped(work.name[chosen], chosen).items():
        lasted = (work.end - work.start)[mine]
        bound = BOUNDS[int(np.bincount(work.bound[mine], lasted).argmax())]
        found.append({"name": work.trace.names[name], **summary(lasted, total), "bound": bound})
    return sorted(found, key=lambda one: -one["total"])


def by_shape(work: Work) -> list[dict[str, Any]]:
    """By name and the shapes of the op that launched it; without that, CUDA's grid and block."""
    chosen = _kernels(work, None)
    trace, op = work.trace, work.op[chosen]
    dims = np.where(op >= 0, trace.column("dims")[op], -1) if len(trace) else op
    rows = work.row[chosen]
    grid, block = trace.column("grid")[rows], trace.column("block")[rows]
    shaped = (dims >= 0) | (grid >= 0)
    chosen, dims, grid, block = chosen[shaped], dims[shaped], grid[shaped], block[shaped]
    if not len(chosen):
        return []
    keys = np.stack((work.name[chosen], dims, np.where(dims < 0, grid, -1), np.where(dims < 0, block, -1)), 1)
    alike, group = np.unique(keys, axis=0, return_inverse=True)
    lasted = (work.end - work.start)[chosen]
    total = int(lasted.sum())
    found = []
    for place, values in grouped(group.ravel(), lasted).items():
        name, shape, of_grid, of_block = alike[place].tolist()
        text = trace.texts[shape] if shape >= 0 else f"grid {trace.texts[of_grid]}"
        if of_block >= 0:
            text += f" block {trace.texts[of_block]}"
        found.append({"name": trace.names[name], "shape": text, **summary(values, total)})
    return sorted(found, key=lambda one: -one["total"])


def by_bound(work: Work, chosen: Array) -> dict[str, int]:
    """The time of kernels (collectives apart) by what bounds each."""
    mine = chosen[work.kind[chosen] == KERNEL]
    sums = np.bincount(work.bound[mine], (work.end - work.start)[mine], minlength=len(BOUNDS))
    return {name: int(ns) for name, ns in zip(BOUNDS, sums.tolist()) if ns}


def ops(work: Work) -> list[dict[str, Any]]:
    """Ops by the device time of the work that they launched themselves; `host` is their time on the host."""
    slices, trace = work.trace.slices, work.trace
    chosen = np.flatnonzero(np.isin(slices["cat"], [i for i, cat in enumerate(trace.cats) if cat == "cpu_op"]))
    if not len(chosen):
        return []
    on_device = np.zeros(len(trace), np.int64)
    joined = work.op >= 0
    np.add.at(on_device, work.op[joined], (work.end - work.start)[joined])
    host = grouped(slices["name"][chosen], slices["duration"][chosen])
    device = grouped(slices["name"][chosen], on_device[chosen])
    total = int(on_device.sum())
    found = [
        {"name": trace.names[name], **summary(values, total), "host": int(host[name].sum())}
        for name, values in device.items()
    ]
    return sorted(found, key=lambda one: (-one["total"], -one["host"]))


def copies(work: Work, link: float | None) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The link, and copies and fills by name: bytes, time, and the bandwidth achieved (bytes per ns are GB/s).

    Args:
        link: GB/s of the link between host and device; None: the best copy of the trace stands for it.
    """
    chosen = np.flatnonzero(np.isin(work.kind, (COPY, FILL)) & (work.bytes >= 0))
    found: list[dict[str, Any]] = []
    for name, mine in grouped(work.name[chosen], chosen).items():
        lasted, size = (work.end - work.start)[mine], work.bytes[mine]
        total, moved = int(lasted.sum()), int(size.sum())
        rates = (size / np.maximum(lasted, 1))[lasted > 0]
        found.append({
            "name": work.trace.names[name], "count": len(mine), "bytes": moved, "total": total,
            "bandwidth": moved / total if total else 0.0, "best": float(rates.max()) if len(rates) else 0.0,
            "of_link": None,
        })  # fmt: skip
    over = [one for one in found if _OVER_LINK.search(one["name"])]
    best = max((one["best"] for one in over), default=0.0)
    rate, source = (link, "given") if link else (best, "the best copy of the trace")
    for one in over:
        one["of_link"] = one["bandwidth"] / rate if rate else None
    return {"rate": rate, "source": source} if over and rate else None, sorted(found, key=lambda one: -one["total"])
