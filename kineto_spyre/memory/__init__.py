"""Device memory and scratchpad: what is held now, and, from a trace, what made the peak. All sizes are bytes.

>>> from kineto_spyre import memory
>>> memory.max_allocated()                       # now, by way of torch.accelerator.memory
>>> peak = memory.peak("trace.json")             # of a trace with profile_memory=True
>>> peak.allocation.op, peak.by_op
>>> memory.scratchpad("trace.json")["devices"]   # from each kernel's record

What asks the device (allocated, reserved, stats ...) goes through torch.accelerator.memory, so that it works with
torch-spyre as with the emulated Spyre. What reads a trace (curves, peak, snapshot, scratchpad) needs no torch.
`profile_spyre(memory=True)` puts counters of all of it into the trace.
"""

from __future__ import annotations

from kineto_spyre.memory.now import (
    allocated,
    max_allocated,
    max_reserved,
    reserved,
    reset_accumulated,
    reset_peak,
    stats,
)
from kineto_spyre.memory.scratchpad import scratchpad
from kineto_spyre.memory.timeline import Allocation, Curve, Peak, curves, peak, snapshot

__all__ = [
    "Allocation",
    "Curve",
    "Peak",
    "allocated",
    "by_category",
    "curves",
    "max_allocated",
    "max_reserved",
    "peak",
    "reserved",
    "reset_accumulated",
    "reset_peak",
    "scratchpad",
    "snapshot",
    "stats",
]


def __getattr__(name: str) -> object:
    if name == "by_category":  # needs torch
        from kineto_spyre.memory.categories import by_category

        return by_category
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
