"""`record`, the recorder that it starts, and its dumps."""

from __future__ import annotations

import atexit
import json
import math
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, get_args

from .. import _notices, diagnostics
from .._notices import SpyreProfilerError
from ..diagnostics import Diagnostic
from ..profiler import enable, is_available
from ..profiler._extension import extension
from ._dumps import Dumps
from ._server import Server
from ._triggers import OnSignal, SlowSteps, Watch, Watchdog

Format = Literal["json", "perfetto"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "perfetto": ".pftrace"}
LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0
LEAST_MIB = 4.0
EVERY_S, DISK_MIB, SLOW = 60.0, 1024.0, 3.0
_NOT_IN_CHILD = (
    "The flight recorder runs in the parent process; a forked child has none. Call kineto_spyre.record() in a process "
    "that was spawned."
)


@dataclass(frozen=True)
class Dump:
    """What a dump wrote.

    Attributes:
        path: the file; it has its name only when it is whole.
        slices: slices of ops, ranges, calls and device work.
        arrows: arrows from launches to their work.
        kernels: how many of the slices are kernels.
        bytes: the file's size.
        seconds: how much time it covers: less than was asked for where the recorder began later or its memory was full.
        complete: whether nothing of that time is missing, as far as is known.
        diagnostics: what went wrong, and what a reader must know.
    """

    path: str
    slices: int
    arrows: int
    kernels: int
    bytes: int
    seconds: float
    complete: bool
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Status:
    """What the recorder keeps right now.

    Attributes:
        running: whether it records.
        seconds: since when everything is there, as seconds before now.
        kept_bytes: memory that holds it.
        recycled_early: buffers that made room before their time, because memory was full. Raise `memory_mib`.
        records_dropped: records that were never recorded, because they came faster than buffers were taken.
        op_events_dropped: begins and ends of ops for which there was no room.
        dumps: dumps that triggers asked for, and that were written.
        dumps_skipped: those that came too soon after another one.
        dumps_failed: those that could not be written.
        files_deleted: older files that made room for them.
    """

    running: bool
    seconds: float = 0.0
    kept_bytes: int = 0
    recycled_early: int = 0
    records_dropped: int = 0
    op_events_dropped: int = 0
    dumps: int = 0
    dumps_skipped: int = 0
    dumps_failed: int = 0
    files_deleted: int = 0


_running: Recorder | None = None  # the last that was started


def running() -> Recorder | None:
    """The recorder of this process, if one runs."""
    recorder = _running
    return recorder if recorder is not None and recorder._process == os.getpid() and recorder.status().running else None


