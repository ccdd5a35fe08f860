"""From what a caller has (a path, bytes, a profile object) to a stream of the trace's bytes.

gzip is told from the content, since names can be wrong. A truncated gzip file or broken gives all that could be
unpacked, then ends; `Stream.trouble` says why, so that a reader can use what came before.
"""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Union

from kineto_spyre.traces.json_text import Unreadable

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Any]
_PIECE = 1 << 16


class Stream:
    """The bytes of a trace, unpacked."""

    def __init__(self, raw: BinaryIO, size: int, name: str = "the trace") -> None:
        self.name = name
        self._raw = raw
        self._size = size
        self.trouble: str | None = None
        start = raw.read(2)
        self._ahead = start
        self._inflate = zlib.decompressobj(wbits=31) if start == b"\x1f\x8b" else None

    @property
    def progress(self) -> float:
        """How much of the file has been read, 0 to 1."""
        return self._raw.tell() / self._size if self._size else 1.0

    def _raw_read(self, count: int) -> bytes:
        ahead, self._ahead = self._ahead, b""
        try:
            return ahead + self._raw.read(max(1, count - len(ahead)))
        except OSError as error:
            self.trouble = f"can't be read: {error.strerror or error}"
            return ahead

    def read(self, count: int) -> bytes:
        """At least one byte, unless the stream has ended; about `count`."""
        if self._inflate is None:
            return self._raw_read(count)
        pieces: list[bytes] = []
        while count > 0 and self.trouble is None:
            packed = self._inflate.unconsumed_tail or self._inflate.unused_data or self._raw_read(_PIECE)
            if self._inflate.eof:
                packed = packed.lstrip(b"\0")  # padding between members
                if packed:
                    self._inflate = zlib.decompressobj(wbits=31)
            if not packed:
                if not self._inflate.eof:
                    self.trouble = "is a truncated gzip file. Copy it again, or wait until its writer has finished"
                break
            try:
                piece = self._inflate.decompress(packed, count)
            except zlib.error as error:
                self.trouble = f"is a damaged gzip file ({error}). Copy it again from where it was written"
                break
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


@contextmanager
def opened(source: Source) -> Iterator[Stream]:
    """The stream of a trace.

    Args:
        source: a path, the bytes of a file, or an object with `export_chrome_trace` (torch.profiler.profile).

    Raises:
        Unreadable: the source can't be opened; the text says why.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Stream(io.BytesIO(source), len(source), name_of(source))
    elif isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path):
            raise Unreadable("is a directory: name the trace file in it (*.pt.trace.json, or .gz)")
        try:
            raw = open(path, "rb")
        except OSError as error:
            raise Unreadable(f"can't be opened: {error.strerror or error}") from None
        except ValueError as error:  # a NUL in the name
            raise Unreadable(f"can't be opened: {error}") from None
        with raw:
            yield Stream(raw, os.fstat(raw.fileno()).st_size, path)
    elif hasattr(source, "export_chrome_trace"):
        # PyTorch writes its trace to a path only; the file is in memory where the system has such a place.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="kineto_spyre_", dir=place) as folder:
            path = str(pathlib.Path(folder, "trace.json"))
            source.export_chrome_trace(path)
            with opened(path) as stream:
                yield stream
    else:
        raise TypeError(f"{type(source).__name__} is not a trace; pass a path, bytes, or a torch.profiler.profile.")


def name_of(source: Source) -> str:
    """What a report calls the source."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return "the profile" if hasattr(source, "export_chrome_trace") else "the bytes"
