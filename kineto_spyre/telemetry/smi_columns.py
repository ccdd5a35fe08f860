"""aiu-smi's columns: their headings, widths and roundings, and how the samples of an interval become one line.

As ibm-aiu-smi 1.3.1 has them (Apache-2.0), so that what reads its text or CSV reads ours. Each `put` is one reading of
a card; `line` closes the interval. pt_act is aiu-smi's own estimate from power and means nothing under about 27 W; on
the present stack it and the memory columns are not captured correctly.
"""

from __future__ import annotations

import datetime
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

GIB = float(1 << 30)
RATES = ("rdmem", "wrmem", "rxpci", "txpci", "rdrdma", "wrrdma")


class Column(NamedTuple):
    """A column: its group in aiu-smi's -g, heading, unit, decimals and width; `how` an interval is summarised."""

    group: str
    name: str
    unit: str
    decimals: int
    width: int
    how: str  # mean, last, rate


COLUMNS = (
    Column("h", "hostcpu", "%", 1, 7, "mean"), Column("h", "hostmem", "%", 1, 6, "mean"),
    Column("p", "pwr", "W", 1, 5, "mean"), Column("p", "tempr", "C", 1, 5, "last"),
    Column("b", "busy", "%", 0, 5, "mean"),
    *(Column("D", name, "GiB/s", 3, 7, "rate") for name in RATES),
    Column("U", "peakmem", "GiB", 4, 8, "last"), Column("U", "actmem", "GiB", 4, 8, "last"),
    Column("P", "pt_act", "%", 2, 7, "mean"),
)  # fmt: skip
CAVEATS = {
    "rsvmem": "rsvmem is not captured correctly by today's software; do not rely on it.",
    "pt_act": "pt_act is a model over power, means nothing under about 27 W, and is "
    "not captured correctly by today's software.",
}


def chosen(groups: str) -> list[Column]:
    """The columns of groups D, U, P or A (all); h, p and b are always among them.

    Raises:
        ValueError: a letter is no group.
    """
    if odd := set(groups) - set("DUPA"):
        raise ValueError(f"the group {sorted(odd)[0]!r} is not known; groups are D, U, P and A")
    wanted = "hpbDUP" if "A" in groups else "hpb" + groups + ("D" if "U" in groups else "")
    return [column for column in COLUMNS if column.group in wanted]


def heading(columns: Sequence[Column], csv: bool) -> list[str]:
    """The heading's lines."""
    if csv:
        return ["ID,Date (YYYYMMDD),Time (HH:MM:SS)," + ",".join(f"{one.name} {one.unit}" for one in columns)]
    return [
        "#ID Date      Time    " + "".join(f"{one.name:>{one.width + 2}}" for one in columns),
        "#   YYYYMMDD  HH:MM:SS" + "".join(f"{one.unit:>{one.width + 2}}" for one in columns),
    ]


def files(paths: Sequence[str], csv: bool) -> list[str]:
    """The lines that name the cards' files."""
    if csv:
        return [f"#MetricFile,{place},{path}" for place, path in enumerate(paths)]
    return ["#MetricFiles", *(f"#{place:>2} {path}" for place, path in enumerate(paths))]


def line(card: int, when: datetime.datetime, columns: Sequence[Column], values: Mapping[str, float] | None,
         host: Mapping[str, float], csv: bool) -> str:  # fmt: skip
    """One line of a card. `values` is None where the card reports nothing."""
    cells = []
    for one in columns:
        source = host if one.group == "h" else values
        if source is None:
            cells.append("0" if csv else f"{'-':>{one.width}}")
        else:
            text = f"{rounded(source.get(one.name, 0.0), one.decimals):.{one.decimals}f}"
            cells.append(text if csv else f"{text:>{one.width}}")
    if csv:
        return f"{card},{when:%Y%m%d,%H:%M:%S}," + ",".join(cells)
    return f" {card:>2} {when:%Y%m%d  %H:%M:%S}  " + "  ".join(cells)


