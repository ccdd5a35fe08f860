"""Reads each card's metrics file again and again, in a thread of its own.

In: paths, how often. Out: for each card its samples, in order, each once; how often it could not be read or came late.
The thread sleeps until the next time is due; a time that has passed already is missed, and counted. Nothing it does
raises into the program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from kineto_spyre.telemetry.metrics_file import MetricsError, MetricsFile, Sample

STALE_NS = 1_000_000_000  # a file whose time is older than this has no writer


@dataclass
class Card:
    """What was read of one card.

    Attributes:
        path: of its metrics file.
        samples: in order of time, each once.
        missed: times at which it should have been read and was not, because the sampler came late.
        failed: times at which it could not be read.
        stale: times at which the file held nothing new, and its time was older than a second.
        error: the last sentence of those that say why it could not be read.
    """

    path: str
    samples: list[Sample] = field(default_factory=list)
    missed: int = 0
    failed: int = 0
    stale: int = 0
    error: str | None = None


class Sampler:
    """Samples metrics files from start() to stop(), or within a `with` block.

    Args:
        paths: one for each card; a card's number is its place.
        hz: how often, 0.1 to 100 times a second. The files change about 100 times a second.

    Raises:
        ValueError: `hz` is out of that range.
    """

    def __init__(self, paths: Sequence[str], hz: float = 10) -> None:
        if not 0.1 <= hz <= 100:
            raise ValueError(f"hz={hz!r}: expected a number from 0.1 to 100")
        self.hz = hz
        self.cards = [Card(path) for path in paths]
        self.busy_ns = 0  # the thread's own time on a processor
        self._files = [MetricsFile(path) for path in paths]
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Takes a first sample at once, and begins."""
        self.read()
        self._stop.clear()
        self._thread = threading.Thread(target=self._loop, name="kineto-spyre-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends, and takes a last sample. Does nothing if it was not started."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self.read()
        for file in self._files:
            file.close()

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def read(self) -> None:
        """Reads each file once."""
        for card, file in zip(self.cards, self._files):
            try:
                sample = file.read()
            except MetricsError as error:
                card.failed += 1
                card.error = str(error)
                continue
            if card.samples and card.samples[-1].time_ns >= sample.time_ns:
                card.stale += time.time_ns() - sample.time_ns > STALE_NS
                continue
            card.samples.append(sample)

    def _loop(self) -> None:
        began = time.thread_time_ns()
        period = 1 / self.hz
        due = time.monotonic() + period
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self.read()
            due += period
            late = int((time.monotonic() - due) / period)
            if late > 0:
                due += late * period
                for card in self.cards:
                    card.missed += late
            self.busy_ns = time.thread_time_ns() - began
