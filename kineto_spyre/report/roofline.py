"""Whether a kernel is bound by compute or by device memory, as far as its trace tells.

In this order:

    cycle stamps   a Spyre's kernel says how long it moved data in and out and how long it computed; the longer wins
    shapes         of the op that launched it: its FLOPs a byte, from input shapes and types (a matrix product's output
                   follows from them). Below 10 FLOPs a byte it is device memory, above 400 compute: no accelerator's
                   balance lies outside (an A100 has some 200, an H100 300, a Spyre 360)
    neither        unknown, and said so

The limits are far apart on purpose: what lies between depends on the card, and a trace does not name its peak rates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.report.arithmetic import arithmetic
from kineto_spyre.traces import Trace

Array = npt.NDArray[Any]

UNKNOWN, COMPUTE, MEMORY = range(3)
BOUNDS = ("unknown", "compute", "device memory")
BELOW, ABOVE = 10.0, 400.0  # FLOPs a byte
# Ops whose operations can't be told from their shapes, and are a few an element.
_FEW = {f"aten::{name}" for name in """
    cat fill_ zero_ sum mean index index_select embedding gather scatter_add_""".split()}  # fmt: skip


def intensity(op: str, dims: str, types: str) -> float | None:
    """FLOPs a byte of device memory that an op touches; None if its shapes don't tell."""
    told = arithmetic(op, dims, types)
    if told is not None:
        return told.flops / told.bytes if told.bytes else None
    return 1.0 if op in _FEW else None


def bounds(trace: Trace, rows: Array, ops: Array) -> Array:
    """For each of the slices `rows`, launched by the slices `ops` (-1: unknown): UNKNOWN, COMPUTE or MEMORY."""
    moving, executing = trace.column("moving")[rows], trace.column("executing")[rows]
    stamped = (moving >= 0) & (executing >= 0)
    found: Array = np.where(stamped, np.where(executing >= moving, COMPUTE, MEMORY), UNKNOWN)
    rest = np.flatnonzero(~stamped & (ops >= 0))
    if not len(rest):
        return found
    chosen = ops[rest]
    keys = np.stack(
        (trace.slices["name"][chosen], trace.column("dims")[chosen], trace.column("types")[chosen]), 1
    )  # fmt: skip
    alike, group = np.unique(keys, axis=0, return_inverse=True)
    told = np.zeros(len(alike), np.int64)
    for place, (name, dims, types) in enumerate(alike.tolist()):
        if dims >= 0 and types >= 0:
            ratio = intensity(trace.names[name], trace.texts[dims], trace.texts[types])
            if ratio is not None:
                told[place] = MEMORY if ratio < BELOW else COMPUTE if ratio > ABOVE else UNKNOWN
    found[rest] = told[group.ravel()]
    return found
