"""Reads what compilers write about the origin of kernels, and answers by a kernel's name.

In: a path. Two forms are understood, told apart by their keys:

    spyre_provenance.json, schemaVersion 1 (torch-spyre)   by the key of 16 characters in the kernel's name
    Inductor's node mappings, version 2 (cppCodeToPost ...) by the kernel's own name; without source lines, unless the
                                                            file with kernels' stack traces lies beside it

Out: `Known`. Errors: ProvenanceError, a sentence. A record that is not as its format says is as if it were not there.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_KEY = re.compile(r"_([a-z2-7]{16})(?:#\d+)?$")
_ORDINAL = re.compile(r":\d+$")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
STACKS = "inductor_provenance_tracking_kernel_stack_traces.json"


class ProvenanceError(ValueError):
    """A file is no provenance that this release reads; the message is a sentence that says what to do."""


@dataclass(frozen=True)
class Origin:
    """What a kernel was made of. Each is empty where the compiler did not record it.

    Attributes:
        aten_ops: such as "aten.mm.default".
        lines: "file:line" of the source, in the order of the ops.
        nodes: of the graph before autograd and decompositions where that is known, else of the one behind them.
        handles: ids of torch-spyre's debug handles, as text.
    """

    aten_ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
    """What is known of kernels' origins.

    Attributes:
        source: where it was read, for messages.
        complete: whether the compiler said that it recorded all that it could.
        by_key, by_name: origins by a Spyre's provenance key, and by a kernel's name.
    """

    source: str
    complete: bool = True
    by_key: Mapping[str, Origin] = field(default_factory=dict)
    by_name: Mapping[str, Origin] = field(default_factory=dict)

    def origin(self, kernel: str) -> Origin | None:
        """The origin of a kernel by its name in a trace; None if it is not known."""
        found = _KEY.search(kernel)
        if found is not None and found[1] in self.by_key:
            return self.by_key[found[1]]
        return self.by_name.get(kernel)


def load(path: str | os.PathLike[str]) -> Known:
    """Reads a file of provenance.

    Raises:
        ProvenanceError: it can't be read, or is of no form that this release knows.
    """
    document = _document(path)
    if "kernelIdentities" in document or "schemaVersion" in document:
        if document.get("schemaVersion") != 1:
            raise ProvenanceError(
                f"{path} has schemaVersion {document.get('schemaVersion')!r} and this release reads 1. Install a newer "
                "kineto-spyre."
            )
        return _of_spyre(str(path), document)
    if "cppCodeToPost" in document:
        return _of_inductor(pathlib.Path(path), document)
    raise ProvenanceError(
        f"{path} is neither a spyre_provenance.json nor Inductor's node mappings: it has no key kernelIdentities and "
        "no key cppCodeToPost. Name a file of one of these."
    )


def _document(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise ProvenanceError(f"{path} can't be opened: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise ProvenanceError(f"{path} is not JSON ({error}). Name the file that the compiler wrote.") from None
    if not isinstance(document, dict):
        raise ProvenanceError(f"{path} holds no JSON object. Name the file that the compiler wrote.")
    return document


def _of_spyre(source: str, document: dict[str, Any]) -> Known:
    handles, identities = _mapping(document.get("handles")), _mapping(document.get("kernelIdentities"))
    nodes = _nodes_of_occurrences(document)
    origins = {}
    for key, identity in identities.items():
        direct = _texts(_mapping(identity).get("directHandleIds"))
        reached = [_mapping(handles[one]) for one in _reached(direct, handles)]
        ops = _unique(one["aten_op"] for one in reached if isinstance(one.get("aten_op"), str))
        origins[key] = Origin(
            ops or tuple(_texts(_mapping(identity).get("atenOps"))), _unique(filter(None, map(_line, reached))),
            nodes.get(key, ()), tuple(direct),
        )  # fmt: skip
    return Known(source, document.get("status") == "complete", by_key=origins)


def _reached(direct: list[str], handles: Mapping[str, Any]) -> list[str]:
    """The handles with all that they were fused from; a cycle ends."""
    found: dict[str, None] = {}
    pending = direct[::-1]
    while pending:
        one = pending.pop()
        if one in found or one not in handles:
            continue
        found[one] = None
        pending += _texts(_mapping(handles[one]).get("fused_from"))[::-1]
    return list(found)


def _line(handle: Mapping[str, Any]) -> str:
    source = _mapping(handle.get("source"))
    file, line = source.get("file"), source.get("start_line")
    return f"{file}:{line}" if isinstance(file, str) and type(line) is int else ""


def _nodes_of_occurrences(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """By key the graph's nodes, through the aliases under which the kernel was registered with Inductor."""
    projections = _mapping(document.get("upstreamProjections"))
    nodes: dict[str, tuple[str, ...]] = {}
    for occurrence in map(_mapping, _mapping(document.get("kernelOccurrences")).values()):
        projection = _mapping(projections.get(str(occurrence.get("compileId"))))
        registrations = occurrence.get("registrations")
        aliases = [one.get("alias") for one in registrations if isinstance(one, dict)] if isinstance(
            registrations, list) else []  # fmt: skip
        found = [node for alias in aliases for node in _nodes(projection, str(alias))]
        key = str(occurrence.get("identityKey"))
        nodes[key] = _unique((*nodes.get(key, ()), *found))
    return nodes


def _nodes(mappings: Mapping[str, Any], kernel: str) -> tuple[str, ...]:
    """The nodes of a kernel in the graph before autograd, or where these are not known, behind it."""
    post = _texts(_mapping(mappings.get("cppCodeToPost")).get(kernel))
    before = _mapping(mappings.get("postToPre"))
    return _unique(name for node in post for name in (_texts(before.get(node)) or [node]))


def _of_inductor(path: pathlib.Path, document: dict[str, Any]) -> Known:
    try:
        stacks = _document(path.with_name(STACKS))
    except ProvenanceError:
        stacks = {}
    origins: dict[str, Origin] = {}
    for registered in _mapping(document.get("cppCodeToPost")):
        traces = _texts(stacks.get(registered))
        frames = [list(_FRAME.finditer(trace)) for trace in traces]
        lines = _unique(f"{found[-1]['file']}:{found[-1]['line']}" for found in frames if found)
        nodes = _nodes(document, registered)
        name = _ORDINAL.sub("", registered)  # one kernel may be called, and so registered, more than once
        before = origins.get(name, Origin())
        origins[name] = Origin((), _unique((*before.lines, *lines)), _unique((*before.nodes, *nodes)))
    return Known(str(path), by_name=origins)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
