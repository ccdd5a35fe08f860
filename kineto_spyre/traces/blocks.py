"""A trace's bytes as blocks of typed events: the pass that everything else reads through.

    bytes ─ head (json_text) ─ [ block block block ... last event ] ─ tail (json_text)

A block is some 256 KB of whole events: small enough that the objects of one block stay in the processor's cache, which
makes the columns cheap. It is cut before a `{` that follows `},`; whether that place is between two events or inside
one is not looked for, but shown by the decoder: a piece that was cut inside an event is no JSON. What msgspec can't
decode goes value by value through json_text: events of a shape that `events` does not know (`Block.odd`), what
strict JSON forbids, and the place where a file is cut off or broken.

Raises Unreadable where the text stops being a trace, after every event before that place was given. A trace of a
version that this release does not know is read, and a warning says so (LaterVersion). Each reader of ours comes through
here or, like `cuda_names`, which copies the text, calls warn_of_later_version.
"""

from __future__ import annotations

import codecs
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import msgspec

from kineto_spyre.traces.events import ABSENT, LIMIT, TYPES, WRONG, Args, Event, MemoryArgs, Slice
from kineto_spyre.traces.json_text import Json, Unreadable, printable
from kineto_spyre.traces.opening import Stream

BLOCK = 1 << 18
KNOWN_SCHEMA = 1  # Kineto's schemaVersion
_WANTED = "Name a file that torch.profiler's export_chrome_trace wrote"
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_KEPT = {
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "kineto_spyre",
    "kineto_spyre_layers",
    "baseTimeNanoseconds",
    "displayTimeUnit",
    "traceName",
}
_NOT_TYPED = (msgspec.ValidationError, UnicodeEncodeError, RecursionError)  # what msgspec.convert raises
_RAW = [field.encode_name for field in msgspec.structs.fields(Args) if field.type is msgspec.Raw]


class LaterVersion(UserWarning):
    """A trace has a schemaVersion that this release does not know."""


def later_version(metadata: dict[str, Any]) -> str | None:
    """What to say of a trace whose schemaVersion this release does not know; None: it knows it."""
    version = metadata.get("schemaVersion")
    if type(version) is not int or version <= KNOWN_SCHEMA:
        return None
    return (
        f"has schemaVersion {version} and this kineto-spyre knows up to {KNOWN_SCHEMA}, so some of it may be "
        "missing here. Install a newer kineto-spyre."
    )


def warn_of_later_version(metadata: dict[str, Any], source: str) -> None:
    """Warns if `later_version` has something to say."""
    if later := later_version(metadata):
        warnings.warn(f"{printable(source)} {later}", LaterVersion, stacklevel=2)


class Odd(NamedTuple):
    """An event that is not as `events` has it."""

    value: Any  # as the JSON has it
    text: str


class Block(NamedTuple):
    """Events in the order of the file. An odd event may be among the events, too, as far as it can be understood."""

    events: list[Event]
    odd: list[Odd]


