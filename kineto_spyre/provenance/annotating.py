"""Puts the origin of each kernel into its arguments, so that a viewer shows it at a click.

In: a trace of Kineto's (Chrome JSON, plain or gzip). Out: the same with `debug_handles`, `aten_ops`, `source`, `nodes`
and `module` in the args of its kernels, as far as they are known; made anew beside the old one and put in its place at
once. The rest of the file is copied byte by byte. Errors: those of reading a trace; OSError.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re

from kineto_spyre._files import new_file
from kineto_spyre.provenance.known import Known
from kineto_spyre.traces import read
from kineto_spyre.traces.places import kernels, of_launches

# As Kineto writes a kernel: its category, its name, its place and times, then its arguments.
_KERNEL = re.compile(
    rb'"cat":\s*"kernel",\s*"name":\s*("(?:[^"\\]|\\.)*")[^{}]{0,400}?"args":\s*\{(\s*\})?', re.DOTALL
)  # fmt: skip


def annotate(trace: str | os.PathLike[str], known: Known, out: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Annotates the kernels of a trace.

    Args:
        trace: its path.
        known: what `load` returned.
        out: where the annotated trace goes; in the place of the old one unless told.

    Returns:
        The number of kernels, and of those whose origin is known.

    Raises:
        Unreadable: it is no trace.
        OSError: it can't be written.
    """
    path, target = pathlib.Path(trace), pathlib.Path(trace if out is None else out)
    columns = read(path)
    content = path.read_bytes()
    packed = content[:2] == b"\x1f\x8b"
    if packed:
        content = gzip.decompress(content)
    modules = [place.module for place in of_launches(columns, kernels(columns))]
    places = list(_KERNEL.finditer(content))
    if len(places) != len(modules):  # of another writer, whose order this does not know
        modules = [""] * len(places)
    pieces, at, count = [], 0, 0
    for found, module in zip(places, modules):
        args = _args(known, json.loads(found[1]), module)
        count += "source" in args or "aten_ops" in args or "nodes" in args
        if not args:
            continue
        text = json.dumps(args)[1:-1].encode()
        brace = found.end() if found[2] is None else found.start(2)
        pieces += [content[at:brace], text + (b", " if found[2] is None else b"")]
        at = brace
    whole = b"".join((*pieces, content[at:]))
    with new_file(target, force=True) as file:
        file.write(gzip.compress(whole) if packed or target.name.endswith(".gz") else whole)
    return len(places), count


def _args(known: Known, name: str, module: str) -> dict[str, object]:
    origin = known.origin(name)
    found: dict[str, object] = {"module": module} if module else {}
    if origin is not None:
        more = {"debug_handles": origin.handles, "aten_ops": origin.aten_ops, "source": origin.lines,
                "nodes": origin.nodes}  # fmt: skip
        found |= {key: list(values) for key, values in more.items() if values}
    return found
