"""What the last profiling session captured, and what it could not."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field

from ..diagnostics import Diagnostic, is_complete, parse
from ._details import Category, Details, InvalidReason
from ._extension import extension
from ._layers import diagnostics_within


@dataclass(frozen=True)
class DeviceClock:
    """How a device's clock relates to the host's: host = device - (offset + drift * (device - reference)).

    Attributes:
        applied: whether the device's times were corrected.
        offset_ns: the device's clock less the host's at the reference, in nanoseconds.
        drift_ppm: how much faster the device's clock runs, in parts per million.
        reference_ns: where the offset holds, in nanoseconds since the epoch on the device's clock.
        pairs: how many launches were compared with their work.
        earliest_ns: the least time from the begin of a launch to the begin of its work before any correction, in
            nanoseconds.
        reason: why the times were corrected or kept, as a sentence.
        uncertainty_ns: the true offset is at most this much lower, in nanoseconds; None if nothing bounds it.
    """

    applied: bool
    offset_ns: int
    drift_ppm: float
    reference_ns: int
    pairs: int
    earliest_ns: int
    reason: str
    uncertainty_ns: int | None = None


@dataclass(frozen=True)
class Session:
    """What the last profiling session with a Spyre in it captured, and what it could not.

    Attributes:
        captured: records in the trace, by category.
        invalid: records that were left out because they are wrong, by reason.
        dropped: records that were never recorded because there was no room.
        out_of_window: records of what happened before start or after stop.
        overlaps: kernels that begin before the one before them on their stream has ended: a fault of the data.
        complete: whether nothing is missing, as far as is known.
        clock: how the clock of each device relates to the host's, by device.
        diagnostics: what went wrong, and what a reader of the trace must know.
        details: all of the trace's metadata `kineto_spyre`.
    """

    captured: dict[Category, int]
    invalid: dict[InvalidReason, int]
    dropped: int
    out_of_window: int
    overlaps: int
    complete: bool
    clock: dict[int, DeviceClock]
    diagnostics: list[Diagnostic]
    details: Details = field(repr=False)

    @property
    def warnings(self) -> list[str]:
        """The sentences that also came as Python warnings."""
        return [found.sentence for found in self.diagnostics if found.severity != "note"]

    @property
    def refused(self) -> dict[InvalidReason, int]:
        """Deprecated: `invalid`."""
        _deprecated("refused", "invalid")
        return self.invalid

    @property
    def lost(self) -> int:
        """Deprecated: `dropped`."""
        _deprecated("lost", "dropped")
        return self.dropped

    @property
    def outside(self) -> int:
        """Deprecated: `out_of_window`."""
        _deprecated("outside", "out_of_window")
        return self.out_of_window


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"Session.{old} is now Session.{new}. Use the new name; the next release removes the old one.",
        DeprecationWarning,
        stacklevel=3,
    )


def last_session() -> Session | None:
    """What the last profiling session captured, dropped and found to be invalid; None before the first one has ended.

    >>> with kineto_spyre.profile_spyre():
    ...     y = x + x
    >>> kineto_spyre.last_session().captured["kernel"]
    1

    Raises:
        SpyreProfilerError: torch is another release than the wheel was built for.
    """
    text: str = extension().last_session_json()
    if not text:
        return None
    details: Details = json.loads(text)
    found = parse(details["diagnostics"])
    found += diagnostics_within(details["window_begin_ns"], details["window_end_ns"])
    return Session(
        captured=details["captured"],
        invalid=details["invalid"],
        dropped=details["dropped"],
        out_of_window=details["out_of_window"],
        overlaps=details["overlaps"],
        complete=is_complete(found),
        clock={int(device): DeviceClock(**clock) for device, clock in details["clock"].items()},
        diagnostics=found,
        details=details,
    )
