"""The program that Inductor generates in Python: it launches each kernel, and allocates on the right device."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen import wrapper as stock

from .scheduling import Launch

_KEY = "kineto_spyre_launch"  # of the metadata that Inductor carries to the line of the call
_MODULE = "kineto_spyre.emulator.inductor.launching"


_Stock: Any = stock.PythonWrapperCodegen  # much of it has no types
_StockOfSubgraph: Any = stock.SubgraphPythonWrapperCodegen


class _Launches(_Stock):  # type: ignore[misc]
    next_launch: Launch | None = None  # of the kernel that is called next; None for the CPU's own

    def generate_kernel_call(self, kernel_name: str, call_args: Any, **options: Any) -> None:
        launch, self.next_launch = self.next_launch, None
        if launch is not None:
            options |= {"device": launch.device, "inductor_meta": {_KEY: (self._declare(kernel_name, launch), launch)}}
        super().generate_kernel_call(kernel_name, call_args, **options)

    def _declare(self, kernel_name: str, launch: Launch) -> str:
        """The global of the generated program that holds the kernel; one for each pair of name and origins."""
        root = self._root()
        made: dict[str, str] = root.__dict__.setdefault("_spyre_kernels", {})
        marked = f", {[one.op for one in launch.ops]!r}, {launch.marked!r}" if launch.ops else ""
        value = f"_SpyreKernel({launch.name!r}, {kernel_name!r}, {launch.cost.dtype}, {launch.origins!r}{marked})"
        if not made:
            root.header.writeline(f"from {_MODULE} import Kernel as _SpyreKernel")
        if value not in made:
            made[value] = f"spyre_{kernel_name}_{len(made)}"
            root.header.writeline(f"{made[value]} = {value}")
        return made[value]

    def _root(self) -> Any:
        return self

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, **options: Any) -> None:
        declared = (options.get("inductor_meta") or {}).get(_KEY)
        if declared is None:
            super()._generate_kernel_call_helper(kernel_name, call_args, **options)
            return
        variable, launch = declared
        arguments = "".join(f"{one}, " for one in call_args)
        figures = ", ".join(
            self.codegen_python_sizevar(one) for one in (launch.cost.flops, launch.cost.read, launch.cost.written)
        )
        if launch.ops:
            figures += f", ({''.join(self._figures(one) for one in launch.ops)})"
        self.writeline(f"{variable}({kernel_name}, ({arguments}), {launch.device.index}, {figures})")

    def _figures(self, op: Any) -> str:
        return "(" + ", ".join(self.codegen_python_sizevar(one) for one in (op.flops, op.read, op.written)) + "), "

    def make_allocation(self, name: str, device: torch.device, *args: Any, **kwargs: Any) -> str:
        made: str = super().make_allocation(name, device, *args, **kwargs)
        if device.type != "spyre":
            return made
        return made.replace("device='spyre'", f"device='spyre:{device.index}'")  # Inductor relies on a device guard


class PythonWrapperCodegen(_Launches):
    """Of a whole graph."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> Any:
        """The generator of a graph, or of one within another, as Inductor asks for it."""
        if is_subgraph:
            return _SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return PythonWrapperCodegen()


class _SubgraphWrapper(_Launches, _StockOfSubgraph):  # type: ignore[misc]
    def _root(self) -> Any:
        return self.get_root_graph()
