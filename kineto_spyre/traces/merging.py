"""Several ranks' traces as one, for viewers that show one timeline.

Of the first rank nothing is moved; every other rank's times are brought onto its clock (`clocks`). What would collide
is made distinct: each process gets a number of its own (its name is preceded by `rank N`), each arrow an id of its
own. All else of an event is kept. Of the traces' keys the first rank's are kept, without `distributedInfo`; the key
`merged` says for each rank what was done. The JSON of all ranks is held in memory.

Errors: Unmergeable, with a sentence; Unreadable, as `read` raises it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from kineto_spyre.traces.clocks import Fit, fit
from kineto_spyre.traces.collectives import Collectives, found, paired
from kineto_spyre.traces.json_text import Unreadable
from kineto_spyre.traces.opening import opened
from kineto_spyre.traces.trace import read

Path = "str | os.PathLike[str]"
_ARROWS = ("s", "t", "f")
_PIECE = 1 << 24


class Unmergeable(Exception):
    """These traces are not ranks of one run; the message is a sentence that names them and says what to do."""


@dataclass
class Rank:
    """A trace that takes part.

    Attributes:
        number: its rank.
        source: its path.
        collectives: see `collectives`.
        fit: how far its clock leads the first rank's.
    """

    number: int
    source: str
    collectives: Collectives
    fit: Fit


def ranks(sources: Sequence[str], keep_clocks: bool = False) -> list[Rank]:
    """Reads the traces and finds out how far their clocks are apart. The first is the reference.

    Args:
        keep_clocks: take all clocks for equal, and look for no collectives.

    Raises:
        Unreadable: one is no trace; `source` of the exception names it.
        Unmergeable: they don't belong together.
    """
    made: list[Rank] = []
    sizes: dict[int, str] = {}
    for source in sources:
        try:
            trace = read(source)
            if trace.problem is not None:
                raise Unreadable(trace.problem)
        except Unreadable as error:
            raise Unreadable(f"{source} {error}") from None
        info = trace.metadata.get("distributedInfo")
        number, size = (info.get("rank"), info.get("world_size")) if isinstance(info, dict) else (None, None)
        if type(number) is not int:
            raise Unmergeable(
                f"{source} does not say which rank it is (distributedInfo.rank): profile after "
                "torch.distributed.init_process_group."
            )
        for before in made:
            if before.number == number:
                raise Unmergeable(f"{before.source} and {source} are both rank {number}; name each rank once.")
        if type(size) is int:
            sizes.setdefault(size, source)
        made.append(Rank(number, source, {} if keep_clocks else found(trace), Fit()))
    if len(sizes) > 1:
        (size, one), (other_size, other) = list(sizes.items())[:2]
        raise Unmergeable(
            f"{one} is of a run of {size} ranks and {other} of a run of {other_size}; name the ranks of one run."
        )
    if not keep_clocks:
        for rank in made[1:]:
            rank.fit = _fit(made[0], rank)
    return made


def _fit(first: Rank, rank: Rank) -> Fit:
    for one in (first, rank):
        if not one.collectives:
            raise Unmergeable(
                f"{one.source} holds no collective that all ranks wait for (such as gloo:all_reduce), so its clock "
                "can't be aligned: profile a step that has one, or pass --keep-clocks if all ranks ran on one machine."
            )
    pairs = paired(first.collectives, rank.collectives)
    if not len(pairs):
        raise Unmergeable(
            f"{first.source} and {rank.source} have no collective in common (none has the same name and shapes); name "
            "ranks of one run, or pass --keep-clocks if all ranks ran on one machine."
        )
    try:
        return fit(*pairs.T)
    except ValueError:
        raise Unmergeable(
            f"The collectives of {first.source} and {rank.source} don't match: in no alignment of the clocks does each "
            "end after both ranks came. Name traces of the same steps of one run."
        ) from None


def text(merged: Sequence[Rank]) -> Iterator[bytes]:
    """The pieces of the merged trace's JSON.

    Raises:
        Unreadable: a trace is no strict JSON.
        OSError: a trace can't be read any more.
    """
    documents = [_document(rank.source) for rank in merged]
    head = {key: value for key, value in documents[0][0].items() if key not in ("traceEvents", "distributedInfo")}
    head["traceName"] = msgspec.Raw(b'"merged"')
    base = documents[0][1]
    yield b"{\n"
    for key, value in head.items():
        yield msgspec.json.encode(key) + b": " + bytes(value) + b",\n"
    yield b'"merged": ' + msgspec.json.encode([_said(rank) for rank in merged]) + b',\n"traceEvents": ['
    pids: dict[tuple[int, Any], int] = {}
    arrows: dict[tuple[int, Any, Any], int] = {}
    comma = b"\n"
    for place, (rank, (document, own_base)) in enumerate(zip(merged, documents)):
        mover = _Mover(rank, place, own_base, base, pids, arrows)
        for event in msgspec.json.decode(document["traceEvents"], type=list[dict[str, Any]]):
            yield comma + msgspec.json.encode(mover.moved(event))
            comma = b",\n"
        for event in mover.names():
            yield comma + msgspec.json.encode(event)
        documents[place] = ({}, 0)  # not needed any more
    yield b"\n]}\n"


def _document(source: str) -> tuple[dict[str, msgspec.Raw], int]:
    with opened(source) as stream:
        content = b"".join(iter(lambda: stream.read(_PIECE), b""))
    try:
        document = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        base = msgspec.json.decode(document.get("baseTimeNanoseconds", msgspec.Raw(b"0")))
        msgspec.json.decode(document["traceEvents"], type=list[dict[str, msgspec.Raw]])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise Unreadable(f"{source} is not strict JSON ({error}). Export the trace again") from None
    return document, base if type(base) is int else 0


def _said(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.number,
        "source": os.path.basename(rank.source),
        "offset_ns": round(rank.fit.offset),
        "drift_ppm": round(rank.fit.rate * 1e6, 3),
        "usual_error_ns": round(rank.fit.usual_error),
        "most_error_ns": round(rank.fit.error),
        "collectives": rank.fit.pairs,
    }


class _Mover:
    """Moves the events of one rank."""

    def __init__(
        self, rank: Rank, place: int, own_base: int, base: int,
        pids: dict[tuple[int, Any], int], arrows: dict[tuple[int, Any, Any], int],
    ) -> None:  # fmt: skip
        self._rank, self._place, self._own_base, self._base = rank, place, own_base, base
        self._pids, self._arrows = pids, arrows
        self._named: set[int] = set()
        self._used: dict[int, Any] = {}

    def moved(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event, changed in place."""
        if "pid" in event:
            event["pid"] = self._pid(event["pid"])
        if event.get("ph") == "M":
            self._rename(event)
            return event
        begin, duration = event.get("ts"), event.get("dur")
        if isinstance(begin, (int, float)):
            at = self._time(begin)
            event["ts"] = at / 1000
            if isinstance(duration, (int, float)):
                # The end is moved, not the duration, so that what ended together still does.
                event["dur"] = (self._time(begin, duration) - at) / 1000
        if event.get("ph") in _ARROWS and "id" in event:
            key = (self._place, event.get("cat"), _hashable(event["id"]))
            event["id"] = self._arrows.setdefault(key, len(self._arrows) + 1)
        return event

    def names(self) -> Iterator[dict[str, Any]]:
        """A name for each process that had none."""
        for pid, old in self._used.items():
            if pid not in self._named:
                args = {"name": f"rank {self._rank.number}: {old}"}
                yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": args}

    def _pid(self, old: Any) -> int:
        new = self._pids.setdefault((self._place, _hashable(old)), len(self._pids) + 1)
        self._used[new] = old
        return new

    def _rename(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if type(args) is not dict:
            return
        for name, key in (("process_name", "name"), ("process_labels", "labels")):
            if event.get("name") == name and type(args.get(key)) is str:
                args[key] = f"rank {self._rank.number}: {args[key]}"
                if key == "name":
                    self._named.add(event["pid"])

    def _time(self, begin: float, duration: float = 0) -> int:
        """Nanoseconds in the merged trace's timeline."""
        # Decimal: a float of microseconds times 1000 is off by a nanosecond now and then.
        own = self._own_base + int((Decimal(repr(begin)) + Decimal(repr(duration))) * 1000)
        return self._rank.fit.aligned(own) - self._base


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else repr(value)
