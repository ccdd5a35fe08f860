"""A fused kernel's figures op by op, for marks that the card executes.

In: the scheduler's nodes of one kernel. Out: for each op that they were made of, in the order of the graph,
expressions over the graph's sizes: operations (one an element of what it makes; a reduction, one an element of what
it takes), bytes that it reads of what this kernel did not make (the first op that reads a tensor does), and bytes of
the buffers that the kernel writes and that hold its result. The card divides the kernel's own figures in proportion,
so they add up to those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.virtualized import V

from ...marks.marking import names_of, origins_of


@dataclass
class OpFigures:
    """Of one op of a kernel; expressions over the graph's sizes."""

    op: str
    node: torch.fx.Node
    flops: sympy.Expr
    read: sympy.Expr
    written: sympy.Expr


def of(nodes: Sequence[Any]) -> list[OpFigures]:
    """The ops of a kernel made of these nodes, in the order of the graph."""
    origins = [one for one in origins_of(nodes) if names_of(one)]
    inside, seen = set(origins), set()
    results = _results(nodes, origins)
    made = []
    for one in origins:
        read = sympy.S.Zero
        elements = _elements(one)
        if _is_reduction(one):
            elements = sympy.Max(elements, *map(_elements, one.all_input_nodes))
        for taken in one.all_input_nodes:
            if taken not in inside and taken not in seen:
                seen.add(taken)
                read += _bytes(taken)
        made.append(OpFigures(names_of(one)[0], one, elements, read, results.get(one, sympy.S.Zero)))
    return made


def _results(nodes: Sequence[Any], origins: Sequence[torch.fx.Node]) -> dict[torch.fx.Node, sympy.Expr]:
    """What each op's buffers have of bytes; a buffer that the graph knows no op for belongs to its node's last one."""
    found: dict[torch.fx.Node, sympy.Expr] = {}
    for node in nodes:
        names = [dep.name for dep in node.read_writes.writes if dep.name not in V.graph.removed_buffers]
        own = set(node.node.get_origins()) if node.node is not None else set()
        made_by = node.node.get_origin_node() if hasattr(node.node, "get_origin_node") else None
        if made_by not in origins:
            made_by = next((one for one in reversed(origins) if one in own), None)
        if made_by is not None:
            found[made_by] = found.get(made_by, sympy.S.Zero) + sympy.Add(*map(_size, names))
    return found


def _size(name: str) -> sympy.Expr:
    try:
        return sympy.sympify(V.graph.get_numel(name)) * V.graph.get_dtype(name).itemsize
    except Exception:  # an effect or an object: it takes no room
        return sympy.S.Zero


def _is_reduction(node: torch.fx.Node) -> bool:
    largest = _elements(node)
    return any(V.graph.sizevars.statically_known_lt(largest, _elements(one)) for one in node.all_input_nodes)


def _tensors(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    value = node.meta.get("val")
    for one in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(one, torch.Tensor):
            yield one


def _elements(node: torch.fx.Node) -> sympy.Expr:
    return sympy.Max(sympy.S.Zero, *(_expression(one.numel()) for one in _tensors(node)))


def _bytes(node: torch.fx.Node) -> sympy.Expr:
    return sympy.Add(*(_expression(one.numel()) * one.dtype.itemsize for one in _tensors(node)))


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
