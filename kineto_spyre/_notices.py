"""What users are told: one exception type, one warning category, and a way to warn that never breaks a program."""

from __future__ import annotations

import pathlib
import sys
import warnings

_PACKAGE = str(pathlib.Path(__file__).parent)


class SpyreProfilerError(RuntimeError):
    """What the caller asked for can't be done; the text says why, and what to do."""


class SpyreProfilerWarning(UserWarning):
    """Something that a user of the profiler must know. The profiled program goes on."""


def _stacklevel() -> int:
    """How far up the caller's own line is: above this package, above torch, above the import of either."""
    torch = sys.modules.get("torch")
    inside = [_PACKAGE, "<frozen importlib"]
    if torch is not None and torch.__file__ is not None:
        inside.append(str(pathlib.Path(torch.__file__).parent))
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and (name := frame.f_code.co_filename).startswith(tuple(inside)):
        frame = frame.f_back
        level += not name.startswith("<frozen")  # warnings.warn doesn't count those
    return level


def warn(sentence: str) -> None:
    """One Python warning. It never raises: a filter that makes errors of warnings gets it on stderr instead.

    The C++ side calls this from the middle of a profile, where an exception would break the program that is profiled.
    """
    try:
        warnings.warn(sentence, SpyreProfilerWarning, stacklevel=_stacklevel())
    except Exception:
        if sys.stderr is not None:
            sys.stderr.write(f"SpyreProfilerWarning: {sentence}\n")
