"""A trace that Kineto wrote, and how more is put into it: metadata behind its first brace, events before its own.

In: the path of a plain JSON trace. Out: the same file, made anew and put in the old one's place at once, so that it is
whole at any time. It is copied, never held in memory. Errors: ValueError where the file is no trace of Kineto's.

Metadata goes to the front because viewers look for the last bracket of the file as that of the events.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from kineto_spyre._files import new_file

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_HEAD = 1 << 24  # bytes that may come before the events
_CHUNK = 1 << 20


class TraceFile:
    """A trace on disk. `shared` is for what the layers of one export make of it once for all; its key "profile" is the
    torch.profiler.profile that recorded it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.shared: dict[str, Any] = {}

    @functools.cached_property
    def base_ns(self) -> int:
        """Where its times begin, in nanoseconds since the epoch; 0 if it doesn't say."""
        with open(self.path, "rb") as file:
            head, _ = _head(file)
            found = _BASE.search(head)
            if found is None:  # some releases of Kineto write it behind the events
                file.seek(max(0, os.path.getsize(self.path) - _CHUNK))
                found = _BASE.search(file.read())
        return int(found[1]) if found else 0

    def add(self, metadata: Mapping[str, Any], events: Iterable[str] = ()) -> None:
        """Puts metadata and events into the file; each event is JSON.

        Raises:
            ValueError: the file does not begin as a trace does.
            OSError: it can't be written.
        """
        lines = list(events)
        if not metadata and not lines:
            return
        with open(self.path, "rb") as old:
            head, rest = _head(old)
            before, brace, after = head.partition(b"{")
            if not brace or before.strip():
                raise ValueError(f"{self.path} does not begin with a brace, so metadata can't be added to it.")
            if lines and not head.endswith(b"["):
                raise ValueError(f"{self.path} has no list of events, so none can be added to it.")
            with new_file(self.path, force=True) as whole:
                whole.write(b"{")
                if metadata:
                    whole.write(json.dumps(dict(metadata), indent=2)[1:-2].encode() + b",")
                whole.write(after)
                if lines:
                    rest = (rest + old.read(_CHUNK)).lstrip()
                    comma = b"" if rest.startswith(b"]") else b","
                    whole.write(b"\n" + ",\n".join(lines).encode() + comma + b"\n")
                whole.write(rest)
                shutil.copyfileobj(old, whole, _CHUNK)


def _head(file: BinaryIO) -> tuple[bytes, bytes]:
    """What comes before the first event, with the opening bracket, and what was read beyond it.

    Where there are no events, the first part is all that was read.
    """
    read = b""
    while chunk := file.read(_CHUNK):
        read += chunk
        if found := _EVENTS.search(read):
            return read[: found.end()], read[found.end() :]
        if len(read) > _HEAD:
            break
    return read, b""
