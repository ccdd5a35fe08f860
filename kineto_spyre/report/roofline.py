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

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.traces import Trace

Array = npt.NDArray[Any]

UNKNOWN, COMPUTE, MEMORY = range(3)
BOUNDS = ("unknown", "compute", "device memory")
BELOW, ABOVE = 10.0, 400.0  # FLOPs a byte
_BYTES = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8, "int": 4, "short int": 2,
    "signed char": 1, "unsigned char": 1, "bool": 1,
}  # fmt: skip
# Which inputs a matrix product multiplies.
_PRODUCTS = {
    "aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2), "aten::linear": (0, 1)
}  # fmt: skip
# Ops of a few operations an element.
_FEW = """
    add add_ sub sub_ mul mul_ div div_ relu relu_ neg copy_ clone cat fill_ zero_ clamp clamp_min threshold_backward
    where eq ne lt gt abs sqrt rsqrt sum mean maximum minimum addcmul addcdiv addcmul_ addcdiv_ bitwise_and masked_fill_
    index index_select embedding gather scatter_add_"""
_ELEMENTWISE = {f"aten::{name}" for name in _FEW.split()}


def intensity(op: str, dims: str, types: str) -> float | None:
    """FLOPs a byte of device memory that an op touches; None if its shapes don't tell."""
    try:
        shapes, kinds = json.loads(dims), json.loads(types)
    except ValueError:
        return None
    if not isinstance(shapes, list) or not isinstance(kinds, list) or len(shapes) != len(kinds):
        return None
    tensors = {
        place: (shape, _BYTES[kind]) for place, (shape, kind) in enumerate(zip(shapes, kinds))
        if kind in _BYTES and isinstance(shape, list) and all(type(one) is int for one in shape)
    }  # fmt: skip
    touched = sum(math.prod(shape) * size for shape, size in tensors.values())
    if op in _PRODUCTS:
        left, right = (tensors.get(place) for place in _PRODUCTS[op])
        if left is None or right is None or len(left[0]) < 2 or len(right[0]) < 2:
            return None
        rows, inner = math.prod(left[0][:-1]), left[0][-1]
        columns = right[0][-2] if op == "aten::linear" else right[0][-1]
        touched += rows * columns * left[1]
        return 2 * rows * inner * columns / touched if touched else None
    if op in _ELEMENTWISE and touched:
        return 2 * sum(math.prod(shape) for shape, _ in tensors.values()) / touched
    return None


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
