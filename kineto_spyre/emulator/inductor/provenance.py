"""spyre_provenance.json of the emulated Spyre: from each compiled kernel's key to ops, modules and source lines.

In: what each compiled program says of its kernels when it is loaded, from a compile cache too. Out: the file, in the
form that torch-spyre writes and kineto_spyre.provenance reads (schemaVersion 1), with `module` added to each handle. It
is written where TORCH_SPYRE_PROVENANCE_PATH says, as for a real Spyre, once when the process ends; `write` does it at
once. Errors: `write` raises OSError; at the end of the process, that becomes a warning.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import threading
from typing import Any

from ... import _notices
from ..._files import new_file

VARIABLE = "TORCH_SPYRE_PROVENANCE_PATH"
_KEY = re.compile(r"_([a-z2-7]{16})#\d+$")
_lock = threading.Lock()
_handles: dict[str, dict[str, Any]] = {}  # by id
_identities: dict[str, dict[str, Any]] = {}  # by provenance key
_occurrences: dict[str, dict[str, Any]] = {}
_projections: dict[str, dict[str, Any]] = {}  # by compile id
_ids: dict[str, str] = {}  # of a handle, by its text


def add(name: str, label: str, origins: list[dict[str, Any]]) -> None:
    """Takes note of a kernel.

    Args:
        name: in a trace.
        label: in the generated program.
        origins: see `identity.origins_of`.
    """
    found = _KEY.search(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of a compiled kernel, because it has no provenance key")
    key = found[1]
    with _lock:
        if not _identities and os.environ.get(VARIABLE, ""):
            atexit.register(_write_at_exit)
        handles = [_handle(one) for one in origins]
        identity = _identities.setdefault(
            key,
            {"directHandleIds": [], "specHandleBindings": [], "eventNameBase": name.rsplit("#", 1)[0], "atenOps": []},
        )
        identity["directHandleIds"] = list(dict.fromkeys([*identity["directHandleIds"], *handles]))
        identity["atenOps"] = sorted({*identity["atenOps"], *(one["op"] for one in origins if one["op"])})
        program = hashlib.sha256(json.dumps([label, origins], sort_keys=True).encode()).hexdigest()
        _occurrences[hashlib.sha256(f"{key} {program}".encode()).hexdigest()] = {
            "identityKey": key, "compileId": program, "compilerKernelName": label,
            "registrations": [{"ordinal": 0, "alias": f"{label}:0"}],
        }  # fmt: skip
        _projections[program] = {
            "cppCodeToPost": {f"{label}:0": [one["node"] for one in origins]},
            "postToPre": {one["node"]: one["before"] for one in origins if one["before"]},
        }


def _handle(origin: dict[str, Any]) -> str:
    text = json.dumps(origin, sort_keys=True)
    if text not in _ids:
        number = _ids[text] = str(len(_ids))
        source = {"file": origin["file"], "start_line": origin["line"]} if origin["file"] else None
        _handles[number] = {"id": int(number), "source": source, "aten_op": origin["op"] or None, "fused_from": [],
                            "module": origin["module"]}  # fmt: skip
    return _ids[text]


def document() -> dict[str, Any]:
    """What is known of the kernels that this process compiled or loaded, as the file has it."""
    with _lock:
        return {
            "schemaVersion": 1, "status": "complete", "diagnostics": {},
            "eventKey": {"version": 1, "algorithm": "sha256-prefix-80-base32-lower", "width": 16,
                         "stepAttribution": "bundle"},
            "handles": json.loads(json.dumps(_handles)), "kernelIdentities": json.loads(json.dumps(_identities)),
            "kernelOccurrences": dict(_occurrences), "upstreamProjections": dict(_projections),
        }  # fmt: skip


def write(path: str | os.PathLike[str]) -> None:
    """Writes the file, in the place of an older one at once.

    Raises:
        OSError: it can't be written.
    """
    with new_file(path, force=True) as file:
        file.write(json.dumps(document(), indent=1).encode())


def _write_at_exit() -> None:
    path = os.environ.get(VARIABLE, "")
    try:
        write(path)
    except OSError as error:
        _notices.warn(
            f"{VARIABLE}={path}: the provenance of the compiled kernels can't be written there "
            f"({error.strerror or error}). Set it to a file in a folder that can be written."
        )
