"""Dumps that something other than the program's own call asked for: a thread that writes them, and its limits.

A trigger puts a request into a queue and goes on; that takes no lock, so a signal handler may do it. The thread writes
one dump after the other. Of requests that come within `every` seconds of the last dump it counts how many there were.
"""

from __future__ import annotations

import faulthandler
import pathlib
import queue
import re
import tempfile
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .. import _notices
from .._notices import SpyreProfilerError

if TYPE_CHECKING:
    from ._recorder import Dump, Recorder

# The names that the recorder gives: a program's own file that begins alike is not among them.
OWN_NAME = re.compile(r"recording_\d+_\d{8}-\d{6}_[\w-]*(\.json|\.pftrace|\.stacks\.txt)")


class RateLimited(SpyreProfilerError):
    """The last dump is not long ago."""


@dataclass
class _Request:
    reason: str
    seconds: float | None
    stacks: str  # of all Python threads when it was asked for, or ""
    forced: bool
    at: float = field(default_factory=time.monotonic)
    future: Future[Dump] = field(default_factory=Future)


class Dumps:
    """The thread and its counts. Made by the recorder; the thread starts with the first request."""

    def __init__(self, recorder: Recorder, every: float, disk_mib: float) -> None:
        self.written = 0
        self.skipped = 0  # within `every` seconds of the last one
        self.failed = 0
        self.deleted = 0  # older files that made room
        self.last_error = ""
        self._recorder = recorder
        self._every = every
        self._disk_bytes = disk_mib * 2**20
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._last = float("-inf")  # when the last that was written was asked for
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kineto_spyre dumps", daemon=True)
        self._thread.start()

    def ask(
        self, reason: str, *, seconds: float | None = None, stacks: bool = False, forced: bool = False
    ) -> Future[Dump]:
        """Asks for a dump, and returns at once.

        Args:
            reason: goes into the metadata and the file's name.
            seconds: the last so many alone.
            stacks: writes the stacks of all Python threads, as they are now, beside the dump.
            forced: however recent the last one is.
        """
        request = _Request(reason, seconds, _stacks() if stacks else "", forced)
        if self._closed:
            request.future.set_exception(SpyreProfilerError("The flight recorder is not running."))
        else:
            self._requests.put(request)
        return request.future

    def close(self, timeout: float = 10.0) -> None:
        """Writes what was asked for, and ends the thread."""
        self._closed = True
        self._requests.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                request.future.set_result(self._write(request))
            except BaseException as error:
                request.future.set_exception(error)

    def _write(self, request: _Request) -> Dump:
        since = request.at - self._last
        if since < self._every and not request.forced:
            self.skipped += 1
            raise RateLimited(
                f"The last dump was {max(0.0, since):.0f} s ago, and there is one in {self._every:g} s at most. Wait, "
                "or start the recorder with a smaller `every`."
            )
        try:
            dump = self._recorder.dump(seconds=request.seconds, reason=request.reason)
            if request.stacks:
                beside = pathlib.Path(dump.path)
                beside.with_name(beside.stem + ".stacks.txt").write_text(request.stacks)
        except (SpyreProfilerError, OSError) as error:
            self.failed += 1
            if str(error) != self.last_error:  # a full disk is told once
                _notices.warn(f"A dump ({request.reason}) failed: {error}")
            self.last_error = str(error)
            raise
        self._last = request.at
        self.written += 1
        self._make_room(keep=pathlib.Path(dump.path).stem)
        return dump

    def _make_room(self, keep: str) -> None:
        """Deletes the oldest files until all are within the budget; the newest dump stays, however large."""
        files = []
        for path in self._recorder.folder.glob("recording_*"):
            if not OWN_NAME.fullmatch(path.name):
                continue
            try:
                status = path.stat()
            except OSError:
                continue  # another process deleted it
            files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._disk_bytes:
                return
            if path.name.startswith(keep):
                continue
            try:
                path.unlink()
            except OSError:
                continue
            total -= size
            self.deleted += 1


def _stacks() -> str:
    """Those of all Python threads, or why there are none: the program whose error this is goes on in any case."""
    try:
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file=file, all_threads=True)
            file.seek(0)
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"The stacks could not be written to a temporary file ({error}).\n"
