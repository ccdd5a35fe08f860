"""What the rules yield, and the words that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]

EXPECTED = "as expected"  # the library does what the plugin expects
HANDLED = "handled"  # it does not, and a trace is whole all the same
COSTS = "costs"  # a trace lacks something, or says something wrong, or the program becomes slow
UNKNOWN = "not found out"

MATCHED = 0.9  # the share of records from which a relation counts as found


@dataclass(frozen=True)
class Finding:
    """One assumption of the plugin, and what this library does."""

    key: str
    assumption: str
    found: str
    effect: str
    state: str
    variation: str = ""  # its name, if this is one that the emulated library can be asked for


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(ns: float) -> str:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
