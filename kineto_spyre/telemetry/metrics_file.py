"""The metrics file of a card: `AiuM`, version 1.0.x, rewritten in place about every 10 ms by the card's runtime.

In: a path. Out: samples. The bytes are read with pread and never mapped: a mapped file that its writer cuts short ends
the process. A copy is taken for whole when its magic is there and a second copy is equal to it: while a writer is
within, the magic is another, and each writing changes the time. What the ids mean comes from the package spyremetrics
where it is installed (Python 3.12 or newer), so that metrics of a newer release are known, else from the table below.
"""

from __future__ import annotations

import functools
import os
import pathlib
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MAGIC = b"AiuM"
_HEADER = struct.Struct("<4sI4BIQQ")
_ENTRY = struct.Struct("<II")
_SECTION = struct.Struct("<IIIIQII")
_LARGEST = 1 << 16  # bytes of a file; the real one has a few hundred
_ATTEMPTS = 50


class Metric(NamedTuple):
    """A metric's name, and the factor from what the file holds to watts, Celsius, percent or bytes."""

    name: str
    scale: float


_KIB, _MIB = 1024.0, 1024.0**2
_TABLE = {
    1: Metric("hostcpu", 1), 2: Metric("hostmem", 1), 3: Metric("hstrxnet", _KIB), 4: Metric("hsttxnet", _KIB),
    5: Metric("hstrdblk", _KIB), 6: Metric("hstwrblk", _KIB), 16: Metric("pwr", 0.1), 17: Metric("tempr", 0.1),
    18: Metric("rdmem", _KIB), 19: Metric("wrmem", _KIB), 20: Metric("rxpci", _KIB), 21: Metric("txpci", _KIB),
    22: Metric("rdrdma", _KIB), 23: Metric("wrrdma", _KIB), 129: Metric("avgmem", _MIB), 130: Metric("peakmem", _MIB),
}  # fmt: skip


class MetricsError(Exception):
    """The file can't be read now; the text is a sentence. `torn`: only because it was being written."""

    def __init__(self, sentence: str, torn: bool = False) -> None:
        super().__init__(sentence)
        self.torn = torn


@dataclass(frozen=True)
class Sample:
    """What a card's runtime measured once.

    Attributes:
        time_ns: when it was written, since the epoch; the file has whole milliseconds.
        interval_ns: of the writer. Power is a mean over the last one.
        values: by name: watts, Celsius, percent, bytes. Traffic in bytes grows from sample to sample.
    """

    time_ns: int
    interval_ns: int
    values: Mapping[str, float]


@functools.cache
def table() -> Mapping[int, Metric]:
    """Metrics by id: the published table, and what an installed spyremetrics knows besides."""
    try:
        from spyremetrics import MetricDataType
    except Exception:  # not installed, or without numpy, or of a release that has another form
        return _TABLE
    known = dict(_TABLE)
    for metric in MetricDataType.items():
        if metric.id:
            known[int(metric.id)] = Metric(str(metric.name), float(metric.value_type.scale))
    return known


