"""Marks on the emulated Spyre: the card executes them, so a fused kernel stays one kernel.

The kernel's launch is told the figures of its ops, and the cost model divides the kernel's time: after the kernel's own
overhead, in which the card is set up for it, op after op, each for the longer of its arithmetic and its traffic, on the
cores that the whole kernel's work divides over. An op that is a kernel of its own, such as a matrix product, is marked
from the launch of that kernel to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...marks.emitter import RUNNING, Mark


class CardEmitter:
    """Hands marks to the kernel's launch."""

    def emit(self, mark: Mark, node: Any, wrapper: Any, generate: Callable[[], None]) -> None:
        if not node.is_extern():
            names = frozenset(one.get_name() for one in node.get_nodes())
            node.scheduler.get_backend(node.get_device()).marked.append((names, mark))
            generate()
            return
        wrapper.add_import_once(RUNNING)
        wrapper.writeline("_spyre_mark = _spyre_marks.begin()")
        generate()
        wrapper.writeline(f"_spyre_marks.end_of(_spyre_mark, False, {mark.name!r}, {mark.args!r})")