class Recorder:
    """The flight recorder that runs. `record` makes it; a context manager that stops it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        format: Format,
        *,
        every: float = EVERY_S,
        disk_mib: float = DISK_MIB,
        slow: float = SLOW,
    ) -> None:
        self.folder = pathlib.Path(folder)
        self.format: Format = format
        self._process = os.getpid()
        self._limits = (every, disk_mib, slow)
        self._lock = threading.Lock()  # guards the next two
        self._made: tuple[Dumps, SlowSteps] | None = None
        self._closers: list[Callable[[], None]] = []
        self._watchdogs: list[Watchdog] = []
        self._last_step: float | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def dump(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        seconds: float | None = None,
        since_ns: int | None = None,
        reason: str = "call",
    ) -> Dump:
        """Writes what is kept. The program goes on meanwhile.

        Args:
            path: the file; by its name Perfetto's format (.pftrace) or JSON. None: a new one in the recorder's folder.
            seconds: the last so many seconds alone; None: all that is kept.
            since_ns: nothing before this time (time.time_ns()).
            reason: goes into the file's metadata, and into the name of a new file.

        Raises:
            ValueError: seconds is not positive.
            SpyreProfilerError: the recorder does not run in this process, or the file can't be written (a full disk,
                for example). Nothing is left under the file's name then, unless it was there before.
        """
        if seconds is not None and not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}; expected a positive number, or None for all that is kept.")
        if os.getpid() != self._process:
            raise SpyreProfilerError(_NOT_IN_CHILD)
        target = self._new_path(reason) if path is None else pathlib.Path(path)
        perfetto = self.format == "perfetto" if path is None else target.suffix in (".pftrace", ".perfetto-trace")
        told = json.loads(extension().recorder_dump(str(target), perfetto, seconds or 0.0, since_ns or 0, reason))
        if "error" in told:
            raise SpyreProfilerError(f"The recording was not written: {told['error']}")
        return Dump(
            path=str(target),
            slices=told["slices"],
            arrows=told["arrows"],
            kernels=told["kernels"],
            bytes=told["bytes"],
            seconds=(told["end_ns"] - told["begin_ns"]) / 1e9,
            complete=told["complete"],
            diagnostics=tuple(diagnostics.parse(told["diagnostics"])),
        )

    def status(self) -> Status:
        """What is kept right now."""
        told: dict[str, Any] = json.loads(extension().recorder_status_json())
        if not told["running"]:
            return Status(running=False)
        dumps = self._made[0] if self._made is not None else None
        return Status(
            running=True,
            seconds=max(0.0, time.time() - told["whole_from_ns"] / 1e9),
            kept_bytes=told["kept_bytes"],
            recycled_early=told["recycled_early"],
            records_dropped=told["records_dropped"],
            op_events_dropped=told["op_events_dropped"],
            dumps=dumps.written if dumps else 0,
            dumps_skipped=dumps.skipped if dumps else 0,
            dumps_failed=dumps.failed if dumps else 0,
            files_deleted=dumps.deleted if dumps else 0,
        )

    def stop(self) -> None:
        """Writes the dumps that were asked for, stops recording and frees what was kept, and ends all triggers. Nothing
        happens a second time, or in a forked child."""
        if os.getpid() != self._process:
            return
        with self._lock:
            closers, self._closers = self._closers, []
        for close in reversed(closers):
            close()
        if _running is self or _running is None:
            extension().recorder_stop()

    # What asks for dumps. They are written by a thread of their own; the program goes on.

    @property
    def dumps(self) -> Dumps:
        """The thread that writes what triggers ask for: its `ask()` is a trigger of your own."""
        return self._triggers()[0]

    def watch(self, name: str = "step") -> AbstractContextManager[object]:
        """A block that is watched: `with recorder.watch("request"):`. It asks for a dump when an exception leaves it
        (with all Python stacks beside the dump), or when it took `slow` times longer than the median of the last 64 of
        that name; the first 8 are never slow. In a forked child it does nothing."""
        if os.getpid() != self._process:
            return nullcontext()
        dumps, slow = self._triggers()
        return Watch(name, dumps, slow, self.alive)

    def step(self, name: str = "step") -> None:
        """Says that a step ended: one that took `slow` times longer than the median asks for a dump. In a forked child
        it does nothing."""
        if os.getpid() != self._process:
            return
        now = time.monotonic()
        before, self._last_step = self._last_step, now
        self.alive()
        if before is not None:
            self._triggers()[1].add(name, now - before)

    def on_signal(self, number: int = signal.SIGUSR2) -> None:
        """From now on a signal asks for a dump. What handled it before runs as well. Call it on the main thread.

        Raises:
            SpyreProfilerError: this is another thread.
        """
        self._at_stop(OnSignal(number, self.dumps.ask).close)

    def serve(self, port: int = 0, token: str | None = None) -> Server:
        """Answers on 127.0.0.1 whoever has the token: `POST /dump?reason=slow&seconds=10`, `GET /status`, with the
        header `Authorization: Bearer <token>`.

        Args:
            port: 0 for any that is free; the server's `url` has it.
            token: None for a random one; the server's `token` has it.

        Raises:
            SpyreProfilerError: the port can't be listened on.
        """
        server = Server(self, port, token)
        self._at_stop(server.close)
        return server

    def watchdog(self, seconds: float) -> Watchdog:
        """Asks for a dump, with all Python stacks beside it, when there was no progress for so many seconds: no end of
        a watched block, no step(), no alive()."""
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}; expected a positive number.")
        watchdog = Watchdog(seconds, self.dumps)
        self._watchdogs.append(watchdog)
        self._at_stop(watchdog.close)
        return watchdog

    def alive(self) -> None:
        """Tells the watchdogs that there was progress."""
        for watchdog in self._watchdogs:
            watchdog.alive()

    def _triggers(self) -> tuple[Dumps, SlowSteps]:
        if os.getpid() != self._process:
            raise SpyreProfilerError(_NOT_IN_CHILD)
        with self._lock:
            if self._made is None:
                every, disk_mib, slow = self._limits
                dumps = Dumps(self, every, disk_mib)
                self._made = (dumps, SlowSteps(dumps, slow))
                self._closers.append(dumps.close)
            return self._made

    def _at_stop(self, close: Callable[[], None]) -> None:
        with self._lock:
            self._closers.append(close)

    def _new_path(self, reason: str) -> pathlib.Path:
        """A name that no file has yet."""
        word = "".join(c if c.isalnum() else "-" for c in reason)[:40]
        stem = f"recording_{os.getpid()}_{time.strftime('%Y%m%d-%H%M%S')}_{word}"
        number = 0
        while True:
            path = self.folder / f"{stem}{f'_{number}' if number else ''}{SUFFIXES[self.format]}"
            if not path.exists():
                return path
            number += 1


def record(
    seconds: float = 30.0,
    *,
    memory_mib: float = 64.0,
    folder: str | os.PathLike[str] = ".",
    format: Format = "json",
    every: float = EVERY_S,
    disk_mib: float = DISK_MIB,
    slow: float = SLOW,
) -> Recorder:
    """Starts the flight recorder: from now on the last seconds can be written to a file at any time.

    Call it once the device is in use: it opens libaiupti, which slows a runtime down that starts after it. Inputs'
    shapes and Python's stacks are not recorded.

    Args:
        seconds: how long everything is kept, if memory has room for it; 1 to 3600.
        memory_mib: the memory that it takes, in MiB: four fifths for the device's records, the rest for ops.
        folder: where dumps go that are given no path.
        format: their format: "json" as torch.profiler writes it, or "perfetto", which is a small part of the size.
        every: triggers cause at most one dump in so many seconds; a call of dump() is never refused.
        disk_mib: what dumps in the folder may take, in MiB; when triggers write more, the oldest are deleted.
        slow: a watched step that takes so many times the median asks for a dump.

    Raises:
        ValueError: an argument can't be used.
        SpyreProfilerError: no Spyre would be recorded, or a recorder runs already. The text says what to do.
    """
    if not (math.isfinite(seconds) and LEAST_SECONDS <= seconds <= MOST_SECONDS):
        raise ValueError(f"seconds is {seconds!r}; expected {LEAST_SECONDS:g} to {MOST_SECONDS:g}.")
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    if not (math.isfinite(memory_mib) and LEAST_MIB <= memory_mib <= most):
        raise ValueError(f"memory_mib is {memory_mib!r}; expected {LEAST_MIB:g} to this machine's {most:.0f}.")
    if format not in FORMATS:
        raise ValueError(f"The format is {format!r}; expected one of {', '.join(map(repr, FORMATS))}.")
    for name, value, least in (("every", every, 0.0), ("disk_mib", disk_mib, 1.0), ("slow", slow, 1.0)):
        if not value >= least:
            raise ValueError(f"{name} is {value!r}; expected {least:g} or more.")
    if not os.path.isdir(folder):
        raise ValueError(f"The folder {os.fspath(folder)!r} does not exist. Make it first.")
    if not is_available():
        enable()
    native = extension()
    if json.loads(native.recorder_status_json())["running"]:
        raise SpyreProfilerError("The flight recorder runs already. Call stop() of the recorder that runs first.")
    found = diagnostics.parse(json.loads(native.recorder_start(float(seconds), float(memory_mib))))
    if not json.loads(native.recorder_status_json())["running"]:
        raise SpyreProfilerError(f"The flight recorder did not start: {' '.join(one.sentence for one in found)}")
    for diagnostic in found:
        if diagnostic.severity != "note":
            _notices.warn(diagnostic.sentence)
    global _running
    _running = recorder = Recorder(folder, format, every=every, disk_mib=disk_mib, slow=slow)
    atexit.register(recorder.stop)  # libaiupti delivers what it holds before it ends
    return recorder
