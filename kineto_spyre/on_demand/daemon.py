"""Stands in for Kineto's daemon while a request takes: gives it to the processes that were chosen, once each.

A process asks every few seconds and waits some 90 ms for the answer; one that comes later is read the next time. So the
daemon answers until each trace is there: a configuration that were left in a socket would begin a profile that nobody
waits for.
"""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import TracebackType

from .. import _notices
from . import processes, protocol
from .processes import Listener

_CREDENTIALS = struct.Struct("@iII")  # process, user, group of who sent a datagram, by the kernel
_TICK_S = 0.1


@dataclass(frozen=True)
class Answered:
    """What became of the request at one process."""

    pid: int
    trace: pathlib.Path | None  # the file that Kineto wrote; None: there is none
    trouble: str | None  # why there is none, in a sentence
    may_come: bool = False  # it took the request and lives: it may still write the trace


class Daemon:
    """Binds the daemon's address. A context manager.

    Args:
        folder: KINETO_IPC_SOCKET_DIR of the processes that shall be answered; None: the abstract address.

    Raises:
        SpyreProfilerError: the address is taken, or can't be bound.
    """

    def __init__(self, folder: str | None) -> None:
        self.malformed = 0  # datagrams that were no message
        self.strangers = 0  # messages of other users' processes; they get no answer
        self._path = protocol.address(protocol.DAEMON, folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._bind(folder)
        except OSError as error:
            self._socket.close()
            if error.errno != errno.EADDRINUSE:
                raise _notices.SpyreProfilerError(
                    f"The address of Kineto's daemon can't be used ({error.strerror or error}). Check "
                    f"{protocol.SOCKET_FOLDER} and the permissions of its folder."
                ) from error
            raise _notices.SpyreProfilerError(_taken(folder)) from error

    def _bind(self, folder: str | None) -> None:
        try:
            self._socket.bind(self._path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or folder is None or not _is_stale(self._path):
                raise
            os.unlink(self._path)
            self._socket.bind(self._path)
        if folder is not None:
            os.chmod(self._path, 0o600)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        if not self._path.startswith("\0"):
            pathlib.Path(self._path).unlink(missing_ok=True)

    def trigger(
        self,
        chosen: Iterable[Listener],
        configuration: str,
        trace_of: Callable[[int], pathlib.Path],
        to_ask_s: float,
        to_write_s: float,
    ) -> list[Answered]:
        """Gives the configuration to each of the processes, and waits for its trace.

        Args:
            chosen: the processes.
            configuration: the text that each gets, once.
            trace_of: the file that a process will write.
            to_ask_s: how long a process may take until it asks, in seconds.
            to_write_s: how long it may take from then until its trace is there, in seconds.

        Returns:
            One for each of the processes, in their order.
        """
        order = [listener.pid for listener in chosen]
        deadline = {pid: time.monotonic() + to_ask_s for pid in order}
        waiting, writing = set(order), set[int]()
        done: dict[int, Answered] = {}
        while waiting or writing:
            for pid in self._serve(waiting, configuration):
                waiting.discard(pid)
                writing.add(pid)
                deadline[pid] = time.monotonic() + to_write_s
            for pid in list(waiting | writing):
                if (end := self._end_of(pid, pid in writing, trace_of(pid), deadline[pid])) is not None:
                    done[pid] = end
                    waiting.discard(pid)
                    writing.discard(pid)
        return [done[pid] for pid in order]

    @staticmethod
    def _end_of(pid: int, asked: bool, trace: pathlib.Path, deadline: float) -> Answered | None:
        if asked and trace.is_file():  # Kineto gives the file its name when it is whole
            return Answered(pid, trace, None)
        if not processes.is_alive(pid):
            return Answered(pid, None, f"Process {pid} ended before its trace was written.")
        if time.monotonic() < deadline:
            return None
        if asked:
            return Answered(
                pid,
                None,
                f"Process {pid} took the request, but no trace came. With --iterations it must run that many steps; "
                "otherwise start it with KINETO_LOG_LEVEL=1 to see what Kineto says.",
                may_come=True,
            )
        return Answered(
            pid,
            None,
            f"Process {pid} did not ask for work. It may be stopped, busy with another profile, or a forked child, "
            "which never asks. If it was only slow, raise --timeout.",
        )

    def _serve(self, waiting: Collection[int], configuration: str) -> list[int]:
        """Answers what comes within a tick; returns the processes that got the configuration."""
        served: list[int] = []
        end = time.monotonic() + _TICK_S
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram, ancillary, _, sender = self._socket.recvmsg(1 << 16, socket.CMSG_SPACE(_CREDENTIALS.size))
            except TimeoutError:
                break
            pid, user = _who(ancillary)
            if user != os.geteuid():
                self.strangers += 1
                continue
            try:
                message = protocol.unpack(datagram)
            except protocol.Malformed:
                self.malformed += 1
                continue
            wanted = isinstance(message, protocol.Ask) and message.idle and pid in waiting and pid not in served
            try:
                self._socket.sendto(protocol.answer_to(message, configuration if wanted else ""), sender)
            except OSError:  # it went away, or takes no more
                continue
            if wanted:
                served.append(pid)
        return served


def _who(ancillary: Iterable[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Process and user of who sent a datagram; -1 if the kernel did not tell."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid, user, _ = _CREDENTIALS.unpack_from(data)
            return pid, user
    return -1, -1


def _is_stale(path: str) -> bool:
    """Whether nobody has bound the socket file any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def _taken(folder: str | None) -> str:
    holder = processes.holder_of(protocol.DAEMON, folder)
    if holder is None:
        return (
            "Kineto's daemon runs on this machine already, as another user's process. Use its own command: "
            "dyno gputrace --pids PID --log-file FILE."
        )
    name = processes.name_of(holder)
    if "dynolog" in name:
        return (
            f"Kineto's daemon {name} runs on this machine already (process {holder}). Use its own command: "
            "dyno gputrace --pids PID --log-file FILE."
        )
    return (
        f"Process {holder} ({name}) answers Kineto on this machine already, perhaps another `kineto-spyre trigger`. "
        "Wait until it ends."
    )
