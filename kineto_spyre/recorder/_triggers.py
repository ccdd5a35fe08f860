"""What asks for a dump: a slow step, an exception that leaves a watched block, a signal, a watchdog."""

from __future__ import annotations

import collections
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from .._notices import SpyreProfilerError

if TYPE_CHECKING:
    from ._dumps import Dumps

_REMEMBERED = 64  # times of steps, for the median
_LEAST = 8  # as many are needed to judge one


def reason_of(error: BaseException) -> str:
    """A word for what happened: "out-of-memory", "device-lost", or the exception's type."""
    text = str(error).lower()
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError) or "out of memory" in text:
        return "out-of-memory"
    if "device" in text and "lost" in text:
        return "device-lost"
    return type(error).__name__


class SlowSteps:
    """Judges the time of a step by the median of those before it. Any thread."""

    def __init__(self, dumps: Dumps, times: float) -> None:
        self._dumps = dumps
        self._times = times
        self._lock = threading.Lock()  # guards the rest
        self._seconds: dict[str, collections.deque[float]] = {}

    def add(self, name: str, seconds: float) -> bool:
        """Returns whether it was slow; then a dump was asked for."""
        with self._lock:
            before = self._seconds.setdefault(name, collections.deque(maxlen=_REMEMBERED))
            slow = len(before) >= _LEAST and seconds > self._times * statistics.median(before)
            before.append(seconds)
        if slow:
            self._dumps.ask(f"slow-{name}")
        return slow


class Watch:
    """A watched block: `with recorder.watch():`. An exception that leaves it, or a slow end, asks for a dump."""

    def __init__(self, name: str, dumps: Dumps, slow: SlowSteps, alive: Any) -> None:
        self._name = name
        self._dumps = dumps
        self._slow = slow
        self._alive = alive
        self._begin = 0.0

    def __enter__(self) -> Watch:
        self._begin = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._alive()
        if error is not None:
            if not isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
                self._dumps.ask(reason_of(error), stacks=True)
            return
        self._slow.add(self._name, time.monotonic() - self._begin)


class OnSignal:
    """A signal asks for a dump; what handled it before runs as well."""

    def __init__(self, number: int, ask: Callable[[str], object]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise SpyreProfilerError("A signal can be handled by the main thread alone. Call on_signal() there.")
        self._number = number
        self._ask = ask
        self._process = os.getpid()
        self._before = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self._ask(signal.Signals(number).name)
        if callable(self._before):
            self._before(number, frame)

    def close(self) -> None:
        """Puts back what was there before, if the handler is still ours."""
        before = signal.SIG_DFL if self._before is None else self._before  # None: a handler that Python did not set
        if threading.current_thread() is threading.main_thread() and signal.getsignal(self._number) == self._handle:
            signal.signal(self._number, before)


class Watchdog:
    """Asks for a dump, with all Python stacks, when nothing said alive() for so long. Once for each time it stops."""

    def __init__(self, seconds: float, dumps: Dumps) -> None:
        self._seconds = seconds
        self._dumps = dumps
        self._last = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._run, name="kineto_spyre watchdog", daemon=True).start()

    def alive(self) -> None:
        """Says that there was progress."""
        self._last = time.monotonic()

    def close(self) -> None:
        """Ends it."""
        self._over.set()

    def _run(self) -> None:
        told = float("-inf")
        while not self._over.wait(min(1.0, self._seconds / 4)):
            last = self._last
            if last != told and time.monotonic() - last > self._seconds:
                told = last
                self._dumps.ask("no-progress", stacks=True)
