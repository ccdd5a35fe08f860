"""Which processes ask Kineto's daemon for work, from what /proc shows of their sockets."""

from __future__ import annotations

import os
import pathlib
import re
from dataclasses import dataclass

from . import protocol

_PROC = pathlib.Path("/proc")


@dataclass(frozen=True)
class Listener:
    """A process whose Kineto asks the daemon."""

    pid: int
    ancestors: tuple[int, ...]  # its parent, its parent's parent, and so on
    job: int  # SLURM_JOB_ID, or 0
    folder: str | None  # the folder of its sockets; None: they are abstract


def listeners() -> list[Listener]:
    """The processes of this user that ask, in the order of their numbers."""
    sockets = _sockets(protocol.CLIENT)
    found = []
    for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()):
        if not _is_ours(pid):
            continue
        for inode in _socket_inodes(pid):
            if (path := sockets.get(inode)) is not None:
                folder = None if path.startswith("@") else os.path.dirname(path)
                found.append(Listener(pid, tuple(_ancestors(pid)), _job(pid), folder))
                break
    return found


def holder_of(name: str, folder: str | None) -> int | None:
    """The process that has bound the socket `name`, if it can be seen."""
    wanted = os.path.join(folder, name) if folder else f"@{name}"
    inodes = {inode for inode, path in _sockets(name).items() if path.rstrip("@\0") == wanted}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and inodes & set(_socket_inodes(int(entry.name))):
            return int(entry.name)
    return None


def why_not(pid: int) -> str:
    """Why this process does not ask, and what to do, in a sentence."""
    if not is_alive(pid):
        return f"There is no process {pid}."
    if not _is_ours(pid):
        return f"Process {pid} belongs to another user. Run the command as that user."
    if "libtorch_cpu" not in _text(pid, "maps"):
        return (
            f"Process {pid} has not imported torch, and no process that it started has done so with "
            "KINETO_USE_DAEMON=1. Name the process that runs the model, or set the variable and start it again."
        )
    if not re.search(r"(^|\0)KINETO_USE_DAEMON=", _text(pid, "environ")):
        return f"Process {pid} was started without KINETO_USE_DAEMON=1. Set it and start the process again."
    return (
        f"Process {pid} does not ask Kineto's daemon, though KINETO_USE_DAEMON is set: a forked child does not ask, "
        "and neither does a PyTorch that was built without Kineto."
    )


def name_of(pid: int) -> str:
    """The name of a process's program, "?" if it can't be read."""
    return _text(pid, "comm").strip() or "?"


def is_alive(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    status = _text(pid, "stat")
    return bool(status) and status.rpartition(")")[2].split()[:1] != ["Z"]


def _sockets(name: str) -> dict[int, str]:
    """The UNIX sockets whose file's or abstract name begins so: inode and path ("@" begins an abstract one)."""
    found = {}
    for line in _text(None, "net/unix").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8 and os.path.basename(fields[7].lstrip("@")).startswith(name):
            found[int(fields[6])] = fields[7]
    return found


def _socket_inodes(pid: int) -> list[int]:
    inodes = []
    try:
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            try:
                if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor)):
                    inodes.append(int(match[1]))
            except OSError:
                continue
    except OSError:
        pass
    return inodes


def _ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while True:
        fields = _text(pid, "stat").rpartition(")")[2].split()
        parent = int(fields[1]) if len(fields) > 1 else 0
        if parent <= 0 or parent in found:
            return found
        found.append(parent)
        pid = parent


def _job(pid: int) -> int:
    match = re.search(r"(?:^|\0)SLURM_JOB_ID=(\d+)", _text(pid, "environ"))
    return int(match[1]) if match else 0


def _is_ours(pid: int) -> bool:
    try:
        return (_PROC / str(pid)).stat().st_uid == os.geteuid()
    except OSError:
        return False


def _text(pid: int | None, name: str) -> str:
    try:
        return (_PROC / ("" if pid is None else str(pid)) / name).read_text(errors="replace")
    except OSError:
        return ""
