"""`record`, the recorder that it starts, and its dumps."""

from __future__ import annotations

import atexit
import json
import math
import os
import pathlib
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, get_args

from .. import _notices, diagnostics
from .._notices import SpyreProfilerError
from ..diagnostics import Diagnostic
from ..profiler import enable, is_available
from ..profiler._extension import extension

Format = Literal["json", "perfetto"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES = {"json": ".json", "perfetto": ".pftrace"}
LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0
LEAST_MIB = 4.0


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
    """

    running: bool
    seconds: float = 0.0
    kept_bytes: int = 0
    recycled_early: int = 0
    records_dropped: int = 0
    op_events_dropped: int = 0


_running: Recorder | None = None  # the last that was started


def running() -> Recorder | None:
    """The recorder of this process, if one runs."""
    recorder = _running
    return recorder if recorder is not None and recorder._process == os.getpid() and recorder.status().running else None


class Recorder:
    """The flight recorder that runs. `record` makes it; a context manager that stops it."""

    def __init__(self, folder: str | os.PathLike[str], format: Format) -> None:
        self.folder = pathlib.Path(folder)
        self.format: Format = format
        self._process = os.getpid()

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
            raise SpyreProfilerError(
                "The flight recorder runs in the parent process; a forked child has none. Call kineto_spyre.record() "
                "in a process that was spawned."
            )
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
        return Status(
            running=True,
            seconds=max(0.0, time.time() - told["whole_from_ns"] / 1e9),
            kept_bytes=told["kept_bytes"],
            recycled_early=told["recycled_early"],
            records_dropped=told["records_dropped"],
            op_events_dropped=told["op_events_dropped"],
        )

    def stop(self) -> None:
        """Stops recording and frees what was kept. Nothing happens a second time, or in a forked child."""
        if os.getpid() == self._process:
            extension().recorder_stop()

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
) -> Recorder:
    """Starts the flight recorder: from now on the last seconds can be written to a file at any time.

    Call it once the device is in use: it opens libaiupti, which slows a runtime down that starts after it. Inputs'
    shapes and Python's stacks are not recorded.

    Args:
        seconds: how long everything is kept, if memory has room for it; 1 to 3600.
        memory_mib: the memory that it takes, in MiB: four fifths for the device's records, the rest for ops.
        folder: where dumps go that are given no path.
        format: their format: "json" as torch.profiler writes it, or "perfetto", which is a small part of the size.

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
    _running = recorder = Recorder(folder, format)
    atexit.register(recorder.stop)  # libaiupti delivers what it holds before it ends
    return recorder
