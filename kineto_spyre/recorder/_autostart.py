"""KINETO_SPYRE_RECORD=<seconds>: the recorder starts by itself once the device is in use.

Not before: a libaiupti that is open when the runtime starts makes each of its operations slow. Nothing tells when that
is, so a thread looks for it: the backend has its name, and its module says that it is initialized.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from .. import _notices
from ..profiler._extension import backend_name

_OFTEN_S, _SELDOM_S = 0.02, 0.5
_OFTEN_FOR = 500  # looks

started: Any = None  # the Recorder, once it runs


def record_once_used(seconds: float) -> None:
    """Returns at once. The thread ends when the recorder runs or can't, or with the program."""
    threading.Thread(target=_wait, args=(seconds,), name="kineto_spyre record", daemon=True).start()


def _wait(seconds: float) -> None:
    global started
    looks = 0
    while not _is_in_use():
        time.sleep(_OFTEN_S if looks < _OFTEN_FOR else _SELDOM_S)
        looks += 1
    try:
        from ._recorder import record

        started = record(seconds)
    except Exception as error:
        _notices.warn(f"KINETO_SPYRE_RECORD: {error}")


def _is_in_use() -> bool:
    import torch

    name = backend_name()
    module = getattr(torch, name, None) if name is not None else None
    # A module without that question: then its first name is all that there is to see.
    return module is not None and bool(getattr(module, "is_initialized", lambda: True)())
