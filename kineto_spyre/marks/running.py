"""What a marked program calls: notes of what ran between a begin and an end. Kept only while a profile records.

A note costs two readings of the host's clock and one append, and nothing is kept when nobody listens.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple


class Phase(NamedTuple):
    """A marked op within a kernel.

    Attributes:
        name: the chosen ops, such as "aten.mm".
        begin, end: the part of the kernel's time that it takes, each from 0 to 1.
        args: what else is known of it, for the trace.
    """

    name: str
    begin: float
    end: float
    args: dict[str, Any]


class Note(NamedTuple):
    """One execution of a marked piece of a program.

    Attributes:
        thread: the system's number of the thread that ran it.
        begin_ns, end_ns: on the host's clock, since the epoch. An accelerator's work was launched between the two.
        on_host: whether the phases ran between the two, too.
        phases: what it consists of, in order.
    """

    thread: int
    begin_ns: int
    end_ns: int
    on_host: bool
    phases: tuple[Phase, ...]


_notes: list[Note] = []
_listening = False


def listen(on: bool) -> list[Note]:
    """Begins anew, or ends; the notes that were kept so far."""
    global _listening, _notes
    kept, _notes = _notes, []
    _listening = on
    return kept


def listening() -> bool:
    """Whether notes are kept."""
    return _listening


def begin() -> int:
    """The time, if notes are kept; else 0."""
    return time.time_ns() if _listening else 0


def end(begin_ns: int, on_host: bool, phases: tuple[Phase, ...]) -> None:
    """Keeps a note, if notes were kept when it began."""
    if begin_ns and _listening:
        _notes.append(Note(threading.get_native_id(), begin_ns, time.time_ns(), on_host, phases))


def end_of(begin_ns: int, on_host: bool, name: str, args: dict[str, Any]) -> None:
    """`end` for what is one phase as a whole."""
    end(begin_ns, on_host, (Phase(name, 0.0, 1.0, args),))