class Blocks:
    """Iterates over a trace's blocks, once. The attributes are whole when the iteration has ended."""

    def __init__(self, stream: Stream, block: int = BLOCK) -> None:
        self._stream = stream
        self._block = block
        self._decode: Callable[[bytes], list[Any]] = msgspec.json.Decoder(list[Event]).decode
        self._characters = 0  # before the block that comes next
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self.bytes = 0
        self.bracket: tuple[str, Any] | None = None  # the first key after traceEvents with a ] in it, and its value
        self.offences: Counter[str] = Counter()  # what strict JSON forbids, with counts

    def _read(self, count: int) -> bytes:
        raw = self._stream.read(count)
        self.bytes += len(raw)
        return raw

    def __iter__(self) -> Iterator[Block]:
        try:
            yield from self._trace()
        except Unreadable:
            if self._stream.trouble:
                raise Unreadable(self._stream.trouble) from None
            raise
        if self._stream.trouble:
            raise Unreadable(self._stream.trouble)

    def _trace(self) -> Iterator[Block]:
        start = self._read(self._block)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise Unreadable("is UTF-16: a trace is JSON in UTF-8")
        source = Json(self._read, start.removeprefix(codecs.BOM_UTF8))
        opening = source.peek()
        if not opening:
            raise Unreadable("is empty. Export the trace again, after the profile has stopped")
        if opening == "[":
            source = yield from self._events(source, may_be_open=True)
            self.offences.update(source.offences)
        elif opening == "{":
            yield from self._object(source)
        else:
            source.value()
            raise Unreadable(
                f"is JSON but not a trace, which is an object with traceEvents or an array of events. {_WANTED}"
            )

    def _object(self, source: Json) -> Iterator[Block]:
        found = False
        keys = source.keys()
        while (key := next(keys, None)) is not None:
            if key != "traceEvents":
                self._metadata(source, key, found)
                continue
            if source.peek() != "[":
                raise Unreadable(f"is JSON but not a trace: traceEvents is not an array. {_WANTED}")
            source = yield from self._events(source)
            keys = source.keys(inside=True)
            found = True
        if not found:
            raise Unreadable(f"is JSON but not a trace: it has no traceEvents. {_WANTED}")
        if source.peek():
            raise source.broken("the end of the file expected", source.at)
        self.offences.update(source.offences)

    def _metadata(self, source: Json, key: str, after_events: bool) -> None:
        if not after_events and key not in _KEPT:
            source.skip()
            return
        value, text = source.value()
        if after_events and self.bracket is None and "]" in text:
            self.bracket = key, value
        if key in _KEPT:
            self.metadata[key] = value
        if key == "schemaVersion":
            warn_of_later_version(self.metadata, self._stream.name)

    def _events(self, source: Json, may_be_open: bool = False) -> Generator[Block, None, Json]:
        """The array that comes next; returns what reads on after it."""
        source.expect("[")
        if source.peek() == "]":
            source.at += 1
            return source
        if may_be_open:
            yield self._one_by_one([self._first(source)])
            if not source.another(may_be_open):
                return source
        while True:
            buffer, self._characters = source.rest()
            self.offences.update(source.offences)
            limit, buffer = yield from self._fast(buffer)
            source = Json(self._read, buffer, self._characters)
            more = yield from self._slow(source, limit, may_be_open)
            if not more:
                return source

    @staticmethod
    def _first(source: Json) -> tuple[Any, str]:
        event, text = source.value()
        if not (isinstance(event, dict) and "ph" in event):
            raise Unreadable(
                f"is JSON but not a trace: the array's first element is not an event with a phase (ph). {_WANTED}"
            )
        return event, text

    def _fast(self, buffer: bytes) -> Generator[Block, None, tuple[int, bytes]]:
        """Whole blocks, as long as msgspec takes them; returns how many bytes it does not take, and the rest."""
        wanted, ended = self._block, False
        while True:
            while len(buffer) < wanted and not ended:
                raw = self._read(wanted - len(buffer))
                ended = not raw
                buffer += raw
            cuts = _cuts(buffer)
            if not cuts:
                if ended or wanted > Json.LARGEST:
                    return len(buffer), buffer
                wanted *= 2
                continue
            end, begin, events = self._decoded(buffer, cuts)
            if events is None:
                return end, buffer
            self.events += len(events)
            self._characters += begin if buffer.isascii() else len(buffer[:begin].decode())
            yield Block(events, [])
            buffer, wanted = buffer[begin:], self._block

    def _decoded(self, buffer: bytes, cuts: list[tuple[int, int]]) -> tuple[int, int, list[Event] | None]:
        """Where the piece that was decoded ends, where the next one begins, and the events; None: it can't be."""
        for end, begin in cuts:
            piece = buffer[:end]
            try:
                if not piece.isascii():
                    piece.decode()  # msgspec does not look at the bytes of what it skips
                return end, begin, self._decode(b"[" + piece + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if "truncated" not in str(error):  # truncated: the cut was inside an event
                    break
        return *cuts[0], None

    def _slow(self, source: Json, limit: int, may_be_open: bool) -> Generator[Block, None, bool]:
        """The values of the next `limit` characters; returns whether more follow."""
        values: list[tuple[Any, str]] = []
        end, more = source.dropped + source.at + max(limit, 1), True  # a text that ends after a comma has no value left
        try:
            while more and source.dropped + source.at < end:
                values.append(source.value())
                more = source.another(may_be_open)
        except Unreadable:
            if values:
                yield self._one_by_one(values)
            raise
        if values:
            yield self._one_by_one(values)
        return more

    def _one_by_one(self, values: list[tuple[Any, str]]) -> Block:
        self.events += len(values)
        events: list[Event] = []
        odd: list[Odd] = []
        for value, text in values:
            event, whole = understood(value)
            if event is not None:
                events.append(event)
            if not whole:
                odd.append(Odd(value, text))
        return Block(events, odd)


def _cuts(buffer: bytes) -> list[tuple[int, int]]:
    """The last places where one event may end and the next begin, the last one first."""
    window = 1024
    while True:
        at = max(0, len(buffer) - window)
        found = [(match.start() + 1, match.end()) for match in _BETWEEN.finditer(buffer, at)]
        if found or at == 0:
            return found[:-4:-1]
        window *= 8


def understood(value: Any) -> tuple[Event | None, bool]:
    """An event as far as it can be typed (None: not at all), and whether that is all of it."""
    if type(value) is not dict:
        return None, False
    phase = value.get("ph")
    kind = TYPES.get(phase) if type(phase) is str else None
    if kind is None:
        return None, False
    value = _with_raw(value)
    try:
        event = msgspec.convert(value, kind)
    except _NOT_TYPED:
        event = None
    if event is not None and _in_range(event):
        return event, True
    return (_repaired(value) if kind is Slice else None), False


def _with_raw(value: dict[str, Any]) -> dict[str, Any]:
    """The event with those arguments as JSON text that `events` keeps as such."""
    args = value.get("args")
    if type(args) is not dict or not any(name in args for name in _RAW):
        return value
    texts = {name: msgspec.Raw(json.dumps(args[name]).encode()) for name in _RAW if name in args}
    return value | {"args": args | texts}


def _in_range(event: Event) -> bool:
    times = [getattr(event, name) for name in ("ts", "dur") if hasattr(event, name)]
    numbers = [one for one in msgspec.structs.astuple(event) if type(one) is int]
    args = getattr(event, "args", None)
    if isinstance(args, MemoryArgs):  # an address has 64 bits
        args = msgspec.structs.replace(args, address=ABSENT if 0 <= args.address < 1 << 64 else args.address)
    if isinstance(args, msgspec.Struct):
        numbers += [one for one in msgspec.structs.astuple(args) if type(one) is int]
    return all(-LIMIT < time < LIMIT for time in times) and all(abs(one) <= -WRONG - 1 for one in numbers)


def _repaired(value: dict[str, Any]) -> Slice | None:
    """A slice whose arguments, or whose category, are not what they should be: those are marked, the rest is kept."""
    plain = {key: value[key] for key in ("ph", "name", "ts", "dur", "pid", "tid") if key in value}
    try:
        event = msgspec.convert(plain, Slice)
    except _NOT_TYPED:
        return None
    if not _in_range(event):
        return None
    if type(value.get("cat")) is str:
        event.cat = value["cat"]
    args = value.get("args")
    if type(args) is dict:
        event.args = Args()
        for field in msgspec.structs.fields(Args):
            if args.get(field.encode_name) is not None:
                setattr(event.args, field.name, _argument(field, args[field.encode_name]))
    return event


def _argument(field: msgspec.structs.FieldInfo, value: Any) -> Any:
    try:
        read = getattr(msgspec.convert({field.encode_name: value}, Args), field.name)
    except _NOT_TYPED:
        return WRONG if field.default == ABSENT else field.default
    return read if type(read) is not int or abs(read) <= -WRONG - 1 else WRONG
