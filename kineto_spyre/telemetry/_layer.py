"""Telemetry as a layer of a trace: `profile_spyre(telemetry=True)`."""

from __future__ import annotations

from typing import Any

from kineto_spyre.diagnostics import Diagnostic
from kineto_spyre.profiler import _runtimes
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile
from kineto_spyre.telemetry.counters import events
from kineto_spyre.telemetry.metrics_file import find_files
from kineto_spyre.telemetry.sampler import Card, Sampler


class Telemetry:
    """Samples while a profile records, and adds counters and what must be known of them.

    Args:
        files: the cards' metrics files, in the order of their numbers; those of the emulated Spyre if it runs, else as
            find_files() finds them.
        hz: samples a second.
    """

    name = "telemetry"

    def __init__(self, files: list[str] | None = None, hz: float = 10) -> None:
        self._files = files
        self._hz = hz
        self._sampler = Sampler([], hz)

    @property
    def cards(self) -> list[Card]:
        """What was read in the last recording."""
        return self._sampler.cards

    def start(self) -> None:
        emulated = _runtimes.running()
        files = self._files
        if files is None:
            files = emulated.metrics_files() if emulated is not None else find_files()
        self._sampler = Sampler(files, self._hz)
        self._sampler.start()

    def stop(self) -> None:
        self._sampler.stop()

    def additions(self, trace: TraceFile) -> Additions:
        added = Additions(about={"hz": self._hz, "cards": [_about(card) for card in self.cards]})
        if not self.cards:
            added.diagnostics.append(Diagnostic("telemetry_no_files"))
        for device, card in enumerate(self.cards):
            added.events += events(device, card.samples)
            added.diagnostics += _diagnostics(device, card)
        return added


def _about(card: Card) -> dict[str, Any]:
    return {
        "file": card.path,
        "samples": len(card.samples),
        "missed": card.missed,
        "failed": card.failed,
        "stale": card.stale,
        "interval_ns": card.samples[-1].interval_ns if card.samples else None,
        "resolution": {"time_ns": 1_000_000, "W": 0.1, "C": 0.1, "bytes": 1024},
    }


def _diagnostics(device: int, card: Card) -> list[Diagnostic]:
    found = []
    if card.failed:
        details: dict[str, str | int | float] = {"device": device, "error": (card.error or "").rstrip(".")}
        found.append(Diagnostic("telemetry_unreadable", card.failed, details))
    if card.missed:
        found.append(Diagnostic("telemetry_missed", card.missed, {"device": device}))
    if card.stale:
        found.append(Diagnostic("telemetry_stale", card.stale, {"device": device, "file": card.path}))
    return found


def layer() -> Telemetry:
    """A layer with the usual settings."""
    return Telemetry()
