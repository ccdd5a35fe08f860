"""Inductor's scheduling for the CPU, and for each kernel of it what its launch needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.virtualized import V

from ...marks import Mark
from ...marks.marking import source_of
from . import by_op, costs, identity


@dataclass(frozen=True)
class Launch:
    """Of one kernel of the generated program.

    Attributes:
        name: in a trace.
        device: on which it runs.
        cost: what it does.
        origins: what it was made of.
        ops: the figures of each of its ops, if one of them is marked; else nothing is known of them.
        marks: its marks.
    """

    name: str
    device: torch.device
    cost: costs.Cost
    origins: list[dict[str, Any]]
    ops: list[by_op.OpFigures] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def marked(self) -> dict[int, dict[str, Any]]:
        """By the place of each marked op among `ops`: what is known of it, and the metrics that are asked for."""
        return {
            place: {"metrics": sorted(mark.metrics), **source_of(one.node)}
            for place, one in enumerate(self.ops)
            for mark in self.marks
            if one.node in mark.origins
        }


class Scheduling(CppScheduling):
    """Generates the CPU's kernels, and hands the wrapper a Launch before each call of one."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)  # type: ignore[no-untyped-call]
        self.marked: list[tuple[frozenset[str], Mark]] = []  # of nodes, by their names, whose kernel is not defined yet

    def define_kernel(self, src_code: str, nodes: Sequence[Any], kernel_args: Any = None) -> str:
        """The kernel's name in the generated program. Its call follows, in every case."""
        name = str(super().define_kernel(src_code, nodes, kernel_args))  # type: ignore[no-untyped-call]
        origins = identity.origins_of(nodes)
        wrapper: Any = V.graph.wrapper_code
        names = {node.get_name() for node in nodes}
        marks = [mark for of, mark in self.marked if not of.isdisjoint(names)]
        wrapper.next_launch = Launch(
            identity.name_of(nodes, origins), nodes[0].get_device(), costs.of(nodes), origins,
            by_op.of(nodes) if marks else [], marks,
        )  # fmt: skip
        return name