class MetricsFile:
    """One card's file, held open. Not for several threads at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor: int | None = None
        self._last: bytes | None = None

    def close(self) -> None:
        """Closes the file; reading opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def read(self) -> Sample:
        """The present sample.

        Raises:
            MetricsError: the file is not there, is being written for as long as it was tried, is truncated, or is of
                another version.
        """
        content = self._whole_copy()
        if content == self._last and self._was_replaced():
            self.close()
            content = self._whole_copy()
        self._last = content
        return parse(content, self.path)

    def _copy(self) -> bytes:
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._descriptor, _LARGEST, 0)
        except OSError as error:
            raise MetricsError(
                f"The metrics file {self.path} can't be read ({error.strerror}). Check that the program that uses the "
                "card runs, and that you may read its file."
            ) from None

    def _whole_copy(self) -> bytes:
        before = self._copy()
        for _ in range(_ATTEMPTS):
            content = self._copy()
            if content == before and content[:1] != b"!":
                return content
            before = content
        raise MetricsError(
            f"The metrics file {self.path} was being written each time it was read. Check that its writer still runs.",
            torn=True,
        )

    def _was_replaced(self) -> bool:
        """Whether the path names another file by now, as after a restart of the writer."""
        assert self._descriptor is not None
        try:
            now = os.stat(self.path)
        except OSError:
            return True
        mine = os.fstat(self._descriptor)
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def parse(content: bytes, path: str) -> Sample:
    """The sample in a file's content.

    Raises:
        MetricsError: it is no metrics file of a version that is known, or is truncated.
    """
    if len(content) < _HEADER.size:
        raise _short(path, len(content), _HEADER.size)
    magic, size, major, minor, revision, fix, sections, time_ms, _ = _HEADER.unpack_from(content)
    if magic != MAGIC:
        raise MetricsError(f"{path} is not a metrics file: it begins with {magic!r}, not with {MAGIC!r}. Name another.")
    if (major, minor) != (1, 0):
        raise MetricsError(
            f"The metrics file {path} has version {major}.{minor}.{revision}.{fix}, and 1.0 is known here. Install a "
            "newer kineto-spyre."
        )
    if len(content) < size:
        raise _short(path, len(content), size)
    values: dict[str, float] = {}
    interval_ms = 10
    try:
        at = _HEADER.size + sections * _ENTRY.size
        for place in range(sections):
            _, length = _ENTRY.unpack_from(content, _HEADER.size + place * _ENTRY.size)
            found, interval = _section(content, at)
            interval_ms = interval if "pwr" in found else interval_ms
            values |= found
            at += length
    except struct.error:
        raise MetricsError(f"The metrics file {path} is damaged: a table in it reaches beyond its end.") from None
    return Sample(time_ms * 1_000_000, interval_ms * 1_000_000, values)


def _section(content: bytes, at: int) -> tuple[dict[str, float], int]:
    _, _, _, count, _, interval, _ = _SECTION.unpack_from(content, at)
    entry = at + _SECTION.size
    value = entry + count * _ENTRY.size
    found = {}
    for _ in range(count):
        number, words = _ENTRY.unpack_from(content, entry)
        entry += _ENTRY.size
        metric = table().get(number)
        if metric is not None and words:
            (raw,) = struct.unpack_from("<Q", content, value)
            found[metric.name] = raw * metric.scale if metric.scale != 0.1 else raw / 10
        value += 8 * words
    return found, interval


def _short(path: str, size: int, wanted: int) -> MetricsError:
    return MetricsError(f"The metrics file {path} is truncated: it has {size} bytes, and {wanted} are expected.")


def find_files(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The metrics files of this machine's cards, as aiu-smi finds them: by AIUSMI_METRIC_FILE or SPYRE_METRIC_PATH, by
    the cards that PCIDEVICE_IBM_COM_AIU_PF or AIU_WORLD_SIZE name; else all `metrics.*` in the temporary directory."""
    pattern = environment.get("AIUSMI_METRIC_FILE") or environment.get("SPYRE_METRIC_PATH")
    template = pattern or os.path.join(tempfile.gettempdir(), "metrics.%BUSID")
    if "%BUSID" not in template:
        return template.split()
    if cards := environment.get("PCIDEVICE_IBM_COM_AIU_PF"):
        return [template.replace("%BUSID", card.strip()) for card in cards.split(",") if card.strip()]
    if (size := environment.get("AIU_WORLD_SIZE", "")).isdecimal():
        named = (environment.get(f"AIU_WORLD_RANK_{rank}") for rank in range(int(size)))
        if cards_named := [card for card in named if card]:
            return [template.replace("%BUSID", card) for card in cards_named]
    folder, name = os.path.split(template)
    return sorted(str(path) for path in pathlib.Path(folder or ".").glob(name.replace("%BUSID", "*")))
