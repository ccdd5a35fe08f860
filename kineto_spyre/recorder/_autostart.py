"""KINETO_SPYRE_RECORD=<seconds>: the recorder starts by itself once the device is in use, with the triggers that
KINETO_SPYRE_RECORD_SIGNAL and KINETO_SPYRE_RECORD_PORT ask for.

Not before: a libaiupti that is open when the runtime starts makes each of its operations slow. Nothing tells when that
is, so a thread looks for it: the backend has its name, and its module says that it is initialized.
"""

from __future__ import annotations

import json
import os
import pathlib
import threading
import time
from typing import Any

from .. import _environment, _notices
from ..profiler._extension import backend_name

_OFTEN_S, _SELDOM_S = 0.02, 0.5
_OFTEN_FOR = 500  # looks

started: Any = None  # the Recorder, once it runs
_ask: Any = None  # its dumps' ask, which takes no lock: a signal handler calls it


def record_once_used(seconds: float) -> None:
    """Returns at once. The thread ends when the recorder runs or can't, or with the program."""
    if name := _environment.text("KINETO_SPYRE_RECORD_SIGNAL"):
        _handle(name)
    threading.Thread(target=_wait, args=(seconds,), name="kineto_spyre record", daemon=True).start()


def _handle(name: str) -> None:
    """Here and not when the recorder starts, because that is on another thread."""
    from .._notices import SpyreProfilerError
    from ._triggers import OnSignal

    number = _environment.signal_number(name)
    try:
        if number is None:
            raise SpyreProfilerError(f"{name!r} is no signal. Name one, such as USR2.")
        OnSignal(number, lambda reason: _ask(reason) if _ask is not None else None)
    except (SpyreProfilerError, OSError, ValueError) as error:
        _notices.warn(f"KINETO_SPYRE_RECORD_SIGNAL: {error}")


def _wait(seconds: float) -> None:
    global started, _ask
    looks = 0
    while not _is_in_use():
        time.sleep(_OFTEN_S if looks < _OFTEN_FOR else _SELDOM_S)
        looks += 1
    try:
        from ._recorder import record

        started = record(seconds, folder=_environment.text("KINETO_SPYRE_RECORD_FOLDER") or ".")
        _ask = started.dumps.ask
        if port := _environment.count("KINETO_SPYRE_RECORD_PORT", default=0):
            _tell(started.folder, started.serve(port))
    except Exception as error:
        _notices.warn(f"KINETO_SPYRE_RECORD: {error}")


def _tell(folder: pathlib.Path, server: Any) -> None:
    """Where the server listens, and its token, in a file that this user alone can read."""
    path = folder / f"recorder_{os.getpid()}.json"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": server.url, "token": server.token}, file)


def _is_in_use() -> bool:
    import torch

    name = backend_name()
    module = getattr(torch, name, None) if name is not None else None
    # A module without that question: then its first name is all that there is to see.
    return module is not None and bool(getattr(module, "is_initialized", lambda: True)())
