"""What an op computes and moves, from its input shapes and types: operations, bytes, and the type that it computes in.

In: an op's name, "Input Dims" and "Input type" as the trace has them. Out: `Arithmetic`, or None where the shapes don't
tell. Operations are counted as PyTorch's with_flops does: two for a multiply-add, one an element for element-wise ops,
none for what only moves. Bytes are what the op must touch at least: each input and the output once. Errors: none.
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

import numpy as np

_BYTES = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8, "int": 4, "short int": 2,
    "signed char": 1, "unsigned char": 1, "bool": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
}  # fmt: skip
# Which inputs a matrix product multiplies.
_PRODUCTS = {
    "aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2), "aten::linear": (0, 1)
}  # fmt: skip
_ATTENTION = re.compile(r"aten::_?scaled_dot_product_(?!.*backward)\w*attention\w*$")
# One operation an element of the output, whose shape is that of all inputs, broadcast.
_ELEMENTWISE = {f"aten::{name}" for name in """
    add add_ sub sub_ mul mul_ div div_ relu relu_ neg clamp clamp_min threshold_backward where eq ne lt gt le ge abs
    sqrt rsqrt reciprocal exp log tanh sigmoid silu pow maximum minimum addcmul addcdiv addcmul_ addcdiv_ bitwise_and
    masked_fill masked_fill_""".split()}  # fmt: skip
_MOVES = {"aten::copy_", "aten::clone"}


class Arithmetic(NamedTuple):
    """Operations, bytes of device memory that are touched at least, and the type's name."""

    flops: float
    bytes: float
    type: str


def arithmetic(op: str, dims: str, types: str) -> Arithmetic | None:
    """What an op computes and moves."""
    try:
        shapes, kinds = json.loads(dims), json.loads(types)
    except ValueError:
        return None
    if not isinstance(shapes, list) or not isinstance(kinds, list) or len(shapes) != len(kinds):
        return None
    tensors = {
        place: (shape, kind) for place, (shape, kind) in enumerate(zip(shapes, kinds))
        if isinstance(kind, str) and kind in _BYTES and isinstance(shape, list)
        and all(type(one) is int and one >= 0 for one in shape)
    }  # fmt: skip
    touched = float(sum(math.prod(shape) * _BYTES[kind] for shape, kind in tensors.values()))
    if op in _PRODUCTS:
        return _product(op, tensors, touched)
    if _ATTENTION.match(op):
        return _attention(tensors, touched)
    if op in _ELEMENTWISE or op in _MOVES:
        return _elementwise(op, tensors, touched)
    return None


def _product(op: str, tensors: dict[int, tuple[list[int], str]], touched: float) -> Arithmetic | None:
    left, right = (tensors.get(place) for place in _PRODUCTS[op])
    if left is None or right is None or len(left[0]) < 2 or len(right[0]) < 2:
        return None
    rows, inner = math.prod(left[0][:-1]), left[0][-1]
    columns = right[0][-2] if op == "aten::linear" else right[0][-1]
    added = 0 if op in ("aten::mm", "aten::bmm") or (op == "aten::linear" and 2 not in tensors) else 1
    out = rows * columns
    return Arithmetic(2.0 * out * inner + added * out, touched + out * _BYTES[left[1]], left[1])


def _attention(tensors: dict[int, tuple[list[int], str]], touched: float) -> Arithmetic | None:
    query, key, value = (tensors.get(place) for place in range(3))
    if query is None or key is None or value is None or min(len(one[0]) for one in (query, key, value)) < 3:
        return None
    pairs = math.prod(query[0][:-1]) * key[0][-2]  # of a query and a key
    out = math.prod(query[0][:-1]) * value[0][-1]
    return Arithmetic(2.0 * pairs * (query[0][-1] + value[0][-1]), touched + out * _BYTES[query[1]], query[1])


def _elementwise(op: str, tensors: dict[int, tuple[list[int], str]], touched: float) -> Arithmetic | None:
    first = next(iter(tensors.values()), None)
    if first is None:
        return None
    try:
        whole = 1
        for size in np.broadcast_shapes(*(shape for shape, _ in tensors.values())):
            whole *= int(size)
    except ValueError:  # not one shape: a list of tensors, say
        return None
    if op in _MOVES:
        target, source = first, tensors.get(1, first)
        return Arithmetic(0.0, float(whole * (_BYTES[target[1]] + _BYTES[source[1]])), target[1])
    return Arithmetic(float(whole), touched + whole * _BYTES[first[1]], first[1])
