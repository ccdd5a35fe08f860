"""Work on the device under test, through PyTorch: so it is the same on a card as on an emulated one.

Everything runs on two threads of its own, never on the main one, whose thread id is the process's: a record that names
a thread must be told from one that names the process. Each piece of work is remembered with the thread that did it, the
host's time before and after (the device was waited for), and how many bytes it moved.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Sizes that nothing else has, so that a record's field can be known by its value.
COPY_IN_BYTES = 2 * 13_184
COPY_OUT_BYTES = 2 * 13_312
SET_BYTES = 2 * 13_440
ALLOCATION_BYTES = 26 << 20  # whole, however an allocator rounds


@dataclass(frozen=True)
class Piece:
    """One piece of work: what, who did it, when (ns since the epoch), how many times."""

    what: str
    thread: int
    begin: int
    end: int
    count: int
    error: str = ""  # the type of what it raised; the message may hold names


class _Worker:
    """A thread that runs what it is handed, and tells its thread id."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()
        self.thread: int = self.call(threading.get_native_id)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, answer = job
            try:
                answer.put((function(), None))
            except BaseException as error:
                answer.put((None, error))

    def submit(self, function: Callable[[], Any]) -> queue.SimpleQueue[Any]:
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._jobs.put((function, answer))
        return answer

    def call(self, function: Callable[[], Any]) -> Any:
        result, error = self.submit(function).get()
        if error is not None:
            raise error
        return result


class Work:
    """The first card, two threads, and tensors to work on. Raises what PyTorch raises if it has no such device."""

    def __init__(self, backend: str) -> None:
        import torch

        self._torch = torch
        self._module = getattr(torch, backend)
        self.device = torch.device(backend, 0)
        self.pieces: list[Piece] = []
        self.workers = (_Worker(), _Worker())
        self._host_in = torch.ones(COPY_IN_BYTES // 2, dtype=torch.float16)
        self.workers[0].call(self._prepare)

    def _prepare(self) -> None:
        torch = self._torch
        self._a = torch.ones(64, 64, dtype=torch.float16).to(self.device)
        self._out = self._a * 2
        self._outs = (self._a * 2, self._a * 2)
        self._for_copy = torch.ones(COPY_OUT_BYTES // 2, dtype=torch.float16).to(self.device)
        self._for_set = torch.ones(SET_BYTES // 2, dtype=torch.float16).to(self.device)
        self.synchronize()

    def synchronize(self) -> None:
        self._module.synchronize()

    # One of each, on the calling thread.

    def launch(self, worker: int = 0) -> None:
        self._torch.mul(self._a, 2, out=self._outs[worker])

    def copy_in(self) -> torch.Tensor:
        return self._host_in.to(self.device)

    def copy_out(self) -> torch.Tensor:
        copied: torch.Tensor = self._for_copy.cpu()
        return copied

    def fill(self) -> None:
        self._for_set.zero_()

    def allocate(self) -> None:
        for _ in range(2):  # what a caching allocator has kept, it hands out again without a call
            tensor = self._torch.empty(ALLOCATION_BYTES // 2, dtype=self._torch.float16, device=self.device)
            del tensor
            empty_cache = getattr(self._module, "empty_cache", None)
            if empty_cache is not None:
                empty_cache()

    def do(self, what: str, count: int = 1, worker: int = 0) -> Piece:
        """`count` times the method of that name on a worker's thread; the device is waited for at both ends."""
        method = getattr(self, what)

        def run() -> Piece:
            begin, error = time.time_ns(), ""
            try:
                self.synchronize()
                for _ in range(count):
                    method(worker) if what == "launch" else method()
                self.synchronize()
            except Exception as problem:  # a backend lacks the op: the rest goes on without it
                error = type(problem).__name__
            return Piece(what, self.workers[worker].thread, begin, time.time_ns(), count, error)

        piece: Piece = self.workers[worker].call(run)
        self.pieces.append(piece)
        return piece

    def both(self, count: int) -> None:
        """`count` launches on each of the two threads at the same time."""
        answers = []
        for index, worker in enumerate(self.workers):

            def run(index: int = index) -> None:
                for _ in range(count):
                    self.launch(index)

            answers.append(worker.submit(run))
        for answer in answers:
            _, error = answer.get()
            if error is not None:
                raise error
        self.workers[0].call(self.synchronize)

    def ns_a_launch(self, count: int) -> float:
        """What one launch costs its thread, in ns: the median of five rounds; the device is waited for between them."""

        def run() -> list[float]:
            rounds = []
            for _ in range(5):
                self.synchronize()
                begin = time.perf_counter_ns()
                for _ in range(count):
                    self.launch()
                rounds.append((time.perf_counter_ns() - begin) / count)
            self.synchronize()
            return sorted(rounds)

        rounds: list[float] = self.workers[0].call(run)
        return rounds[len(rounds) // 2]

    def taken(self) -> list[dict[str, Any]]:
        """The pieces so far, as plain values; they are forgotten here."""
        pieces, self.pieces = self.pieces, []
        return [asdict(piece) for piece in pieces]
