"""What changed from one trace to another: kernel by kernel, op by op, and in the causes of idle time.

The unit is the mean step of each trace (the whole trace, if it has no steps), on its busiest device. `partition` gives
each moment to one part, so the changes of all parts add up to the change of the step; the same holds for the ops. What
is real and what is noise, `noise` says: calls are compared by their durations, everything else step by step.

In: two Traces. Out: facts (docs/reference/report.md), ns. Errors: NoDeviceWork.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kineto_spyre.report.facts import understood_work
from kineto_spyre.report.idle import CAUSES, UNKNOWN
from kineto_spyre.report.noise import LEAST, LEVEL, probability, real
from kineto_spyre.report.partition import WAITING, Key, Partition, partition
from kineto_spyre.report.verdict import duration
from kineto_spyre.report.work import KINDS, Array
from kineto_spyre.traces import Trace

SCHEMA = 1
NAMED = 3  # changes in the sentence
_NONE = np.zeros(0, np.int64)


def changes(before: Trace, after: Trace) -> dict[str, Any]:
    """All that changed.

    Raises:
        NoDeviceWork: nothing of one of the traces ran on a device.
    """
    traces = (before, after)
    one, other = both = tuple(partition(understood_work(trace)) for trace in traces)
    whole = float(other.lengths.mean() - one.lengths.mean())
    parts = [_part(key, one, other) for key in dict.fromkeys([*one.parts, *other.parts])]
    ops = [_op(name, one, other) for name in dict.fromkeys([*one.ops, *other.ops])]
    for table in (parts, ops):
        _judge(table)
        table.sort(key=lambda row: -abs(row["change"]))
    p = probability(one.lengths, other.lengths)
    first = float(one.lengths.mean())
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "traces": [
            {"trace": trace.source, "problem": trace.problem, "remark": trace.remark, "device": each.device,
             "steps": len(each.lengths), "step": float(each.lengths.mean())}
            for trace, each in zip(traces, both)
        ],
        "unit": "step" if len(one.titles) > 1 or len(other.titles) > 1 else "trace",
        "change": whole, "p": p, "real": _real(p, first, whole),
        "test": {"name": "Mann-Whitney, Benjamini-Hochberg", "level": LEVEL, "least": LEAST},
        "explained": _explained(parts),
        "parts": parts,
        "ops": ops,
    }  # fmt: skip
    found["verdict"] = _verdict(found)
    return found


def _part(key: Key, one: Partition, other: Partition) -> dict[str, Any]:
    """A row: a kernel, a copy, or a cause of idle time."""
    before, after = (each.parts.get(key, np.zeros(len(each.lengths))) for each in (one, other))
    row = {"part": key[0], "name": key[1], **_means(before, after), "calls": None, "mean": None}
    if key[0] not in KINDS:
        return row | {"how": None, "p": probability(before, after)}
    calls = [float(each.calls[key].mean()) if key in each.calls else 0.0 for each in (one, other)]
    lasted = [each.durations.get(key, _NONE) for each in (one, other)]
    mean = [float(values.mean()) if len(values) else None for values in lasted]
    how = "new" if not calls[0] else "gone" if not calls[1] else "calls" if _recounted(key, one, other) else "duration"
    return row | {"calls": calls, "mean": mean, "how": how, "p": probability(*lasted)}


def _recounted(key: Key, one: Partition, other: Partition) -> bool:
    """Whether a step has another number of calls: for certain if it never varies within a trace, else by the test."""
    before, after = (each.calls[key] for each in (one, other))
    if np.ptp(before) == np.ptp(after) == 0:
        return bool(before[0] != after[0])
    p = probability(before, after)
    return p is not None and p <= LEVEL


def _op(name: str, one: Partition, other: Partition) -> dict[str, Any]:
    before, after = (each.ops.get(name, np.zeros(len(each.lengths))) for each in (one, other))
    return {"name": name, **_means(before, after), "p": probability(before, after)}


def _means(before: Array, after: Array) -> dict[str, Any]:
    times = [float(before.mean()), float(after.mean())]
    return {"time": times, "change": times[1] - times[0]}


def _judge(rows: list[dict[str, Any]]) -> None:
    """Adds `real`: whether the change is more than noise; None: there were too few samples to tell."""
    told = real([row["p"] for row in rows])
    for row, significant in zip(rows, told):
        how, mean = row.get("how"), row.get("mean") or [None, None]
        first, second = mean if None not in mean else row["time"]
        large = abs(second - first) >= LEAST * abs(first)
        if how in ("new", "gone", "calls"):
            row["real"] = True
            row["slower"] = second - first if significant and large and how == "calls" else None
            continue
        row["real"] = (significant and large) if significant is not None else None
        if how == "duration":
            row["slower"] = second - first if row["real"] else None


def _real(p: float | None, before: float, change: float) -> bool | None:
    return None if p is None else p <= LEVEL and abs(change) >= LEAST * before


def _explained(parts: list[dict[str, Any]]) -> dict[str, float]:
    """The change, by how well it is explained; the four add up to it."""
    sums = {"real": 0.0, "noise": 0.0, "not tested": 0.0, "unknown": 0.0}
    for row in parts:
        told = {True: "real", False: "noise", None: "not tested"}[row["real"]]
        sums["unknown" if row["part"] == CAUSES[UNKNOWN] else told] += row["change"]
    return sums


def titled(row: dict[str, Any]) -> str:
    """What a row is called."""
    if row["part"] == WAITING:
        return f"{row['name']}, {WAITING}"
    return row["name"] or f"idle: {row['part']}"


def reason(row: dict[str, Any]) -> str:
    """How a kernel or copy differs; "" for idle time."""
    calls, mean = row["calls"], row["mean"]
    if row["how"] == "new":
        return "only in the second trace"
    if row["how"] == "gone":
        return "only in the first trace"
    longer = f"a call takes {duration(mean[1])} instead of {duration(mean[0])}" if calls else ""
    if row["how"] == "calls":
        told = f"{calls[1]:,.3g} calls instead of {calls[0]:,.3g}"
        return f"{told}, and {longer}" if row["slower"] else told
    return longer if row.get("slower") else ""


def _verdict(found: dict[str, Any]) -> str:
    first, second = (one["step"] for one in found["traces"])
    change, unit = found["change"], found["unit"]
    a_unit = "A step" if unit == "step" else "The trace"
    share = f" ({change / first:+.1%})" if first else ""
    sentence = f"{a_unit} takes {duration(second)} instead of {duration(first)}{share}."
    if found["real"] is None:
        sentence += f" Whether that is noise can't be tested, because a trace has fewer than four {unit}s."
    elif not found["real"]:
        sentence += " That is within the noise."
    named = [row for row in found["parts"] if row["real"] and row["change"] * change > 0][:NAMED]
    if named and change:
        told = [f"{titled(row)} ({duration(row['change'])}{_because(row)})" for row in named]
        sentence += f" Most of the change is in {', '.join(told)}."
    return sentence


def _because(row: dict[str, Any]) -> str:
    why = reason(row)
    return f": {why}" if why else ""
