"""Numbers about events, kept in little memory until the whole trace was read.

`Track` holds the slices of one (pid, tid): start, duration, name, hash of the text, kind. Each 65,536 are a run, which
is sorted (nearly every track of a real trace is in order already) and packed: some 12 bytes a slice. `Joinable` holds
columns of what is joined by a key later. Times are in nanoseconds.
"""

from __future__ import annotations

import heapq
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

RUN = 1 << 16  # slices that are sorted together
_BLOCK = 1 << 12  # slices that are packed together
_COLUMNS = "qqiib"  # start, duration, name, hash of the text, kind


class Track:
    """The slices of one (pid, tid). Columns; when they are full, a run: sorted, and packed in blocks."""

    __slots__ = (
        "arrows",
        "counts",
        "duration",
        "kind",
        "name",
        "number",
        "open",
        "ordered",
        "pid",
        "runs",
        "start",
        "text",
        "tid",
    )

    def __init__(self, pid: Any, tid: Any, number: int) -> None:
        self.pid, self.tid, self.number = pid, tid, number
        self.runs: list[tuple[int, int, list[bytes]]] = []  # first and last start, blocks
        self.open: list[tuple[int, int, int]] = []  # B events that wait for their E: start, name, text
        self.counts: dict[str, int] = {}  # X events by category
        self.arrows = array("i")  # numbers of flow ends that must lie on a slice of this track
        self._new()

    def _new(self) -> None:
        columns: list[array[int]] = [array(code) for code in _COLUMNS]
        self.start, self.duration, self.name, self.text, self.kind = columns
        self.ordered = True

    def add(self, start: int, duration: int, name: int, text: int, kind: int) -> None:
        """One more slice."""
        starts = self.start
        if starts and self.ordered:
            last = starts[-1]
            if start < last or (start == last and duration >= self.duration[-1]):
                self.ordered = False
        starts.append(start)
        self.duration.append(duration)
        self.name.append(name)
        self.text.append(text)
        self.kind.append(kind)
        if len(starts) == RUN:
            self.close()

    def close(self) -> None:
        """Packs what was added since the last run."""
        if not self.start:
            return
        columns: list[array[int]] = [self.start, self.duration, self.name, self.text, self.kind]
        if not self.ordered:
            start, duration, name, text, _ = columns
            order = sorted(range(len(start)), key=lambda i: (start[i], -duration[i], name[i], text[i]))
            columns = [array(column.typecode, map(column.__getitem__, order)) for column in columns]
        blocks = []
        for begin in range(0, len(self.start), _BLOCK):
            plain = b"".join(column[begin : begin + _BLOCK].tobytes() for column in columns)
            blocks.append(zlib.compress(plain, 1))
        self.runs.append((columns[0][0], columns[0][-1], blocks))
        self._new()

    @staticmethod
    def _unpacked(blocks: list[bytes]) -> Iterator[tuple[int, int, int, int, int]]:
        for block in blocks:
            plain = zlib.decompress(block)
            count = len(plain) // sum(array(code).itemsize for code in _COLUMNS)
            columns, at = [], 0
            for code in _COLUMNS:
                column = array(code)
                column.frombytes(plain[at : at + count * column.itemsize])
                at += count * column.itemsize
                columns.append(column)
            for start, duration, name, text, kind in zip(*columns):
                yield start, -duration, name, text, kind

    def slices(self) -> Iterable[tuple[int, int, int, int, int]]:
        """(start, -duration, name, text, kind) in that order."""
        self.close()
        follows = all(before[1] < after[0] for before, after in zip(self.runs, self.runs[1:]))
        runs = [self._unpacked(blocks) for _, _, blocks in self.runs]
        return (one for run in runs for one in run) if follows else heapq.merge(*runs)


class Joinable:
    """What is joined later: columns of device work, of calls, or of the ends of arrows; joined by `key`."""

    __slots__ = ("flags", "key", "name", "other", "start", "track")

    def __init__(self) -> None:
        self.key, self.other, self.start = array("q"), array("q"), array("q")
        self.track, self.name, self.flags = array("i"), array("i"), array("b")

    def add(self, key: int, other: int, start: int, track: int, name: int, flags: int) -> None:
        """One more entry."""
        self.key.append(key)
        self.other.append(other)
        self.start.append(start)
        self.track.append(track)
        self.name.append(name)
        self.flags.append(flags)

    def __len__(self) -> int:
        return len(self.key)

    def parts(self, count: int) -> Iterator[list[int]]:
        """The entries' numbers in `count` parts, so that only one part at a time is held as Python objects; equal keys
        are in the same part, side by side, in the order of time."""
        for part in range(count):
            numbers = [i for i, key in enumerate(self.key) if key % count == part]
            numbers.sort(key=self.start.__getitem__)
            numbers.sort(key=self.key.__getitem__)
            yield numbers
