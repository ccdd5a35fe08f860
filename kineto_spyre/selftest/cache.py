"""What a selftest found, kept in the user's cache folder for the next sessions of the same library.

One file a library, named by its path's digest. It is used only for a library of the same path and size; whatever else
is wrong with it (another format, not JSON, not readable), it is as if it were not there. Nothing here raises.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from .._files import new_file
from . import Outcome
from .judge import variations

FORMAT = 1


def folder() -> pathlib.Path:
    """$XDG_CACHE_HOME/kineto-spyre, or ~/.cache/kineto-spyre."""
    # A relative path there is to be ignored, says the specification.
    named = os.environ.get("XDG_CACHE_HOME", "")
    root = pathlib.Path(named) if os.path.isabs(named) else pathlib.Path("~/.cache").expanduser()
    return root / "kineto-spyre"


def file_of(library: str) -> pathlib.Path:
    path = os.path.realpath(library)
    return folder() / f"selftest-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.json"


def keep(outcome: Outcome) -> str | None:
    """Keeps what sessions can use. A sentence if it can't be kept."""
    kept = {
        "format": FORMAT,
        "library": os.path.realpath(outcome.library),
        "bytes": os.stat(outcome.library).st_size,
        "variations": variations(outcome.findings),
        "final_flush": final_flush(outcome),
    }
    target = file_of(outcome.library)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_file(target, force=True) as file:
            file.write(json.dumps(kept).encode())
    except OSError as error:
        return (
            f"What was found can't be kept for the next sessions ({error.strerror}). Set XDG_CACHE_HOME to a folder "
            "that can be written, or pass --no-cache."
        )
    return None


def final_flush(outcome: Outcome) -> bool:
    """Whether a flush after disabling is any use: not where the library refuses it, or does not come back from it."""
    how = outcome.result.died.get("disable_first", {})
    hangs = how.get("how") == "hung" and how.get("call") == "aiuptiFlushAllActivities"
    return not hangs and "flush_when_disabled=fail" not in variations(outcome.findings)


def without_last_flush(libraries: Iterable[str]) -> list[str]:
    """The real paths of those libraries whose flush after disabling was found to fail or to hang."""
    tested = {os.path.realpath(library): known([library]) for library in libraries}
    return [path for path, kept in tested.items() if kept and not kept["final_flush"]]


def known(libraries: Iterable[str]) -> dict[str, Any]:
    """What was found of the first of these libraries that was tested; {} if none was, or if it has changed since."""
    for library in libraries:
        try:
            kept = json.loads(file_of(library).read_text())
            size = os.stat(library).st_size
        except (OSError, ValueError):
            continue
        if (
            isinstance(kept, dict)
            and (kept.get("format"), kept.get("library"), kept.get("bytes"))
            == (FORMAT, os.path.realpath(library), size)
            and isinstance(kept.get("variations"), list)
            and isinstance(kept.get("final_flush"), bool)
        ):
            return kept
    return {}
