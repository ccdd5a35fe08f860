"""The facts of a trace: plain numbers and texts that every rendering shows (docs/reference/report.md is their schema).

In: a Trace. Out: a dict that json.dumps takes; durations in ns. Errors: NoDeviceWork.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from kineto_spyre.report.idle import CAUSES, HOST, SYNC, Classifier, Piece, idle
from kineto_spyre.report.verdict import verdict
from kineto_spyre.report.work import COLLECTIVE, COPY, FILL, KERNEL, KINDS, Array, Work, understood
from kineto_spyre.traces import Trace

SCHEMA = 1
TOP = 20


class NoDeviceWork(Exception):
    """The trace holds no device work; the message is a sentence that says what to do."""


def facts(trace: Trace) -> dict[str, Any]:
    """All facts of one trace.

    Raises:
        NoDeviceWork: nothing of the trace ran on a device.
    """
    if len(trace) == 0 or len(work := understood(trace)) == 0:
        read = f"{trace.problem}; what came before that " if trace.problem else ""
        raise NoDeviceWork(
            f"{read}holds no device work (no kernel, copy or fill): profile with ProfilerActivity.PrivateUse1 (or "
            "kineto_spyre.profile_spyre) and run something on the device."
        )
    classifier = Classifier(work)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "trace": trace.source,
        "problem": trace.problem,
        "window": span(*work.window),
        "ranges": len(work.ranges) > 0,
        "machine": {"launch_latency": classifier.machine.latency, "gap": classifier.machine.gap},
        "devices": [_device(work, device, classifier) for device in np.unique(work.device).tolist()],
        "kernels": _kernels(work),
        "ops": _ops(work),
        "waits": _waits(work),
        "copies": _copies(work),
    }
    found["steps"] = [
        {"title": title, **_step(work, begin, end, classifier)} for title, begin, end in work.steps if end > begin
    ]
    return found


def span(begin: int, end: int) -> dict[str, int]:
    return {"begin": begin, "duration": end - begin}


def covered(start: Array, end: Array, window: tuple[int, int]) -> int:
    """How long at least one of the intervals ran within the window."""
    start, end = np.clip(start, *window), np.clip(end, *window)
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    return int(np.maximum(0, end - np.maximum(start, np.concatenate((start[:1], end[:-1])))).sum())


def causes(pieces: list[Piece]) -> list[dict[str, Any]]:
    """Idle time by cause; for the host's, by where it was."""
    sums: dict[int, int] = defaultdict(int)
    places: dict[int, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for piece in pieces:
        sums[piece.cause] += piece.end - piece.begin
        if piece.cause in (HOST, SYNC):
            places[piece.cause][piece.op, piece.range] += piece.end - piece.begin
    return [
        {
            "cause": CAUSES[cause],
            "duration": sums[cause],
            "where": [
                {"op": op, "range": name, "duration": ns}
                for (op, name), ns in sorted(places[cause].items(), key=lambda one: -one[1])[:5]
            ],
        }
        for cause in sorted(sums, key=lambda one: -sums[one])
    ]


def _device(work: Work, device: int, classifier: Classifier) -> dict[str, Any]:
    mine = np.flatnonzero(work.device == device)
    start, end = work.start[mine], work.end[mine]
    busy = covered(start, end, work.window)
    streams: list[dict[str, Any]] = []
    for track in np.unique(work.track[mine]).tolist():
        own = mine[work.track[mine] == track]
        running = covered(work.start[own], work.end[own], work.window)
        streams.append({
            "stream": work.track_title(track), "busy": running,
            "idle": work.window[1] - work.window[0] - running, "pieces": len(own),
            "kind": KINDS[int(np.bincount(work.kind[own]).argmax())],
            "load": _load(work.start[own], work.end[own], work.window),
            "causes": causes(idle(work, own, work.window, classifier)),
        })  # fmt: skip
    return {
        "device": device,
        "busy": busy,
        "idle": work.window[1] - work.window[0] - busy,
        "overlap": sum(one["busy"] for one in streams) - busy,
        "by_kind": {KINDS[kind]: covered(*_of(work, mine, kind), work.window) for kind in range(len(KINDS))},
        "causes": causes(idle(work, mine, work.window, classifier)),
        "streams": streams,
    }


def _load(start: Array, end: Array, window: tuple[int, int], slots: int = 200) -> list[float]:
    """The part of each slot of the window that was busy."""
    edges = np.linspace(*window, slots + 1)
    reach = np.maximum.accumulate(end)
    begin = np.maximum(start, np.concatenate(([window[0]], reach[:-1])))  # without what ran before already
    alone = np.maximum(reach - begin, 0)
    times = np.stack((begin, begin + alone), 1).ravel()
    done = np.stack((np.cumsum(alone) - alone, np.cumsum(alone)), 1).ravel()
    busy = np.diff(np.interp(edges, np.maximum.accumulate(times), done, left=0.0))
    return [round(float(one), 4) for one in np.clip(busy / max(edges[1] - edges[0], 1), 0, 1)]


def _of(work: Work, mine: Array, kind: int) -> tuple[Array, Array]:
    chosen = mine[work.kind[mine] == kind]
    return work.start[chosen], work.end[chosen]


def _step(work: Work, begin: int, end: int, classifier: Classifier) -> dict[str, Any]:
    """A step's time by what the first device did: a partition, so that its parts add up to the step."""
    window = (begin, end)
    inside = np.flatnonzero((work.start < end) & (work.end > begin))
    devices = np.unique(work.device[inside]).tolist()
    parts: dict[str, int] = {}
    where: list[dict[str, Any]] = []
    if devices:
        busiest = max(devices, key=lambda one: _busy(work, inside[work.device[inside] == one], window))
        mine = np.flatnonzero(work.device == busiest)
        near = mine[(work.end[mine] > begin)]
        done = 0
        order = (KERNEL, COLLECTIVE, COPY, FILL)  # what overlaps counts for the first of them
        for place, kind in enumerate(order):
            chosen = near[np.isin(work.kind[near], order[: place + 1])]
            until_now = covered(work.start[chosen], work.end[chosen], window)
            parts[KINDS[kind]] = until_now - done
            done = until_now
        found = causes(idle(work, near, window, classifier))
        busy, top = done, _kernels(work, near[(work.start[near] < end)])[:1]
    else:
        found = causes(list(classifier.gap(begin, end, None)))
        busiest, busy, top = None, 0, []
    for one in found:
        parts[one["cause"]] = one["duration"]
        if one["where"]:
            where += [{"cause": one["cause"], **place} for place in one["where"]]
    said = verdict(end - begin, parts, where, top)
    return {**span(begin, end), "device": busiest, "busy": busy, "parts": parts, "where": where, **said}


def _busy(work: Work, chosen: Array, window: tuple[int, int]) -> int:
    return covered(work.start[chosen], work.end[chosen], window)


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


def _kernels(work: Work, chosen: Array | None = None) -> list[dict[str, Any]]:
    chosen = np.arange(len(work)) if chosen is None else chosen
    chosen = chosen[np.isin(work.kind[chosen], (KERNEL, COLLECTIVE))]
    lasted = (work.end - work.start)[chosen]
    found = [
        {"name": work.trace.names[name], **summary(values, int(lasted.sum()))}
        for name, values in grouped(work.name[chosen], lasted).items()
    ]
    return sorted(found, key=lambda one: -one["total"])


def _ops(work: Work) -> list[dict[str, Any]]:
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


def percentiles(values: Array) -> dict[str, Any]:
    marks = np.quantile(values, (0.5, 0.9, 0.99, 1.0)).tolist() if len(values) else [0.0] * 4
    return {"count": len(values), **dict(zip(("p50", "p90", "p99", "largest"), marks))}


def _waits(work: Work) -> dict[str, Any]:
    """The launching call's own time, and from its begin to the start of the work, by the state of the track."""
    known = np.flatnonzero(work.launch_start >= 0)
    call = (work.launch_end - work.launch_start)[known]
    wait = (work.start - work.launch_start)[known]
    before = np.full(len(work), np.iinfo(np.int64).min)
    for track in np.unique(work.track).tolist():
        mine = np.flatnonzero(work.track == track)
        before[mine[1:]] = np.maximum.accumulate(work.end[mine])[:-1]
    free = before[known] <= work.launch_start[known]
    queued = np.minimum(wait, (work.start - np.maximum(work.launch_start, before))[known])
    return {
        "launch_call": percentiles(call),
        "launch_latency": percentiles(wait[free]),
        "queue_wait": percentiles(wait[~free]),
        "after_predecessor": percentiles(queued[~free]),
    }


def _copies(work: Work) -> list[dict[str, Any]]:
    """Copies and fills by name: bytes, time, and the bandwidth that was achieved (bytes per ns are GB/s)."""
    chosen = np.flatnonzero(np.isin(work.kind, (COPY, FILL)) & (work.bytes >= 0))
    found = []
    for name, mine in grouped(work.name[chosen], chosen).items():
        lasted, size = (work.end - work.start)[mine], work.bytes[mine]
        total, moved = int(lasted.sum()), int(size.sum())
        rates = (size / np.maximum(lasted, 1))[lasted > 0]
        found.append({
            "name": work.trace.names[name], "count": len(mine), "bytes": moved, "total": total,
            "bandwidth": moved / total if total else 0.0, "best": float(rates.max()) if len(rates) else 0.0,
        })  # fmt: skip
    return sorted(found, key=lambda one: -one["total"])
