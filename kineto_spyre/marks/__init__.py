"""Marks around chosen ops within programs that torch.compile generates, for any device that has an emitter.

>>> with kineto_spyre.instrument(ops=["aten.mm", "aten.relu"]):
...     compiled(x)                                     # what is compiled in here is marked
>>> torch.compile(model, options=kineto_spyre.instrument(ops=["aten.mm"]).options)      # or this program alone

    instrumenting.py    `instrument`: which ops, which metrics; imports Inductor when it is used
    marking.py          the pass over Inductor's scheduler nodes that finds the chosen ops
    emitter.py          MarkEmitter: how a device's marks get into its program; that of the CPU reads the host's clock
    running.py          what a marked program calls. Imports neither torch nor Inductor.

The emulated card's emitter is in kineto_spyre.emulator.inductor. Another backend implements MarkEmitter and registers
it.
"""

from __future__ import annotations

from .emitter import Mark, MarkEmitter, register_emitter
from .instrumenting import METRICS, Instrument, instrument

__all__ = ["METRICS", "Instrument", "Mark", "MarkEmitter", "instrument", "register_emitter"]
