"""The trace's metadata key `kineto_spyre`, typed: what `last_session().details` holds.

csrc/kineto/session_report.cpp writes it. docs/reference/metadata.md is made of the docstrings here, and a test compares
the keys and types with those of a session, so the three can't differ.
"""

from __future__ import annotations

from typing import Literal, TypedDict

Category = Literal["kernel", "memcpy", "memset", "memory", "runtime", "driver", "prepare"]
InvalidReason = Literal[
    "start_zero",
    "end_before_start",
    "unreasonable_time",
    "unknown_kind",
    "shorter_record",
    "malformed",
    "duplicate",
    "foreign_process",
    "too_many_tracks",
]
RecordKind = Literal["compute", "memset", "memory", "memcpy", "memcpy2", "runtime", "driver", "other"]


class Versions(TypedDict):
    """What the plugin was built from.

    Attributes:
        kineto_spyre: the release.
        built_for_torch: the minor release of PyTorch that the wheel was built for.
        libaiupti_header: "own" (kineto-spyre's) or "SDK" (LIBAIUPTI_INSTALL_DIR).
    """

    kineto_spyre: str
    built_for_torch: str
    libaiupti_header: str


class FoundDiagnostic(TypedDict):
    """One diagnostic.

    Attributes:
        code: its name in the [table of diagnostics](diagnostics.md).
        count: how often; at least 1.
        details: what the sentence names in braces.
    """

    code: str
    count: int
    details: dict[str, str | int | float]


class _Uncertainty(TypedDict, total=False):
    uncertainty_ns: int


class ClockDetails(_Uncertainty):
    """How one device's clock relates to the host's: host = device - (offset + drift * (device - reference)).

    Attributes:
        applied: whether the device's times were corrected.
        offset_ns: the device's clock less the host's at the reference, in nanoseconds.
        drift_ppm: how much faster the device's clock runs, in parts per million.
        reference_ns: where the offset holds, in nanoseconds since the epoch on the device's clock.
        pairs: how many launches were compared with their work.
        earliest_ns: the least time from the begin of a launch to the begin of its work before any correction, in
            nanoseconds.
        uncertainty_ns: the true offset is at most this much lower, in nanoseconds. Left out if nothing bounds it.
        reason: why the times were corrected or kept, as a sentence.
    """

    applied: bool
    offset_ns: int
    drift_ppm: float
    reference_ns: int
    pairs: int
    earliest_ns: int
    reason: str


class RecordSize(TypedDict):
    """Sizes of libaiupti's records of one kind.

    Attributes:
        built: bytes of a record, as this wheel was built.
        seen: bytes of a record, as the session saw them; 0 before a session saw one.
    """

    built: int
    seen: int


class Details(TypedDict):
    """All that one session says of itself.

    Attributes:
        versions: what the plugin was built from.
        runtime: "aiupti" (a real Spyre), "emulated" or "" (none was chosen).
        library: the path of the libaiupti that recorded; null if none was opened.
        complete: whether nothing is missing, as far as is known.
        diagnostics: what went wrong, and what a reader of the trace must know.
        records_read: records that libaiupti delivered.
        captured: records in the trace, by category.
        invalid: records that were left out because they are wrong, by reason. Reasons that were not met are left out.
        dropped: records that were never recorded because there was no room.
        out_of_window: records of what happened before start or after stop.
        not_requested: records that served to join others and are not in the trace, because their activity was not
            asked for.
        overlaps: kernels that begin before the one before them on their stream has ended.
        before_launch: pieces of device work that begin before the call that launched them.
        unlinked: pieces of device work whose launch was not recorded.
        long_kernels: kernels longer than a second.
        unknown_calls: host calls with a callback id that this build does not know.
        unfinished_reads: buffers whose end libaiupti's iterator did not reach.
        prepare_operations: records of preparations, in the trace or not.
        buffer_requests_refused: how often libaiupti asked for a buffer when all were full.
        op_events_dropped: begins and ends of ops for which there was no room.
        late_buffers: buffers that came back after their session had ended.
        unknown_buffers: buffers that came back and were not lent.
        oversized_buffers: buffers that came back with more bytes than they hold.
        buffers_not_returned: buffers that did not come back.
        clock: how the clock of each device relates to the host's, by device.
        devices: the devices that did something, in ascending order.
        records: sizes of libaiupti's records, by kind. Kinds that were not met are left out.
        window_begin_ns: when recording began, in nanoseconds since the epoch on the host's clock.
        window_end_ns: when recording ended, in nanoseconds since the epoch on the host's clock.
    """

    versions: Versions
    runtime: str
    library: str | None
    complete: bool
    diagnostics: list[FoundDiagnostic]
    records_read: int
    captured: dict[Category, int]
    invalid: dict[InvalidReason, int]
    dropped: int
    out_of_window: int
    not_requested: int
    overlaps: int
    before_launch: int
    unlinked: int
    long_kernels: int
    unknown_calls: int
    unfinished_reads: int
    prepare_operations: int
    buffer_requests_refused: int
    op_events_dropped: int
    late_buffers: int
    unknown_buffers: int
    oversized_buffers: int
    buffers_not_returned: int
    clock: dict[str, ClockDetails]
    devices: list[int]
    records: dict[RecordKind, RecordSize]
    window_begin_ns: int
    window_end_ns: int
