"""`kineto_spyre.instrument`: which ops of compiled programs are marked, as a context manager or an option."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _notices

if TYPE_CHECKING:
    from .marking import MarkPass

METRICS = ("time", "dma", "utilization", "scratchpad", "stalls", "energy")
_OPTION = "_post_fusion_custom_pass"  # Inductor's own, for passes over scheduler nodes


class Instrument:
    """What `instrument` made. `with` it, every program that is compiled meanwhile is marked; `options` is for one
    torch.compile."""

    def __init__(self, ops: frozenset[str], metrics: frozenset[str]) -> None:
        self.ops, self.metrics = ops, metrics
        self._patches: list[Any] = []

    @property
    def options(self) -> dict[str, Any]:
        """For torch.compile(model, options=...)."""
        return {_OPTION: self._made()}

    def _made(self) -> MarkPass:
        from torch._inductor import config

        if not hasattr(config, _OPTION):
            raise _notices.SpyreProfilerError(
                f"Ops can't be marked, because this release of PyTorch has no passes over Inductor's scheduler nodes "
                f"(torch._inductor.config.{_OPTION}). Profile without instrument()."
            )
        from .marking import MarkPass

        return MarkPass(self.ops, self.metrics, getattr(config, _OPTION))

    def __enter__(self) -> Instrument:
        from torch._inductor import config

        patch = config.patch({_OPTION: self._made()})
        patch.__enter__()
        self._patches.append(patch)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._patches.pop().__exit__(*raised)


def instrument(ops: Iterable[str], metrics: Iterable[str] = METRICS) -> Instrument:
    """Marks ops within programs that torch.compile generates, so that a profile shows what each takes of its kernel.

    Results stay the same to the last bit. A program that was compiled before, or that runs without a profile, is as it
    was: compile it anew (torch.compiler.reset()) to mark it.

    Args:
        ops: such as "aten.mm", which stands for all its overloads, or "aten.add.Tensor".
        metrics: of METRICS; a device that can't measure one leaves it out. The CPU measures the time.

    Raises:
        ValueError: no op, an op that PyTorch does not have, or an unknown metric.
        SpyreProfilerError: when it is used, with a PyTorch whose Inductor has no such passes.
    """
    if isinstance(ops, str) or isinstance(metrics, str):
        raise ValueError("ops and metrics are lists of names, such as ops=['aten.mm']")
    chosen = frozenset(ops)
    measured = frozenset("utilization" if one == "utilisation" else one for one in metrics)
    if not chosen:
        raise ValueError("ops is empty, so there is nothing to mark. Name some, such as ops=['aten.mm'].")
    if unknown := sorted(measured.difference(METRICS)):
        raise ValueError(f"unknown metrics: {', '.join(map(str, unknown))}. There are {', '.join(METRICS)}.")
    for op in sorted(map(str, chosen)):
        if not _exists(op):
            raise ValueError(f"PyTorch has no op {op!r}. Name ops as in 'aten.mm' or 'aten.add.Tensor'.")
    return Instrument(chosen, measured)


def _exists(op: str) -> bool:
    import torch

    found: Any = torch.ops
    parts = op.split(".")
    if not 2 <= len(parts) <= 3:
        return False
    for part in parts:
        found = getattr(found, part, None)
        if found is None:
            return False
    return True
