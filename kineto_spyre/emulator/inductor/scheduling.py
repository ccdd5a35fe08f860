"""Inductor's scheduling for the CPU, and for each kernel of it what its launch needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.virtualized import V

from . import costs, identity


@dataclass(frozen=True)
class Launch:
    """Of one kernel of the generated program.

    Attributes:
        name: in a trace.
        device: on which it runs.
        cost: what it does.
        origins: what it was made of.
    """

    name: str
    device: torch.device
    cost: costs.Cost
    origins: list[dict[str, Any]]


class Scheduling(CppScheduling):
    """Generates the CPU's kernels, and hands the wrapper a Launch before each call of one."""

    def define_kernel(self, src_code: str, nodes: Sequence[Any], kernel_args: Any = None) -> str:
        """The kernel's name in the generated program. Its call follows, in every case."""
        name = str(super().define_kernel(src_code, nodes, kernel_args))  # type: ignore[no-untyped-call]
        origins = identity.origins_of(nodes)
        wrapper: Any = V.graph.wrapper_code
        wrapper.next_launch = Launch(identity.name_of(nodes, origins), nodes[0].get_device(), costs.of(nodes), origins)
        return name
