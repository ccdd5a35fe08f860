"""A pass over Inductor's scheduler nodes: finds chosen ops, and has the emitter of their device mark them.

It runs after Inductor has decided what is fused, and changes no node: where a marked node's code is generated, the
emitter writes before and after it. So the kernels are those of the unmarked program, and so are their results.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.scheduler import FusedSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from .. import _notices
from .emitter import Mark, MarkEmitter, emitter_of

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


class MarkPass(CustomSchedulerPass):
    """Marks the chosen ops, after a pass that was there before."""

    def __init__(self, ops: frozenset[str], metrics: frozenset[str], before: Any) -> None:
        self._ops, self._metrics, self._before = ops, metrics, before

    def __call__(self, nodes: list[Any]) -> list[Any]:
        """The same nodes."""
        if self._before is not None:
            nodes = self._before(nodes)
        for node in nodes:
            mark = mark_of(node, self._ops, self._metrics)
            if mark is None or node.get_device() is None:
                continue
            emitter = emitter_of(node.get_device().type)
            if emitter is None:
                _cannot(mark, f"there is no MarkEmitter for the device {node.get_device().type!r}")
            elif V.graph.cpp_wrapper:
                _cannot(mark, "programs that are generated in C++ (cpp_wrapper) take no marks")
            else:
                _have_marked(node, mark, emitter)
        return nodes

    def uuid(self) -> Any:
        """Which programs of Inductor's cache have the same marks."""
        before = self._before.uuid() if hasattr(self._before, "uuid") else repr(self._before)
        return ("kineto_spyre.marks", _generator(), sorted(self._ops), sorted(self._metrics), before)


def mark_of(node: Any, ops: frozenset[str], metrics: frozenset[str]) -> Mark | None:
    """The mark of a scheduler node, None if it holds none of the ops."""
    origins = origins_of(node.get_nodes())
    chosen = [one for one in origins if not ops.isdisjoint(names_of(one))]
    if not chosen:
        return None
    others = tuple(dict.fromkeys(name for one in origins if one not in chosen for name in names_of(one)[:1]))
    named = tuple(names_of(one)[0] for one in chosen)
    return Mark(named, others, tuple(chosen), metrics, source_of(chosen[0]))


def origins_of(nodes: Sequence[Any]) -> list[torch.fx.Node]:
    """What scheduler nodes were made of, in the order of the graph."""
    found = {one for node in nodes if node.node is not None for one in node.node.get_origins()}
    places = {one: at for graph in {one.graph for one in found} for at, one in enumerate(graph.nodes)}
    calls = (one for one in found if one.op == "call_function")
    return sorted(calls, key=lambda one: (places.get(one, 0), one.name))


def names_of(node: torch.fx.Node) -> list[str]:
    """What an op of the graph is called: "aten.add" and "aten.add.Tensor"; [] if it is no op of PyTorch's.

    An op that a decomposition made has the name of what was decomposed: the sum within a softmax is the softmax's.
    """
    op = node.meta.get("original_aten") or node.target
    if isinstance(op, torch._ops.OpOverload):
        return [str(op).rpartition(".")[0], str(op)]
    return [str(op.name())] if isinstance(op, torch._ops.HigherOrderOperator) else []


def source_of(node: torch.fx.Node) -> dict[str, Any]:
    """Module, file and line of an op, as far as the graph knows them."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    known: dict[str, Any] = {"module": str(list(modules.values())[-1][0])} if modules else {}
    return known | ({"file": frames[-1]["file"], "line": int(frames[-1]["line"])} if frames else {})


def _have_marked(node: Any, mark: Mark, emitter: MarkEmitter) -> None:
    if node.is_extern():
        generate = node.codegen
        node.codegen = lambda wrapper: emitter.emit(mark, node, wrapper, lambda: generate(wrapper))
    elif isinstance(node, (FusedSchedulerNode, SchedulerNode)) and not node.is_template():
        _marked_by(node.scheduler.get_backend(node.get_device()))[node] = (mark, emitter)
    else:
        _cannot(mark, "Inductor generates it from a template")


def _marked_by(backend: Any) -> dict[Any, tuple[Mark, MarkEmitter]]:
    """The marked nodes of one graph's code generator, which looks into them from now on."""
    known: dict[Any, tuple[Mark, MarkEmitter]] | None = backend.__dict__.get("_spyre_marked")
    if known is None:
        known = backend._spyre_marked = {}
        backend.codegen_node = _looking(backend.codegen_node, known)
    return known


def _looking(generate: Callable[[Any], None], known: dict[Any, tuple[Mark, MarkEmitter]]) -> Callable[[Any], None]:
    def codegen_node(node: Any) -> None:
        if node not in known:
            return generate(node)
        mark, emitter = known[node]
        return emitter.emit(mark, node, V.graph.wrapper_code, lambda: generate(node))

    return codegen_node


def _cannot(mark: Mark, reason: str) -> None:
    _notices.warn(f"{mark.name} is not marked, because {reason}. The program runs as it would without marks.")


def _generator() -> str:
    """A hash of the files here: another release's marked programs are not taken from the cache."""

    def files() -> Iterator[bytes]:
        for file in sorted(pathlib.Path(__file__).parent.glob("*.py")):
            yield file.read_bytes()

    return hashlib.sha256(b"".join(files())).hexdigest()
