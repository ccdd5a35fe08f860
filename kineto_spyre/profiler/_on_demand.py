"""Requests from outside (KINETO_USE_DAEMON): Kineto has our profiler before the program's first profile, if it has one.

Kineto takes such a request without PyTorch's profiler, which would hand it our factory. It must not have it before the
backend has its name: PyTorch's profiler would then offer an activity that it refuses. Nothing tells when a backend gets
its name, so a thread looks for it.
"""

from __future__ import annotations

import threading
import time

from .. import _notices
from ._extension import backend_name, extension

_OFTEN_S, _SELDOM_S = 0.05, 1.0
_OFTEN_FOR = 200  # looks; a backend that is imported with torch has its name by then


def reach_kineto_once_named() -> None:
    """Returns at once. The thread ends when the backend has its name, or with the program."""
    if backend_name() is not None:
        _reach_kineto()
        return
    threading.Thread(target=_wait, name="kineto_spyre backend name", daemon=True).start()


def _wait() -> None:
    looks = 0
    while backend_name() is None:
        time.sleep(_OFTEN_S if looks < _OFTEN_FOR else _SELDOM_S)
        looks += 1
    try:
        _reach_kineto()
    except Exception as error:
        _notices.warn(f"Requests of KINETO_USE_DAEMON give traces without Spyre: {error}")


def _reach_kineto() -> None:
    extension().read_settings()
    extension().reach_kineto()
