"""What the records of a session say: pure functions over bytes, with what the work is known to have been.

Nothing of a record's layout is taken for granted but its first byte, the kind. Sizes come from the steps of the
library's own iterator. A field is looked for where this build expects it, and, if what stands there can't be it,
everywhere else.
"""

from __future__ import annotations

import statistics
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = {
    1: "compute",
    2: "memset",
    3: "memory",
    4: "memcpy",
    5: "memcpy2",
    6: "runtime",
    7: "driver",
    8: "synchronization",
    9: "event",
    10: "environment",
    11: "metric",
}
DAY_NS = 86_400 * 10**9
ENOUGH = 0.9  # of a kind's records must have a plausible value in a field


@dataclass(frozen=True)
class Truth:
    """What is known of the work that the records tell of."""

    process: int
    pieces: list[dict[str, Any]]  # work.Piece, as plain values
    sizes: dict[str, int]  # bytes that a piece of work of that name moves
    exists: Callable[[int], bool] = lambda process: False  # whether a process has that id here

    @property
    def threads(self) -> set[int]:
        return {piece["thread"] for piece in self.pieces}

    @property
    def begin(self) -> int:
        return min(int(piece["begin"]) for piece in self.pieces)

    @property
    def end(self) -> int:
        return max(int(piece["end"]) for piece in self.pieces)


def cut(content: bytes, steps: Sequence[Sequence[int]]) -> list[bytes]:
    """The records of a buffer, by the steps of the iterator. A step that leaves the order ends it."""
    offsets: list[int] = []
    for code, offset in steps:
        if code != 0 or offset < (offsets[-1] + 1 if offsets else 0):
            break
        offsets.append(offset)
    ends = [*offsets[1:], len(content)]
    return [content[begin:end] for begin, end in zip(offsets, ends)]


def sizes(records: Iterable[bytes]) -> dict[str, dict[int, int]]:
    """How many records have which size, by kind."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for record in records:
        found[kind_name(record[0])][len(record)] += 1
    return {kind: dict(counts) for kind, counts in found.items()}


def kind_name(kind: int) -> str:
    return KINDS.get(kind, f"kind {kind}")


def values(records: Sequence[bytes], offset: int, size: int) -> list[int] | None:
    """What stands at an offset; None if a record is too short for it."""
    if any(len(record) < offset + size for record in records):
        return None
    return [int.from_bytes(record[offset : offset + size], _byte_order()) for record in records]


def _byte_order() -> Any:
    return "little" if struct.pack("=H", 1)[0] == 1 else "big"


def mostly(found: Sequence[int] | None, fits: Callable[[int], bool]) -> bool:
    return bool(found) and sum(map(fits, found or ())) >= ENOUGH * len(found or ())


Fields = dict[str, int | None]


def locate(
    records: Sequence[bytes], expected: dict[str, Sequence[int]], truth: Truth, known: set[int]
) -> dict[str, Any]:
    """Where the fields of one kind are: {"expected": offset, "found": offset or None} by field.

    known: the correlation ids of the other side (device work for calls, calls for device work).
    """
    least, length = min(map(len, records)), len(records)
    result: dict[str, Any] = {}
    near = (truth.begin - DAY_NS, truth.end + DAY_NS)

    def place(field: str, size: int, fits: Callable[[list[int]], bool]) -> None:
        at = expected.get(field, (None,))[0]
        order = [] if at is None else [at]
        order += [offset for offset in range(size, least - size + 1, size) if offset != at]
        found = next((o for o in order if (seen := values(records, o, size)) is not None and fits(seen)), None)
        result[field] = {"expected": at, "found": found}

    place("start", 8, lambda seen: mostly(seen, lambda v: near[0] <= v <= near[1]))
    start = result["start"]["found"]
    if start is not None:
        begins = values(records, start, 8) or []
        # The nearest field behind the begin (or before it) that never lies before it.
        place(
            "end",
            8,
            lambda seen: (
                seen != begins
                and mostly(seen, lambda v: near[0] <= v <= near[1])
                and sum(a <= b for a, b in zip(begins, seen)) >= ENOUGH * length
            ),
        )
    if known and length >= 2:
        place("correlation_id", 4, lambda seen: mostly_known(seen, known))
    if "process_id" in expected:
        place("process_id", 4, lambda seen: mostly(seen, lambda v: v == truth.process))
    if "thread_id" in expected:
        place("thread_id", 4, lambda seen: mostly(seen, lambda v: v in truth.threads))
    if "bytes" in expected and truth.sizes:
        wanted = set(truth.sizes.values())
        place("bytes", 8, lambda seen: sum(v in wanted for v in seen) >= 1)
    return result


def mostly_known(seen: Sequence[int], known: set[int]) -> bool:
    """At least half of the distinct non-zero values are ids of the other side, and there are several."""
    distinct = {value for value in seen if value}
    return len(distinct) >= 2 and len(distinct & known) >= max(2, len(distinct) // 2)


def operation_kinds(records: Sequence[bytes]) -> dict[int, int]:
    """The second byte of compute records: 1 prepare, 2 execute, others unknown."""
    return dict(Counter(record[1] for record in records))


def stamps(records: Sequence[bytes], first: int | None, last: int | None) -> dict[str, Any]:
    """Of the five cycle stamps: how many records have any, and how many bits the largest needs; {} without them."""
    if first is None or last is None:
        return {}
    seen = [values([r], o, 8) for r in records if len(r) >= last + 8 for o in range(first, last + 1, 8)]
    flat = [value[0] for value in seen if value]
    if not flat:
        return {}
    rows = [flat[i : i + 5] for i in range(0, len(flat), 5)]
    return {"records": len(rows), "with_stamps": sum(any(row) for row in rows), "bits": max(flat).bit_length()}


def names(records: Sequence[bytes], offset: int | None, size: int) -> dict[str, int]:
    """Of the kernels' names, only whether they look like names: the names themselves stay here."""
    good = ended = 0
    for record in records:
        text = b"" if offset is None else record[offset : offset + size]
        head = text.split(b"\0", 1)[0]
        ended += b"\0" in text
        good += bool(head) and all(32 <= byte < 127 for byte in head)
    return {"records": len(records), "readable": good, "terminated": ended}


