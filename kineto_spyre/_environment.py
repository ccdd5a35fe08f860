"""The environment variables: what each means, and whether its value can be read.

This is the only reader of them: sessions of the C++ side ask `settings` when they begin, and get the default and a
diagnostic for a value that can't be read. `check` looks at all of them, so that `doctor` and `enable` can name a bad
one before a session does.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._notices import SpyreProfilerError

PREFIX = "KINETO_SPYRE_"
TRUE = ("1", "on", "true", "yes")
FALSE = ("0", "off", "false", "no")


def _is_flag(value: str) -> bool:
    return value.strip().lower() in (*TRUE, *FALSE)


def _is_count(low: int, high: int) -> Callable[[str], bool]:
    return lambda value: value.strip().isdecimal() and low <= int(value) <= high


def _is_memory(value: str) -> bool:
    try:
        mib = float(value)
    except ValueError:
        return False
    return 0.03125 <= mib <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20


def signal_number(name: str) -> int | None:
    """USR2 or SIGUSR2; None for what is no signal."""
    name = name.strip().upper()
    found = getattr(signal.Signals, name if name.startswith("SIG") else f"SIG{name}", None)
    return int(found) if found is not None else None


NOTHING = "none"


@dataclass(frozen=True)
class Variable:
    """One variable.

    Attributes:
        name: KINETO_SPYRE_ and a word or two.
        values: what may stand there, in words.
        default: what an unset variable means, in words.
        meaning: what it is for, as a phrase.
        fits: whether a value can be read.
        cost: what it costs to set it, as a phrase.
    """

    name: str
    values: str
    default: str
    meaning: str
    fits: Callable[[str], bool]
    cost: str = NOTHING


VARIABLES = (
    Variable("KINETO_SPYRE_AUTOLOAD", "0 or 1", "1", "register the plugin when torch is imported", _is_flag),
    Variable(
        "KINETO_SPYRE_LIBAIUPTI",
        "the path of a file",
        "searched",
        "the libaiupti that the first session opens; no other one is searched for",
        lambda value: pathlib.Path(value).is_file(),
    ),
    Variable(
        "KINETO_SPYRE_OVERRIDE",
        "0 or 1",
        "0",
        "replace another plugin, such as torch-spyre's, as PyTorch's PrivateUse1 profiler",
        _is_flag,
        "the other plugin records nothing",
    ),
    Variable(
        "KINETO_SPYRE_BUFFER_MB",
        "a number from 0.03125 to this machine's memory",
        "1024",
        "memory for the records of a session, in MiB; records that do not fit are counted as dropped",
        _is_memory,
        "address space; physical memory as far as records fill it",
    ),
    Variable(
        "KINETO_SPYRE_CLOCK_ALIGN",
        "auto or off",
        "auto",
        "correct the device's times where work would begin before its launch",
        lambda value: value in ("auto", "off"),
        "when a profile stops, a pass over the records",
    ),
    Variable(
        "KINETO_SPYRE_FLUSH_TIMEOUT_MS",
        "a whole number from 1 to 600000",
        "5000",
        "how long a stop waits for libaiupti to deliver its records, in milliseconds",
        _is_count(1, 600_000),
        "a stop lasts up to this long if libaiupti does not answer",
    ),
    Variable(
        "KINETO_SPYRE_EMULATE",
        "a whole number from 0 to 8",
        "0",
        "number of devices of an emulated Spyre that starts when torch is imported, in child processes too",
        _is_count(0, 8),
        "the program runs on the CPU",
    ),
    Variable(
        "KINETO_SPYRE_EMULATE_METRICS",
        "a directory",
        "none",
        "where KINETO_SPYRE_EMULATE's cards write their metrics files, for aiu-smi and kineto-spyre smi",
        lambda value: pathlib.Path(value).is_dir(),
        "a thread that rewrites a file for each card 100 times a second",
    ),
    Variable(
        "KINETO_SPYRE_RECORD",
        "a whole number from 0 to 3600",
        "0",
        "the flight recorder keeps the last so many seconds, from when the device is in use; 0 is off",
        _is_count(0, 3600),
        "64 MiB, and a callback for each op",
    ),
    Variable(
        "KINETO_SPYRE_RECORD_FOLDER",
        "a directory",
        "the working directory",
        "where KINETO_SPYRE_RECORD's dumps go",
        lambda value: pathlib.Path(value).is_dir(),
    ),
    Variable(
        "KINETO_SPYRE_RECORD_SIGNAL",
        "a signal's name, such as USR2",
        "none",
        "a signal that makes KINETO_SPYRE_RECORD's recorder write a dump",
        lambda value: signal_number(value) is not None,
        "a handler of the signal, until the program sets one of its own",
    ),
    Variable(
        "KINETO_SPYRE_RECORD_PORT",
        "a whole number from 1 to 65535",
        "none",
        "KINETO_SPYRE_RECORD's recorder answers HTTP on this port of 127.0.0.1",
        _is_count(1, 65535),
        "a thread that waits",
    ),
    Variable(
        "KINETO_SPYRE_FAULTS",
        "a comma-separated list of key=value",
        "none",
        "faults that the emulated Spyre shows, as kineto_spyre.emulator.faults() takes them",
        lambda value: all(re.fullmatch(r"\s*\w+=[^,]+", part) for part in value.split(",")),
        "traces are wrong on purpose",
    ),
)
BUILD_TIME = ("KINETO_SPYRE_TORCH_DIR", "KINETO_SPYRE_TORCH", "KINETO_SPYRE_TESTS")


def text(name: str) -> str:
    """The value of one of our variables, or "" where it is not set."""
    assert name in {variable.name for variable in VARIABLES}
    return os.environ.get(name, "")


def is_off(name: str) -> bool:
    """Whether a 0-or-1 variable is set to 0, whatever else it may not be."""
    return text(name).strip().lower() in FALSE


def check(environment: Mapping[str, str] = os.environ) -> list[str]:
    """One sentence for each variable of ours that is unknown or has a value that can't be read."""
    known = {v.name: v for v in VARIABLES}
    sentences = []
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in BUILD_TIME:
            continue
        variable = known.get(name)
        if variable is None:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Its variables are {', '.join(known)}."
            sentences.append(f"{name} is not a variable of kineto_spyre. {hint}")
        elif value and not variable.fits(value):
            sentences.append(
                f"{name} is {value!r}; expected {variable.values}. Correct it, or unset it for the default "
                f"({variable.default})."
            )
    return sentences


