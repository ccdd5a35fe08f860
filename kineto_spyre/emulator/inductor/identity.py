"""A generated kernel's name in a trace, and what it was made of.

The name is that of compiled Spyre kernels: spyre_kernel_v1_<aten ops>_<provenance key>#0. The key is 80 bits of a
SHA-256 as 16 characters of base32, taken over what the kernel does: its loops, their ranges, the operations in them,
and dtype and size of each buffer in the order in which it is used. Buffers' names are left out. So the same work has
the same key in every graph and every process, and other work has another.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.virtualized import V

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def name_of(nodes: Sequence[Any], origins: Sequence[dict[str, Any]]) -> str:
    """The name of a kernel made of these nodes."""
    ops = dict.fromkeys(one["op"].split(".")[1].lstrip("_") for one in origins if one["op"].count(".") > 0)
    summary = re.sub(r"\W", "_", "_".join(sorted(ops)))[:80].strip("_") or "fused"
    return f"spyre_kernel_v1_{summary}_{_key(nodes)}#0"


def _key(nodes: Sequence[Any]) -> str:
    digest = hashlib.sha256(_text(nodes).encode()).digest()
    return base64.b32encode(digest[:10]).decode().lower()


def _text(nodes: Sequence[Any]) -> str:
    """What the kernel does, with its buffers called by the order of their use."""
    body = "\n".join(f"{type(node).__name__} {node.group[1]}\n{_body(node)}" for node in nodes)
    names = {dep.name for node in nodes for dep in (*node.read_writes.reads, *node.read_writes.writes)}
    order: dict[str, str] = {}

    def called(found: re.Match[str]) -> str:
        name = found[0]
        if name not in names:
            return name
        return order.setdefault(name, f"b{len(order)}")

    text = re.sub(r"\b\w+\b", called, body)
    return text + "".join(f"\n{called} {_shape(name)}" for name, called in order.items())


def _body(node: Any) -> str:
    body: Any = getattr(node, "_body", None)
    return str(body.debug_str()) if hasattr(body, "debug_str") else type(getattr(node, "node", None)).__name__


def _shape(name: str) -> str:
    try:
        return f"{V.graph.get_dtype(name)} {V.graph.get_numel(name)} {name in V.graph.removed_buffers}"
    except Exception:  # an effect or an object
        return ""


def origins_of(nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """What the nodes were made of, in the order of the graph: for each op a dictionary of

    op      such as "aten.add.Tensor"; "" where the graph does not say
    node    its name in the graph that Inductor was given
    before  names in the graph before autograd and decompositions
    module  the module's path within the model, such as "L['self'].layers.0.norm"
    file, line  of the source; "" and 0 where the graph does not say
    """
    found: dict[Any, None] = {}
    for node in nodes:
        if node.node is not None:
            found |= dict.fromkeys(node.node.get_origins())
    places = {node: at for graph in {one.graph for one in found} for at, node in enumerate(graph.nodes)}
    ordered = sorted(found, key=lambda one: (places.get(one, 0), one.name))
    return [_origin(one) for one in ordered if one.op == "call_function"]


def _origin(node: torch.fx.Node) -> dict[str, Any]:
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    module = list(modules.values())[-1][0] if modules else ""
    before = [source.name for source in node.meta.get("from_node") or []][:1]
    return {
        "op": _op(node),
        "node": node.name,
        "before": before,
        "module": str(module),
        "file": frames[-1]["file"] if frames else "",
        "line": int(frames[-1]["line"]) if frames else 0,
    }


def _op(node: torch.fx.Node) -> str:
    op = node.meta.get("original_aten") or node.target
    if isinstance(op, torch._ops.OpOverload):
        return str(op)
    return str(op.name()) if isinstance(op, torch._ops.HigherOrderOperator) else ""