def clock_offset(spans: Sequence[tuple[int, int]], pieces: Sequence[tuple[int, int]]) -> dict[str, int] | None:
    """By how much the clock of `spans` is ahead of the host's, at least and at most, in ns.

    Each span lies within its piece, whose times are the host's: so begin - piece.begin is an upper bound, and
    end - piece.end a lower one.
    """
    if not spans:
        return None
    return {
        "least_ns": max(end - piece_end for (_, end), (_, piece_end) in zip(spans, pieces)),
        "most_ns": min(begin - piece_begin for (begin, _), (piece_begin, _) in zip(spans, pieces)),
        "pairs": len(spans),
    }


def duration(spans: Sequence[tuple[int, int]]) -> float:
    """The median length of spans, in ns."""
    return statistics.median(end - begin for begin, end in spans) if spans else 0.0


def read(records: Sequence[bytes], truth: Truth, layouts: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the records of one session tell, by the layouts that this build expects."""
    groups = {layout["record"]: [r for r in records if r[0] in layout["kinds"]] for layout in layouts}
    expected = {layout["record"]: layout["fields"] for layout in layouts}
    fields: dict[str, Any] = {}
    # Calls and device work know each other by correlation ids, so each needs the other's. The calls come first, with
    # those ids of device work that stand where they are expected; then the work, with the calls' true ids.
    work = set().union(*(_ids(groups[name], _at(expected[name], "correlation_id")) for name in groups if name != "api"))
    if groups["api"]:
        fields["api"] = locate(groups["api"], expected["api"], truth, work)
    calls = _ids(groups["api"], _found(fields.get("api", {}), "correlation_id"))
    for name, group in groups.items():
        if group and name != "api":
            fields[name] = locate(group, expected[name], truth, calls)
    api = _calls(groups["api"], fields.get("api", {}), truth)
    known = {call["id"] for call in api}
    return {
        "bytes_expected": {layout["record"]: layout["bytes"] for layout in layouts},
        "fields": fields,
        "correlation": {
            name: _joined(groups[name], fields.get(name, {}), known)
            for name in groups
            if name != "api" and groups[name]
        },
        "process": _process(groups["api"], expected["api"], truth),
        "threads": _threads(api, truth),
        "clocks": _clocks(groups, fields, api, truth),
        "queued": _queued(groups["compute"], expected["compute"], truth),
        "waits": _waits(groups, expected, fields, api, truth),
        "operation_kinds": operation_kinds(groups["compute"]),
        "stamps": {
            name: stamps(groups[name], _at(expected[name], "cycles_ts1"), _at(expected[name], "cycles_ts5"))
            for name in ("compute", "memcpy")
        },
        "names": names(groups["compute"], _at(expected["compute"], "name"), 128),
    }


def _at(fields: dict[str, Any], name: str) -> int | None:
    return fields[name][0] if name in fields else None


def _ids(records: Sequence[bytes], at: int | None) -> set[int]:
    found = None if at is None else values(records, at, 4)
    return {value for value in found or () if value}


def _found(fields: dict[str, Any], name: str) -> int | None:
    return fields[name]["found"] if name in fields else None


def _calls(records: Sequence[bytes], fields: dict[str, Any], truth: Truth) -> list[dict[str, Any]]:
    """The host calls, by the fields that were found."""
    offsets = {name: _found(fields, name) for name in ("start", "end", "correlation_id")}
    # Where no thread is found, what stands in its place is still worth a word: all zero, for example.
    thread = _found(fields, "thread_id")
    if thread is None and "thread_id" in fields:
        thread = fields["thread_id"]["expected"]
    calls = []
    for record in records:
        call = {
            name: None if at is None else (values([record], at, _WIDTH[name]) or [0])[0] for name, at in offsets.items()
        }
        calls.append({**call, "id": call["correlation_id"] or 0, "thread": _one(record, thread)})
    return calls


_WIDTH = {"start": 8, "end": 8, "correlation_id": 4}


def _one(record: bytes, at: int | None) -> int | None:
    found = None if at is None else values([record], at, 4)
    return found[0] if found else None


def _joined(records: Sequence[bytes], fields: dict[str, Any], calls: set[int]) -> dict[str, int]:
    at = _found(fields, "correlation_id")
    if at is None and "correlation_id" in fields:
        at = fields["correlation_id"]["expected"]
    ids = [] if at is None else values(records, at, 4) or []
    return {"records": len(records), "with_id": sum(map(bool, ids)), "of_a_call": sum(i in calls for i in ids if i)}


def _threads(calls: list[dict[str, Any]], truth: Truth) -> dict[str, int]:
    """Of the calls that lie within a piece of work: how many name the thread that did it."""
    counts = {"calls": 0, "right": 0, "zero": 0, "without": 0}
    for call in calls:
        if call["start"] is None:
            continue
        for piece in truth.pieces:
            if piece["begin"] <= call["start"] <= piece["end"]:
                counts["calls"] += 1
                counts["without"] += call["thread"] is None
                counts["zero"] += call["thread"] == 0
                counts["right"] += call["thread"] == piece["thread"]
    return counts


def _process(records: Sequence[bytes], expected: dict[str, Any], truth: Truth) -> dict[str, int]:
    """Of host calls, how many name this process, and how many processes they name."""
    at = _at(expected, "process_id")
    seen = [] if at is None else values(records, at, 4) or []
    return {
        "calls": len(seen),
        "own": sum(value == truth.process for value in seen),
        "distinct": len(set(seen)),
        "existing": sum(map(truth.exists, set(seen))),
    }


def _clocks(
    groups: dict[str, list[bytes]], fields: dict[str, Any], calls: list[dict[str, Any]], truth: Truth
) -> dict[str, Any]:
    """The clock of host calls and that of device work, against this process's CLOCK_REALTIME."""
    # All calls lie within all of the work; a finer pair would take the clock for granted that is asked for.
    whole = (truth.begin, truth.end)
    host = [(c["start"], c["end"]) for c in calls if c["start"] is not None and c["end"] is not None]
    begun = {c["id"]: c["start"] for c in calls if c["id"] and c["start"] is not None}
    spans, pairs = [], []
    for name in ("compute", "memcpy", "memset"):
        at = {field: _found(fields.get(name, {}), field) for field in ("start", "end", "correlation_id")}
        if at["start"] is None or at["end"] is None:
            continue
        for record in groups[name]:
            span = [(values([record], at[field] or 0, 8) or [0])[0] for field in ("start", "end")]
            launched = begun.get(_one(record, at["correlation_id"]) or 0)
            piece = next((p for p in truth.pieces if launched is not None and p["begin"] <= launched <= p["end"]), None)
            spans.append((span[0], span[1]))
            pairs.append(whole if piece is None or launched is None else (launched, piece["end"]))
    return {"host": clock_offset(host, [whole] * len(host)), "device": clock_offset(spans, pairs)}


def _queued(records: Sequence[bytes], expected: dict[str, Any], truth: Truth) -> dict[str, int]:
    """Of compute records, how many were queued while the work was done, by this process's CLOCK_REALTIME."""
    at = _at(expected, "queued")
    seen = [] if at is None else values(records, at, 8) or []
    return {"records": len(seen), "of_the_host": sum(truth.begin <= value <= truth.end for value in seen)}


WAIT = 17  # aiuScheduleWait


def _waits(
    groups: dict[str, list[bytes]],
    expected: dict[str, Any],
    fields: dict[str, Any],
    calls: list[dict[str, Any]],
    truth: Truth,
) -> dict[str, int]:
    """Of the calls that wait, how many end before work that was launched before them in the same piece of work."""
    cbid = expected["api"].get("cbid")
    ends: dict[int, int] = {}  # by correlation id: the latest end of its work
    for name in ("compute", "memcpy", "memset"):
        at, end = (_found(fields.get(name, {}), field) for field in ("correlation_id", "end"))
        if at is None or end is None:
            continue
        for record in groups[name]:
            key = _one(record, at) or 0
            ends[key] = max(ends.get(key, 0), (values([record], end, 8) or [0])[0])
    found = {"waits": 0, "early": 0}
    for record, call in zip(groups["api"], calls):
        if cbid is None or call["start"] is None or call["end"] is None:
            continue
        if (values([record], cbid[0], cbid[1]) or [0])[0] != WAIT:
            continue
        piece = next((p for p in truth.pieces if p["begin"] <= call["start"] <= p["end"]), None)
        before = [c["id"] for c in calls if piece and c["start"] and piece["begin"] <= c["start"] < call["start"]]
        work = [ends[key] for key in before if key in ends]
        if work:
            found["waits"] += 1
            found["early"] += max(work) > call["end"]
    return found
