"""How marks get into a generated program: an interface for any device's code generator, and the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

RUNNING = "from kineto_spyre.marks import running as _spyre_marks"


@dataclass(frozen=True)
class Mark:
    """The chosen ops of one scheduler node, which is a kernel, a part of one, or a call of a library.

    Attributes:
        ops: those that were chosen, in the order of the graph: "aten.mm".
        others: the node's other ops. They share its loops, so a clock can't tell them apart.
        origins: of each chosen op its node in the graph that Inductor was given.
        metrics: what is to be measured, of METRICS.
        source: of the first chosen op: `module`, `file` and `line`, where the graph knows them.
    """

    ops: tuple[str, ...]
    others: tuple[str, ...]
    origins: tuple[Any, ...]
    metrics: frozenset[str]
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the mark is called in a trace."""
        return " + ".join(dict.fromkeys(self.ops))

    @property
    def args(self) -> dict[str, Any]:
        """What is known of it when it is compiled."""
        known: dict[str, Any] = {"ops": list(self.ops), **self.source}
        return known | ({"others": list(self.others)} if self.others else {})


class MarkEmitter(Protocol):
    """Puts marks into the program of one type of device."""

    def emit(self, mark: Mark, node: Any, wrapper: Any, generate: Callable[[], None]) -> None:
        """Generates the node's code, and what marks it.

        Args:
            mark: what to mark.
            node: Inductor's scheduler node.
            wrapper: the program's code generator; `wrapper.writeline` adds a line.
            generate: generates the node's own code, unchanged. To be called once.
        """


class HostClock:
    """The CPU's: reads the host's clock before and after the node's code, which runs in between."""

    def emit(self, mark: Mark, node: Any, wrapper: Any, generate: Callable[[], None]) -> None:
        flush = node.scheduler.get_backend(node.get_device()).flush
        flush()  # what was fused beside this node is called before it, and not within the marks
        wrapper.add_import_once(RUNNING)
        wrapper.writeline("_spyre_mark = _spyre_marks.begin()")
        generate()
        flush()
        wrapper.writeline(f"_spyre_marks.end_of(_spyre_mark, True, {mark.name!r}, {mark.args!r})")


_emitters: dict[str, MarkEmitter] = {"cpu": HostClock()}


def register_emitter(device_type: str, emitter: MarkEmitter) -> None:
    """Has marks on devices of this type be put in by `emitter`."""
    _emitters[device_type] = emitter


def emitter_of(device_type: str) -> MarkEmitter | None:
    """The emitter for a type of device, None if there is none."""
    return _emitters.get(device_type)
