"""The messages between Kineto and its daemon: datagrams over UNIX sockets, as public Kineto and dynolog send them.

A datagram is the payload's size (u64), the message's type (32 characters, padded with NUL) and the payload; numbers in
the machine's own byte order. A process sends `ctxt` to register and `req` to ask for work; the answer has the same
type: a number (i32) for `ctxt`, the configuration's text for `req` (nothing: there is no work).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

DAEMON = "dynolog"
CLIENT = "dynoconfigclient"  # how the names of Kineto's own sockets begin
SOCKET_FOLDER = "KINETO_IPC_SOCKET_DIR"  # Kineto's variable: sockets are files there, instead of abstract names

_HEAD = struct.Struct("@Q32s")
_CONTEXT = struct.Struct("@iiq")  # device, process, job
_REQUEST = struct.Struct("@iiq")  # kinds of work, number of processes, job; then the processes, i32 each
_ACTIVITIES = 2
_LONGEST = 1 << 16


class Malformed(ValueError):
    """A datagram that is no message of this protocol."""


@dataclass(frozen=True)
class Context:
    """A process registers."""

    device: int
    pid: int  # as the process sees it; its own namespace may count otherwise
    job: int


@dataclass(frozen=True)
class Ask:
    """A process asks for work."""

    idle: bool  # whether it could begin a profile now; False while it profiles
    job: int  # SLURM_JOB_ID of the process, or 0
    pids: tuple[int, ...]  # the process, its parent, and so on


def address(name: str, folder: str | None = None) -> str:
    """Where the socket `name` is: an abstract address, or a file in `folder`.

    Args:
        name: "dynolog", or a client's name.
        folder: KINETO_IPC_SOCKET_DIR of the process, if it is set.
    """
    return os.path.join(folder, name) if folder else f"\0{name}\0"


def pack(kind: str, payload: bytes) -> bytes:
    """A datagram. The kind has at most 31 characters."""
    return _HEAD.pack(len(payload), kind.encode()) + payload


def answer_to(message: Context | Ask, configuration: str = "") -> bytes:
    """The datagram that answers a message."""
    if isinstance(message, Context):
        return pack("ctxt", struct.pack("@i", 1))
    return pack("req", configuration.encode())


def unpack(datagram: bytes) -> Context | Ask:
    """The message in a datagram.

    Raises:
        Malformed: its size, type or contents are not those of a message.
    """
    if not _HEAD.size <= len(datagram) < _LONGEST:
        raise Malformed(f"{len(datagram)} bytes")
    size, kind = _HEAD.unpack_from(datagram)
    payload = datagram[_HEAD.size :]
    if size != len(payload):
        raise Malformed(f"it announces {size} bytes and holds {len(payload)}")
    kind = kind.split(b"\0", 1)[0]
    if kind == b"ctxt" and len(payload) == _CONTEXT.size:
        return Context(*_CONTEXT.unpack(payload))
    if kind == b"req" and len(payload) >= _REQUEST.size:
        kinds, count, job = _REQUEST.unpack_from(payload)
        if count >= 1 and len(payload) == _REQUEST.size + 4 * count:
            return Ask(bool(kinds & _ACTIVITIES), job, struct.unpack_from(f"@{count}i", payload, _REQUEST.size))
    raise Malformed(f"type {kind!r} with {len(payload)} bytes")
