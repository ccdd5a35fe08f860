"""The table for a terminal, and the JSON that a user can attach to a report: numbers, and no names of theirs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import pathlib
import platform
from collections.abc import Iterator
from typing import Any, TextIO

from . import Outcome
from .judge import COSTS, EXPECTED, HANDLED, UNKNOWN, variations

FORMAT = "kineto-spyre selftest 1"
_WORDS = {EXPECTED: "ok", HANDLED: "differs", COSTS: "COSTS", UNKNOWN: "unknown"}
_STYLES = {EXPECTED: "green", HANDLED: "yellow", COSTS: "bold red", UNKNOWN: "dim"}


def rows(outcome: Outcome) -> Iterator[tuple[str, str, str, str, str]]:
    """State, state's word, assumption, found, effect; a variation's name stands with what was found."""
    for finding in outcome.findings:
        found = f"{finding.found} [{finding.variation}]" if finding.variation else finding.found
        effect = "" if finding.effect == "none" else finding.effect
        yield finding.state, _WORDS[finding.state], finding.assumption, found, effect


def summary(outcome: Outcome) -> str:
    counts = {state: sum(f.state == state for f in outcome.findings) for state in _WORDS}
    parts = [f"{counts[EXPECTED]} as expected"]
    if counts[HANDLED]:
        parts.append(f"{counts[HANDLED]} different and handled")
    if counts[COSTS]:
        parts.append(f"{counts[COSTS]} that cost something")
    if counts[UNKNOWN]:
        parts.append(f"{counts[UNKNOWN]} not found out")
    named = variations(outcome.findings)
    text = f"{len(outcome.findings)} assumptions in {outcome.seconds:.0f} s: {', '.join(parts)}."
    return text + (f" Variations: {', '.join(named)}." if named else "")


def print_table(outcome: Outcome, out: TextIO) -> None:
    """With colours on a terminal, where rich is installed; else as plain text."""
    if out.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table("", "assumption", "found", "effect", header_style="bold")
            for state, word, *cells in rows(outcome):
                # Square brackets are markup there.
                table.add_row(f"[{_STYLES[state]}]{word}[/]", *(cell.replace("[", "\\[") for cell in cells))
            Console(file=out).print(table)
            print(summary(outcome), file=out)
            return
    for _, word, assumption, found, effect in rows(outcome):
        print(f"{word:8}{assumption}", file=out)
        print(f"        found: {found}", file=out)
        if effect:
            print(f"        effect: {effect}", file=out)
    print(summary(outcome), file=out)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def document(outcome: Outcome) -> dict[str, Any]:
    """For a report. Of troubles only the type of the exception: its text may hold names."""
    from .. import __version__

    content = pathlib.Path(outcome.library).read_bytes()
    return {
        "format": FORMAT,
        "kineto_spyre": __version__,
        "torch": _version("torch"),
        "torch_spyre": _version("torch-spyre"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "library": {
            "emulated": outcome.emulated,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
        "seconds": round(outcome.seconds, 1),
        "variations": variations(outcome.findings),
        "findings": [
            {
                "key": f.key,
                "state": f.state,
                "assumption": f.assumption,
                "found": f.found,
                "effect": f.effect,
                "variation": f.variation,
            }
            for f in outcome.findings
        ],
        "died": outcome.result.died,
        "troubles": {probe: text.split(":", 1)[0] for probe, text in outcome.result.troubles.items()},
        "facts": outcome.result.facts,
    }