def flag(name: str, default: bool) -> bool:
    """The value of a 0-or-1 variable. Raises SpyreProfilerError, with a sentence, for anything else."""
    value = text(name).strip().lower()
    if not value:
        return default
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise SpyreProfilerError(f"{name} is {text(name)!r}; expected 0 or 1. Correct it, or unset it.")


def kineto_asks_daemon() -> bool:
    """Whether Kineto asks a daemon for work. Kineto's own variable: any value turns it on, "0" as well."""
    return "KINETO_USE_DAEMON" in os.environ


def count(name: str, default: int) -> int:
    """The value of a variable that holds a whole number. Raises SpyreProfilerError, with a sentence, for other text."""
    value = text(name).strip()
    if not value:
        return default
    (variable,) = (v for v in VARIABLES if v.name == name)
    if not variable.fits(value):
        raise SpyreProfilerError(f"{name} is {text(name)!r}; expected {variable.values}. Correct it, or unset it.")
    return int(value)


def settings() -> dict[str, Any]:
    """What a session of the C++ side uses, with one problem (variable, value, expected, default) for each bad value."""
    problems: list[dict[str, str]] = []
    known = {v.name: v for v in VARIABLES}

    def value(name: str) -> str:
        found = text(name)
        if not found or known[name].fits(found):
            return found
        variable = known[name]
        problems.append({"variable": name, "value": found, "expected": variable.values, "default": variable.default})
        return ""

    buffer, timeout = value("KINETO_SPYRE_BUFFER_MB"), value("KINETO_SPYRE_FLUSH_TIMEOUT_MS")
    return {
        "align_clocks": value("KINETO_SPYRE_CLOCK_ALIGN") != "off",
        "flush_timeout_ms": int(timeout or known["KINETO_SPYRE_FLUSH_TIMEOUT_MS"].default),
        "buffer_mib": float(buffer) if buffer else None,
        "named_library": text("KINETO_SPYRE_LIBAIUPTI"),
        "problems": problems,
    }


def in_use() -> dict[str, str]:
    """The variables that a session reads, with the values that it would use."""
    read = settings()
    return {
        "KINETO_SPYRE_BUFFER_MB": f"{read['buffer_mib'] or 1024:g}",
        "KINETO_SPYRE_CLOCK_ALIGN": "auto" if read["align_clocks"] else "off",
        "KINETO_SPYRE_FLUSH_TIMEOUT_MS": str(read["flush_timeout_ms"]),
    }
