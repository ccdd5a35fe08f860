"""Energy: joules by kernel, op, step and range from the trace's power counters, and the steps that met a limit.

In: Work, and the counters `pwr (W)` and `temperature (C)` of its trace (kineto_spyre.telemetry puts them there, live or
from aiu-smi's log). Out: facts by device; joules are above idle, each with its error. kineto_spyre.telemetry.energy
says how they are found. A trace without power counters has none. Errors: none; what can't be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kineto_spyre.report.arithmetic import Arithmetic
from kineto_spyre.report.section import Section
from kineto_spyre.report.utilization import of_work
from kineto_spyre.report.work import KERNEL, Array, Work
from kineto_spyre.telemetry.counters import POWER, TEMPERATURE
from kineto_spyre.telemetry.energy import estimate, running
from kineto_spyre.traces import Trace

WATTS_LIMIT, CELSIUS_LIMIT = 75.0, 90.0  # the card's documented power; the temperature is assumed
_WINDOW_NS = 10_000_000  # of a metrics file's power


def energy(work: Work, celsius: float = CELSIUS_LIMIT) -> list[dict[str, Any]]:
    """By device; empty without power counters.

    Args:
        celsius: the temperature at which a step is named.
    """
    found = []
    for device in np.unique(work.device).tolist():
        begin, watts = _counter(work, POWER, device)
        if len(begin):
            found.append(_device(work, device, begin, watts, celsius))
    return found


def _counter(work: Work, name: str, device: int) -> tuple[Array, Array]:
    """Times and values of a counter of one device, in order."""
    table, trace = work.trace.counters, work.trace
    if not table or name not in trace.names:
        return np.empty(0, np.int64), np.empty(0)
    rows = np.flatnonzero((table["name"] == trace.names.index(name)) & (_pids(trace)[table["track"]] == device))
    rows = rows[np.isfinite(table["value"][rows])]
    rows = rows[np.argsort(table["start"][rows], kind="stable")]
    return table["start"][rows], table["value"][rows]


def _pids(trace: Trace) -> Array:
    """The device of each track, -1 for the host's."""
    return np.array([pid if type(pid) is int else -1 for pid, _ in trace.tracks] or [-1], np.int64)


def _window(work: Work, device: int) -> int:
    """How long a power sample is a mean of, in ns."""
    layers = work.trace.metadata.get("kineto_spyre_layers")
    smi = work.trace.metadata.get("kineto_spyre_smi")
    if isinstance(smi, dict) and not (isinstance(layers, dict) and "telemetry" in layers):
        by_device = smi.get("interval_ns")
        interval = by_device.get(str(device)) if isinstance(by_device, dict) else None
        return interval if type(interval) is int and interval > 0 else 10**9
    return _WINDOW_NS


def _device(work: Work, device: int, begin: Array, watts: Array, celsius: float) -> dict[str, Any]:
    mine = np.flatnonzero(work.device == device)
    names, kind = np.unique(work.name[mine], return_inverse=True)
    start, end = work.start[mine], work.end[mine]
    window = _window(work, device)
    share = running(begin, begin + window, start, end, kind, len(names))
    solved = estimate(begin, begin + window, watts, share)

    def amount(chosen: Array, low: int | None = None, high: int | None = None) -> dict[str, float]:
        first = start[chosen] if low is None else np.maximum(start[chosen], low)
        last = end[chosen] if high is None else np.minimum(end[chosen], high)
        ran = np.maximum(last - first, 0) * 1e-9
        joules = solved.of_work(ran, kind[chosen])
        return {"joules": joules.joules, "error": joules.error}

    everything = np.arange(len(mine))
    of_piece = of_work(work)
    kernels = mine[work.kind[mine] == KERNEL]
    seconds = (work.window[1] - work.window[0]) * 1e-9
    idle = solved.of_idle(seconds)
    return {
        "device": device,
        "samples": solved.windows,
        "window": window,
        "seconds": seconds,
        "work": _with_operations(amount(everything), _operations(work, kernels, of_piece) if len(kernels) else None),
        "idle": {"watts": solved.idle.joules, "joules": idle.joules, "error": idle.error},
        "kernels": _sorted(
            {
                "name": work.trace.names[name],
                "count": int((kind == place).sum()),
                **_with_operations(
                    amount(np.flatnonzero(kind == place)), _operations(work, mine[kind == place], of_piece)
                ),
            }
            for place, name in enumerate(names.tolist())
        ),
        "ops": _ops(work, mine, amount),
        "steps": [{"title": title, **amount(everything, low, high)} for title, low, high in work.steps if high > low],
        "ranges": _ranges(work, device, everything, amount),
        "limits": _limits(work, device, begin, watts, celsius),
    }