def rounded(value: float, decimals: int) -> float:
    """As aiu-smi: what is above nothing is shown as at least the last digit."""
    return max(round(value, decimals), 10.0**-decimals) if value > 0 else 0.0


class Interval:
    """The readings of one card since the last line."""

    def __init__(self, idle_watts: float = 20.0) -> None:
        self._idle = idle_watts
        self._before: Mapping[str, float] | None = None
        self._running = False
        self._clear()

    def _clear(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._moved: dict[str, float] = dict.fromkeys(RATES, 0.0)
        self._last: dict[str, float] = {}
        self._seconds = 0.0

    def _mean(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value
        self._counts[name] = self._counts.get(name, 0) + 1

    def put(self, values: Mapping[str, float] | None, seconds: float) -> None:
        """A reading, and the time since the one before. None: the card reports nothing."""
        if values is None:
            self._before = None
            return
        if self._before is not None:
            moved = {name: values.get(name, 0.0) - self._before.get(name, 0.0) for name in RATES}
            if any(amount < 0 for amount in moved.values()):  # the runtime began anew
                self._clear()
                moved = dict.fromkeys(RATES, 0.0)
            for name, amount in moved.items():
                self._moved[name] += amount
            self._seconds += seconds
            self._mean("busy", 100.0 if any(moved.values()) else 0.0)
            self._mean("pwr", values.get("pwr", 0.0))
            self._mean("pt_act", pt_act(values.get("pwr", 0.0) - self._idle) if self._running else 0.0)
            self._last["tempr"] = values.get("tempr", 0.0)
        self._before = values

    def close(self, card: int) -> dict[str, float] | None:
        """What the line shows; None if the card reports nothing."""
        if self._before is None or not self._counts:
            return None
        found = {name: total / self._counts[name] for name, total in self._sums.items()} | self._last
        for name, moved in self._moved.items():
            found[name] = moved / self._seconds / GIB if self._seconds > 0 else 0.0
        self._running = found["busy"] > 0
        found["actmem"], found["peakmem"] = _tracked_memory(card) if self._running else (0.0, 0.0)
        self._clear()
        return found


def pt_act(active_watts: float) -> float:
    """aiu-smi's estimate of the PT array's activity in percent, from power above idle (its model 2, decoder)."""
    if active_watts < 15:
        return 0.0
    return float(int(68.4298 + 16.0466 / (1 + math.exp(-1.21865 * (active_watts - 53.1163)))))


def _tracked_memory(card: int) -> tuple[float, float]:
    """actmem and peakmem in GiB, from the file that the runtime's memory tracking writes."""
    path = pathlib.Path(os.environ.get("MEMORY_TRACKING_FOLDER", "/tmp/memtrack"), f"memory_{card}.log")
    try:
        numbers = [float(text) / GIB for text in path.read_text().split()]
    except (OSError, ValueError):
        return 0.0, 0.0
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0.0, 0.0)


class Host:
    """Use of the host's processors and memory, as aiu-smi counts it: percent, summed over processors."""

    def __init__(self) -> None:
        self._before = self._times()

    @staticmethod
    def _times() -> dict[str, tuple[float, float]]:
        found = {}
        for text in pathlib.Path("/proc/stat").read_text().splitlines():
            name, *rest = text.split()
            if name.startswith("cpu") and name != "cpu":
                ticks = [float(one) for one in rest[:8]]
                found[name] = (sum(ticks), ticks[3] + ticks[4])  # all; idle and waiting for I/O
        return found

    def read(self) -> dict[str, float]:
        """hostcpu since the last call, and hostmem now."""
        now = self._times()
        used = 0.0
        for name, (total, idle) in now.items():
            before_total, before_idle = self._before.get(name, (total, idle))
            if total > before_total:
                used += 100 * max(0.0, 1 - (idle - before_idle) / (total - before_total))
        self._before = now
        memory = dict(text.split(":", 1) for text in pathlib.Path("/proc/meminfo").read_text().splitlines())
        total_kib, free_kib = (float(memory[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
        return {"hostcpu": used, "hostmem": 100 * (1 - free_kib / total_kib)}
