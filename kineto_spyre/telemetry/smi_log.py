"""What aiu-smi printed, as text or CSV, and which moment of the trace each line belongs to.

In: the log's text. Out: for each card its lines in order, in the columns' units; then the same with times since the
epoch. Columns go by the first word of their heading, older names included. aiu-smi prints local time in whole seconds
and no zone: the zone is given, or inferred as the whole quarter of an hour that lays the log over the trace.

A line describes the interval before it was printed. n lines with one second are spread over it evenly.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kineto_spyre.telemetry.counters import POWER, RATES, TEMPERATURE, counter

_OLDER = {"gtemp": "tempr", "pt_active": "pt_act"}
_GB = 1e9 / (1 << 30)
_QUARTER = 900
SECOND_NS = 1_000_000_000
TITLES = {
    "pwr": (POWER, "W"), "tempr": (TEMPERATURE, "C"), "busy": ("aiu-smi busy (%)", "%"),
    "hostcpu": ("host processors (%)", "%"), "hostmem": ("host memory (%)", "%"),
    **{name: (title, "GiB/s") for name, title in RATES.items()},
    "peakmem": ("aiu-smi peakmem (GiB)", "GiB"), "actmem": ("aiu-smi actmem (GiB)", "GiB"),
    "rsvmem": ("aiu-smi rsvmem, unreliable (GiB)", "GiB"), "pt_act": ("aiu-smi pt_act, unreliable (%)", "%"),
}  # fmt: skip


class LogError(Exception):
    """The log can't be used; the text is a sentence."""


@dataclass
class Log:
    """Lines by card: seconds since 1970 as if the local time were UTC, and the values by column's name.

    Attributes:
        lines: in order of time.
        columns: in the log's order.
        odd: lines that are none of aiu-smi's.
    """

    lines: dict[int, list[tuple[int, dict[str, float]]]] = field(default_factory=lambda: defaultdict(list))
    columns: list[str] = field(default_factory=list)
    odd: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """First and last second."""
        times = [time for lines in self.lines.values() for time, _ in lines]
        return min(times), max(times)


def parse(text: str) -> Log:
    """Reads a log.

    Raises:
        LogError: it has no heading of aiu-smi's, or no line.
    """
    log = Log()
    factors: list[float] = []
    units = False
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")] if "," in line else line.split()
        if not words or line.startswith("#MetricFile"):
            continue
        if words[0] in ("ID", "#ID"):
            pairs = [word.split() or [""] for word in words[3:]]
            log.columns = [_OLDER.get(pair[0], pair[0]) for pair in pairs]
            factors = [_GB if pair[-1] == "GB/s" else 1.0 for pair in pairs]
            units = words[0] == "#ID"
        elif units and words[0] == "#":
            factors = [_GB if word == "GB/s" else 1.0 for word in words[3:]]
            units = False
        elif not line.startswith("#"):
            _line(log, words, factors)
    if not log.columns:
        raise LogError("has no heading of aiu-smi's (a line that begins with ID or #ID)")
    if not log.lines:
        raise LogError("has no line for a card")
    return log


def _line(log: Log, words: list[str], factors: list[float]) -> None:
    try:
        card = int(words[0])
        when = datetime.datetime.strptime(words[1] + words[2], "%Y%m%d%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
        if len(words) != 3 + len(log.columns):
            raise ValueError
        values = {
            name: float(word) * factor
            for name, word, factor in zip(log.columns, words[3:], factors)
            if word not in ("-", "")
        }
    except (ValueError, IndexError):
        log.odd += 1
        return
    log.lines[card].append((int(when.timestamp()), values))


def offset_of(zone: str, at: int) -> int:
    """Seconds east of UTC of a zone ("Europe/Berlin", "+05:30", "UTC") at a local time.

    Raises:
        LogError: there is no such zone.
    """
    if found := re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone):
        seconds = int(found[2]) * 3600 + int(found[3]) * 60
        return seconds if found[1] == "+" else -seconds
    try:
        rules = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise LogError(f"the time zone {zone!r} is not known; write it as Europe/Berlin or +02:00") from None
    local = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).replace(tzinfo=rules)
    distance = local.utcoffset()
    return int(distance.total_seconds()) if distance is not None else 0


def infer_offset(log: Log, begin_ns: int, end_ns: int) -> int:
    """Seconds east of UTC that lay the log over the trace.

    Raises:
        LogError: none does, or several do as well.
    """
    first, last = log.span
    begin, end = begin_ns / SECOND_NS, end_ns / SECOND_NS
    shared = {}
    for offset in range(-12 * 3600, 14 * 3600 + 1, _QUARTER):
        overlap = min(last + 1 - offset, end) - max(first - 1 - offset, begin)
        if overlap > 0:
            shared[offset] = overlap
    if not shared:
        raise LogError(
            "does not overlap the trace in any time zone; check that both are of the same run, or name the zone "
            "with --timezone"
        )
    most = max(shared.values())
    best = [offset for offset, overlap in shared.items() if overlap >= most - 1]
    if len(best) > 1:
        here = datetime.datetime.fromtimestamp(begin).astimezone().utcoffset()
        local = int(here.total_seconds()) if here is not None else 0
        if local not in best:
            raise LogError(f"fits the trace in {len(best)} time zones; name the right one with --timezone")
        return local
    return best[0]


def shown_offset(offset: int) -> str:
    """An offset as +HH:MM."""
    sign = "-" if offset < 0 else "+"
    return f"{sign}{abs(offset) // 3600:02d}:{abs(offset) % 3600 // 60:02d}"


def interval_ns(lines: Iterable[tuple[int, Any]]) -> int:
    """How far apart the lines of a card are, as a whole number of lines a second or of seconds a line."""
    times = [time for time, _ in lines]
    if len(set(times)) < 2:
        return SECOND_NS
    steps = sorted(after - before for before, after in zip(times, times[1:]))
    middle = steps[len(steps) // 2]
    if middle >= 1:
        return middle * SECOND_NS
    return SECOND_NS // Counter(times).most_common(1)[0][1]


def events(log: Log, offset: int) -> list[dict[str, Any]]:
    """The counters of all cards. Each stands at the begin of the interval that its line describes, which is known to
    half a second, or better where aiu-smi printed several lines a second."""
    made: list[dict[str, Any]] = []
    for card, lines in sorted(log.lines.items()):
        interval = interval_ns(lines)
        together = Counter(time for time, _ in lines)
        seen: Counter[int] = Counter()
        for time, values in lines:
            part = (2 * seen[time] + 1) * SECOND_NS // (2 * together[time])
            seen[time] += 1
            begin = (time - offset) * SECOND_NS + part - interval
            made += _counters(card, begin, values)
    return made


def _counters(card: int, begin_ns: int, values: Mapping[str, float]) -> Iterable[dict[str, Any]]:
    for name, value in values.items():
        if name in TITLES:
            title, series = TITLES[name]
            yield counter(title, card, begin_ns, series, round(value, 6))
