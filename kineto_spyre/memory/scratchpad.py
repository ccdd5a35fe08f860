"""How kernels use the scratchpad (LX) of a Spyre, from the local memory in each kernel's record.

In: a trace with kernels. Out: a dict that json.dumps takes; bytes, and ns. A card has 32 cores of 2 MiB, of which the
compiler uses 80 %. What a record tells is the scratchpad that a kernel takes, all its cores together; so a kernel that
takes all of the compiler's share is counted as one that spills (what it touches did not fit at once), and nothing is
known of fragmentation, or of what one kernel leaves for the next (reuse): both are None. Errors: those of reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.traces import Trace, read
from kineto_spyre.traces.events import ABSENT
from kineto_spyre.traces.opening import Source

CAPACITY = 32 * (2 << 20)
COMPILERS_SHARE = 0.8
USABLE = int(COMPILERS_SHARE * CAPACITY)


@dataclass(frozen=True)
class Use:
    """The kernels of one device that tell their scratchpad, in order of start."""

    device: int
    start: npt.NDArray[np.int64]
    duration: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    name: npt.NDArray[Any]

    def steps(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """When what is in use changes, and what is in use from then on: kernels of several streams add up."""
        time = np.concatenate((self.start, self.start + self.duration))
        change = np.concatenate((self.bytes, -self.bytes))
        moments, place = np.unique(time, return_inverse=True)
        return moments, np.cumsum(np.bincount(place, change, len(moments)).astype(np.int64))


def uses(trace: Trace) -> Iterator[Use]:
    """By device, the kernels that tell their scratchpad."""
    taken = trace.column("local_memory")
    kernel = np.isin(trace.slices["cat"], [i for i, cat in enumerate(trace.cats) if cat == "kernel"])
    rows = np.flatnonzero(kernel & (taken != ABSENT) & (taken >= 0))
    rows = rows[np.argsort(trace.slices["start"][rows], kind="stable")]
    device = trace.column("device")[rows]
    for one in np.unique(device).tolist():
        mine = rows[device == one]
        start, duration, name = (trace.slices[column][mine] for column in ("start", "duration", "name"))
        yield Use(one, start, duration, taken[mine], name)


def scratchpad(source: Source | Trace) -> dict[str, Any]:
    """The use of the scratchpad by device and by kernel.

    Returns:
        `capacity` and `usable` (the compiler's share) in bytes, and `devices`: for each its index, `peak` (bytes, time,
        the kernels that ran then), `average` (over the time in which kernels ran), shares of both, `kernels` (a row a
        name: calls, peak, average, spills, `more_than_half_unused`), `fragmentation` and `reuse` (None: no record
        tells).
    """
    trace = source if isinstance(source, Trace) else read(source)
    devices = [_device(trace, use) for use in uses(trace)] if len(trace) else []
    return {"schema": 1, "capacity": CAPACITY, "usable": USABLE, "devices": devices}


def _device(trace: Trace, use: Use) -> dict[str, Any]:
    moments, level = use.steps()
    place = int(level.argmax())
    lasts = np.diff(moments, append=moments[-1:])
    busy = level > 0
    running = int(lasts[busy].sum())
    average = float((level * lasts)[busy].sum() / running) if running else 0.0
    when = int(moments[place])
    then = np.unique(use.name[(use.start <= when) & (when < use.start + use.duration)]).tolist()
    return {
        "device": use.device,
        "peak": {"bytes": int(level[place]), "time": when, "kernels": [trace.names[name] for name in then]},
        "average": average,
        "peak_of_capacity": int(level[place]) / CAPACITY,
        "peak_of_usable": int(level[place]) / USABLE,
        "average_of_usable": average / USABLE,
        "spills": int((use.bytes >= USABLE).sum()),
        "fragmentation": None,
        "reuse": None,
        "kernels": _kernels(trace, use),
    }


def _kernels(trace: Trace, use: Use) -> list[dict[str, Any]]:
    """A row a name, the longest running first."""
    rows = []
    for name in np.unique(use.name).tolist():
        mine = use.name == name
        taken, lasts = use.bytes[mine], use.duration[mine]
        whole = int(lasts.sum())
        rows.append({
            "name": trace.names[name], "calls": int(mine.sum()), "duration": whole, "peak": int(taken.max()),
            "average": float((taken * lasts).sum() / whole) if whole else float(taken.mean()),
            "spills": int((taken >= USABLE).sum()), "more_than_half_unused": bool(2 * taken.max() < USABLE),
        })  # fmt: skip
    return sorted(rows, key=lambda row: -row["duration"])


def table(facts: dict[str, Any], most: int = 20) -> str:
    """The figures as a text, with the kernels that spill or leave more than half unused pointed out."""
    lines = []
    for device in facts["devices"]:
        lines.append(
            f"device {device['device']}: scratchpad peak {device['peak']['bytes']:,} B "
            f"({device['peak_of_capacity']:.1%} of 32 x 2 MiB, {device['peak_of_usable']:.1%} of the compiler's 80 %), "
            f"average {device['average']:,.0f} B while kernels ran"
        )
        lines.append(f"{'kernel':<60}{'calls':>7}{'peak B':>13}{'average B':>13}  remark")
        for row in device["kernels"][:most]:
            remark = "more than half unused" if row["more_than_half_unused"] else ""
            if row["spills"]:
                remark = "spills once" if row["spills"] == 1 else f"spills {row['spills']} times"
            text = f"{row['name'][:59]:<60}{row['calls']:>7}{row['peak']:>13,}{row['average']:>13,.0f}  {remark}"
            lines.append(text.rstrip())
    return "\n".join(lines) or "No kernel of this trace says how much of the scratchpad it uses."
