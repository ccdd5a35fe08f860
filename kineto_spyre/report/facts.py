"""The facts of a trace: plain numbers and texts that every rendering shows (docs/reference/report.md is their schema).

In: a Trace. Out: a dict that json.dumps takes; durations in ns. Errors: NoDeviceWork.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kineto_spyre.provenance import Known
from kineto_spyre.report.bandwidth import bandwidth
from kineto_spyre.report.energy import CELSIUS_LIMIT, energy
from kineto_spyre.report.idle import Classifier, causes, covered, idle
from kineto_spyre.report.kernels import by_shape, copies, kernels, ops
from kineto_spyre.report.layers import by_category, compilation, scratchpad
from kineto_spyre.report.memory import memory
from kineto_spyre.report.origins import origins
from kineto_spyre.report.phases import phases
from kineto_spyre.report.steps import outliers, steps
from kineto_spyre.report.utilization import utilization
from kineto_spyre.report.work import KINDS, Array, Work, understood
from kineto_spyre.traces import Trace

SCHEMA = 1
TOP = 20


class NoDeviceWork(Exception):
    """The trace `source` holds no device work; the text goes on after its name and says what to do."""

    def __init__(self, source: str, sentence: str) -> None:
        super().__init__(sentence)
        self.source = source


def facts(
    trace: Trace,
    link: float | None = None,
    known: Known | None = None,
    ideal: dict[str, float] | None = None,
    celsius: float = CELSIUS_LIMIT,
) -> dict[str, Any]:
    """All facts of one trace.

    Args:
        known: what the compiler wrote of kernels' origins.
        celsius: the temperature at which a step is named.
        ideal: the compiler's ideal cycles by kernel.
        link: GB/s of the link between host and device; None: the best copy of the trace stands for it.

    Raises:
        NoDeviceWork: nothing of the trace ran on a device.
    """
    work = understood_work(trace)
    classifier = Classifier(work)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "trace": trace.source,
        "problem": trace.problem,
        "remark": trace.remark,
        "window": span(*work.window),
        "ranges": len(work.ranges) > 0,
        "machine": {"launch_latency": classifier.machine.latency, "gap": classifier.machine.gap},
        "devices": [_device(work, device, classifier) for device in np.unique(work.device).tolist()],
        "kernels": kernels(work),
        "utilization": utilization(work, classifier.machine.latency + classifier.machine.gap, ideal),
        "shapes": by_shape(work),
        "ops": ops(work),
        "waits": _waits(work),
        "memory": memory(trace),
        "categories": by_category(trace),
        "scratchpad": scratchpad(trace),
        "compile": compilation(trace),
        "origins": origins(trace, known),
        "phases": phases(trace),
        "bandwidth": bandwidth(trace),
        "energy": energy(work, celsius),
    }
    found["link"], found["copies"] = copies(work, link)
    found["steps"] = steps(work, classifier)
    found["outliers"] = outliers(found["steps"])
    return found


def understood_work(trace: Trace) -> Work:
    """The device work of a trace.

    Raises:
        NoDeviceWork: it has none.
    """
    if len(trace) == 0 or len(work := understood(trace)) == 0:
        read = f"{trace.problem}; what came before that " if trace.problem else ""
        raise NoDeviceWork(
            trace.source,
            f"{read}holds no device work (no kernel, copy or fill): profile with ProfilerActivity.PrivateUse1 (or "
            "kineto_spyre.profile_spyre) and run something on the device.",
        )
    return work


def span(begin: int, end: int) -> dict[str, int]:
    return {"begin": begin, "duration": end - begin}


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