def _operations(work: Work, pieces: Array, of_piece: list[Arithmetic | None]) -> float | None:
    """The operations of some pieces, from the shapes of the ops that launched them; None if one of them is unknown."""
    if any(of_piece[piece] is None for piece in pieces.tolist()):
        return None
    return float(sum(one.flops for piece in pieces.tolist() if (one := of_piece[piece]) is not None))


def _with_operations(energy: dict[str, float], flops: float | None) -> dict[str, float | None]:
    """Energy with operations, and operations a joule (above idle)."""
    joules = energy["joules"]
    return {**energy, "flops": flops, "flops_per_joule": flops / joules if flops and joules > 0 else None}


def _sorted(found: Any) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: -one["joules"])


def _ops(work: Work, mine: Array, amount: Any) -> list[dict[str, Any]]:
    op = work.op[mine]
    names = np.where(op >= 0, work.trace.slices["name"][np.maximum(op, 0)], -1)
    return _sorted(
        {"name": work.trace.names[name] if name >= 0 else "no op", **amount(np.flatnonzero(names == name))}
        for name in np.unique(names).tolist()
    )


def _ranges(work: Work, device: int, everything: Array, amount: Any) -> list[dict[str, Any]]:
    """The users' ranges as they are on the device's tracks."""
    slices, trace = work.trace.slices, work.trace
    if "gpu_user_annotation" not in trace.cats:
        return []
    mine = _pids(trace)[slices["track"]] == device
    rows = np.flatnonzero((slices["cat"] == trace.cats.index("gpu_user_annotation")) & mine)
    found: dict[str, dict[str, Any]] = {}
    for row in rows.tolist():
        name = trace.names[slices["name"][row]]
        low = int(slices["start"][row])
        one = amount(everything, low, low + int(slices["duration"][row]))
        so_far = found.setdefault(name, {"name": name, "count": 0, "joules": 0.0, "error": 0.0})
        so_far["count"] += 1
        so_far["joules"] += one["joules"]
        so_far["error"] += one["error"]  # the same powers are off in each
    return _sorted(found.values())


def _limits(work: Work, device: int, begin: Array, watts: Array, celsius: float) -> list[dict[str, Any]]:
    """Steps in which a sample reached a limit."""
    times, degrees = _counter(work, TEMPERATURE, device)
    found = []
    for title, low, high in work.steps:
        for what, limit, unit, at, values in (
            ("power", WATTS_LIMIT, "W", begin, watts),
            ("temperature", celsius, "C", times, degrees),
        ):
            inside = values[(at >= low) & (at < high)]
            if len(inside) and inside.max() >= limit:
                highest = float(inside.max())
                sentence = (
                    f"{title[:1].upper() + title[1:]} met a limit: {what} {highest:.1f} {unit} of {limit:.0f} {unit}."
                )
                found.append({"title": title, "what": what, "highest": highest, "limit": limit, "sentence": sentence})
    return found


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown of them."""
    for one in facts["energy"]:
        samples = "1 power sample" if one["samples"] == 1 else f"{one['samples']:,} power samples"
        said = [
            f"Work took {_joules(one['work'])} above idle; idle power is {one['idle']['watts']:.1f} W, "
            f"{_joules(one['idle'])} in {one['seconds']:.3g} s. From {samples}."
        ]
        heads = ("kernels and copies", "count", "energy", "J each", "Gops/J")
        said += [limit["sentence"] for limit in one["limits"]]
        yield Section(f"Energy of device {one['device']}", said, heads, [
            (row["name"], f"{row['count']:,}", _joules(row), f"{row['joules'] / row['count']:.3g}",
             "" if row["flops_per_joule"] is None else f"{row['flops_per_joule'] / 1e9:.3g}")
            for row in one["kernels"][:top]])  # fmt: skip
        for title, key in (("op", "ops"), ("step", "steps"), ("range", "ranges")):
            if rows := one[key][:top]:
                yield Section(f"Energy of device {one['device']} by {title}", [], (title, "energy"), [
                    (row.get("name") or row["title"], _joules(row)) for row in rows])  # fmt: skip


def _joules(one: dict[str, Any]) -> str:
    return f"{one['joules']:.3g} J ± {one['error']:.2g}"
