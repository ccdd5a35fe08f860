"""What a generated kernel does, for the cost model: bytes, floating-point operations, the type that it computes in.

In: the scheduler's nodes of one kernel, after its code was generated, so that buffers which fusion took away are known.
Out: expressions over the sizes of the graph, because shapes may be dynamic. Rules:

    a buffer that is written first and read later within the kernel is not read from memory;
    of a buffer, no more is read than it has, however often it is read;
    each arithmetic operation of a loop's body counts one an element of the loop; loads, stores, casts, constants and
    indices do not. An eager op counts at least one an element, and so does each node here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V

from .._machine import DTYPES

_NOT_ARITHMETIC = frozenset(
    "load store store_reduction constant get_index index_expr value_expr to_dtype to_dtype_bitcast indirect_indexing "
    "check_bounds masked output placeholder set_indirect partial_accumulate device_assert_async".split()
)


@dataclass(frozen=True)
class Cost:
    """Of one kernel. Bytes and operations are expressions over the graph's sizes."""

    read: sympy.Expr
    written: sympy.Expr
    flops: sympy.Expr
    dtype: int


def of(nodes: Sequence[Any]) -> Cost:
    """The cost of a kernel made of these nodes."""
    reads, writes = _traffic(nodes)
    return Cost(
        _bytes(reads), _bytes(writes), sympy.Add(*map(flops_of, nodes)), _dtype([*reads, *writes])
    )  # fmt: skip


def flops_of(node: Any) -> sympy.Expr:
    """The arithmetic operations of one node."""
    elements = sympy.Mul(*(size for group in node.group[1] for size in group))
    body = getattr(node, "_body", None)
    if body is None or not hasattr(body, "root_block"):
        return elements
    operations = sum(
        one.op == "call_method" and one.target not in _NOT_ARITHMETIC
        for block in (body.root_block, *body.subblocks.values())
        if hasattr(block, "graph")
        for one in block.graph.nodes
    )
    return max(operations, 1) * elements


def _traffic(nodes: Sequence[Any]) -> tuple[dict[str, sympy.Expr], dict[str, sympy.Expr]]:
    """By buffer the elements that are read from memory, and those that are written to it."""
    reads: dict[str, sympy.Expr] = {}
    writes: dict[str, sympy.Expr] = {}
    inside: set[str] = set()
    for node in nodes:
        _add(reads, (dep for dep in node.read_writes.reads if dep.name not in inside))
        _add(writes, node.read_writes.writes)
        inside.update(dep.name for dep in node.read_writes.writes)
    return reads, writes


def _add(to: dict[str, sympy.Expr], deps: Iterable[Any]) -> None:
    seen: dict[str, set[Any]] = {}
    for dep in sorted(deps, key=str):
        if dep.name in V.graph.removed_buffers or not _is_tensor(dep.name):
            continue
        whole = sympy.sympify(V.graph.get_numel(dep.name))
        elements = dep.get_numel() if isinstance(dep, MemoryDep) else whole
        if dep in seen.setdefault(dep.name, set()):
            continue
        seen[dep.name].add(dep)
        to[dep.name] = _at_most(to.get(dep.name, sympy.S.Zero) + elements, whole)


def _at_most(elements: sympy.Expr, whole: sympy.Expr) -> sympy.Expr:
    if elements == whole or V.graph.sizevars.statically_known_leq(whole, elements):
        return whole
    if V.graph.sizevars.statically_known_leq(elements, whole):
        return elements
    return sympy.Min(elements, whole)


def _is_tensor(name: str) -> bool:
    try:
        V.graph.get_numel(name)
        V.graph.get_dtype(name)
    except Exception:  # an effect, an object, a random seed: it takes no room
        return False
    return True


def _bytes(elements: dict[str, sympy.Expr]) -> sympy.Expr:
    return sympy.Add(*(count * V.graph.get_dtype(name).itemsize for name, count in elements.items()))


def _dtype(names: Iterable[str]) -> int:
    """That of the first floating-point buffer, else of the first one, as for eager ops."""
    dtypes = [V.graph.get_dtype(name) for name in names]
    chosen = next((one for one in dtypes if one.is_floating_point or one.is_complex), dtypes[0] if dtypes else None)
    return _RUNTIMES.get(chosen, DTYPES["other"]) if chosen is not None else DTYPES["other"]


_RUNTIMES = {
    torch.float16: DTYPES["float16"],
    torch.bfloat16: DTYPES["bfloat16"],
    torch.float32: DTYPES["float32"],
    torch.float8_e4m3fn: DTYPES["float8"],
    torch.float8_e5m2: DTYPES["float8"],
    torch.float8_e4m3fnuz: DTYPES["float8"],
    torch.float8_e5m2fnuz: DTYPES["float8"],
    torch.int8: DTYPES["int8"],
    torch.uint8: DTYPES["int8"],
}
