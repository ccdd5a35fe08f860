"""What a step is bound by, in a sentence with its evidence.

A step's time is divided among what the busiest device did: kernels, collectives, copies and fills that nothing before
them in this list overlapped, and its idle time by cause. The largest part is the verdict: were it gone, and nothing
else changed, the step would be shorter by that much at most.
"""

from __future__ import annotations

from typing import Any

_BOUND = {
    "kernels": ("compute or device memory (the trace does not tell which)", "kernels ran on the device"),
    "compute": ("compute", "kernels ran on the device, most of that time computing"),
    "device memory": ("device memory", "kernels ran on the device, most of that time moving data"),
    "collectives": ("collectives", "collectives ran on the device and no kernel overlapped them"),
    "waiting on another rank": ("waiting on another rank", "collectives took longer than the fastest ones like them"),
    "copies": ("copies", "copies ran on the device and no kernel overlapped them"),
    "fills": ("copies", "memory was filled and no kernel overlapped that"),
    "host": ("the host", "the device was idle because the host had not launched anything"),
    "synchronisation": ("synchronisation", "the device was idle while the host waited in a synchronization"),
    "launch latency": ("launches", "the device was idle between a launch and the start of its work"),
    "queue wait": ("the queue", "the device was idle between two pieces of work that were queued already"),
    "copy": ("copies", "the device's next work waited for a copy"),
    "other stream": ("a dependency between streams", "the device's next work waited for another stream"),
    "collective": ("collectives", "the device or the host waited for a collective"),
    "unknown": ("a cause that the trace does not show", "the device was idle and the trace does not show why"),
}


def duration(ns: float) -> str:
    """A duration for people."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"


def size(count: float) -> str:
    """A size for people."""
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= one:
            return f"{count / one:,.3g} {unit}" if abs(count) < 1000 * one else f"{count / one:,.0f} {unit}"
    return f"{count:,.0f} bytes"


def verdict(
    length: int,
    parts: dict[str, int],
    where: list[dict[str, Any]],
    kernels: list[dict[str, Any]],
    told: dict[str, int],
) -> dict[str, Any]:
    """bound_by, saving (ns, at most) and the sentence. `told`: the time of kernels by what bounds them."""
    part, most = max(parts.items(), key=lambda one: one[1], default=("unknown", length))
    by = max(told, key=told.__getitem__, default="unknown")
    if part == "kernels" and by != "unknown" and 2 * told[by] > sum(told.values()):
        bound_by = by
    else:
        bound_by = part
    bound, because = _BOUND[bound_by]
    sentence = f"Bound by {bound}: for {duration(most)} of {duration(length)} ({most / max(length, 1):.0%}) {because}"
    places = [one for one in where if one["cause"] == part]
    if places:
        place = places[0]
        name = f"in {place['op']}" if place["op"] else "outside any op"
        if place["range"]:
            name += f" (range {place['range']})"
        sentence += f", {duration(place['duration'])} of that {name}"
    elif part == "kernels" and kernels:
        sentence += f"; the longest in total is {kernels[0]['name']} ({kernels[0]['share']:.0%} of kernel time)"
    sentence += f". Removing that would save at most {duration(most)}."
    return {"bound_by": bound_by, "saving": most, "verdict": sentence}
