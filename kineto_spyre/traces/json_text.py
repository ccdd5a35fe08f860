"""JSON text, value by value: the slow path of the reader, exact where the fast one only says no.

It reads what strict JSON forbids and profilers write nevertheless (NaN, raw control characters, bytes that are not
UTF-8), counts each, and says where a text stops being JSON. `blocks` uses it for what comes before and after the events
and for a block that msgspec can't decode. No library does this: each stops at the first such byte.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_NUMBER_GOES_ON = re.compile(r"\.|[eE][+-]?")
_BAD_BYTES = "bytes that are not UTF-8"
_ESCAPED_BYTES = re.compile(r"[\udc80-\udcff]")


class Unreadable(Exception):
    """The file can't be read as a trace; the message is a sentence that says why and what was expected."""


class Json:
    """Decodes a JSON text piece by piece from a stream of bytes, one value at a time, and holds only what it needs."""

    CHUNK = 1 << 20
    LARGEST = 1 << 28  # characters of one value: no event of a trace is larger

    def __init__(self, read: Callable[[int], bytes], start: bytes = b"", dropped: int = 0) -> None:
        """`start`: what was read already. `dropped`: how many characters came before it."""
        self._read = read
        self._utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._decode = json.JSONDecoder(parse_constant=self._constant).raw_decode
        self.text = ""
        self.at = 0
        self.dropped = dropped  # characters before text[0]
        self.bytes = 0
        self.done = False
        self.offences: Counter[str] = Counter()  # what strict JSON forbids
        if start:
            self._take(start)

    def _constant(self, word: str) -> float:
        self.offences[word] += 1
        return float(word.replace("Infinity", "inf"))

    def _more(self) -> None:
        raw = self._read(max(self.CHUNK, len(self.text) - self.at))
        if self.bytes == 0:
            if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise Unreadable("is UTF-16: a trace is JSON in UTF-8")
            if raw.startswith(codecs.BOM_UTF8):
                raw = raw[3:]
        self.bytes += len(raw)
        self.done = not raw
        self._take(raw)

    def _take(self, raw: bytes) -> None:
        new = self._utf8.decode(raw, final=self.done)
        if not new.isascii():
            bad = len(_ESCAPED_BYTES.findall(new))
            if bad:
                self.offences[_BAD_BYTES] += bad
        self.dropped += self.at
        self.text = self.text[self.at :] + new
        self.at = 0
        if len(self.text) > self.LARGEST:
            raise Unreadable(f"holds one JSON value of over {self.LARGEST >> 20} MB, so it is damaged or not a trace")

    def peek(self) -> str:
        """The next character that is not white space, "" at the end."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if self.done:
                return ""
            self._more()

    def expect(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise self.broken(f"{wanted!r} expected", self.at)
        self.at += 1

    def broken(self, what: str, at: int) -> Unreadable:
        if self.done and at >= len(self.text):
            return Unreadable(
                "is truncated: the file ends in the middle of the JSON. Check whether the writer was stopped or the "
                "disk was full"
            )
        near = self.text[max(0, at - 10) : at + 30]
        return Unreadable(f"isn't JSON: {what} at character {self.dropped + at:,}, near {shown(near)}")

    def _cut(self, error: json.JSONDecodeError) -> bool:
        """Whether the text, now known whole, was right as far as it goes."""
        rest = self.text[error.pos :].strip()
        return (
            error.msg.startswith("Unterminated")
            or (error.msg.startswith("Invalid \\") and '"' not in rest)
            or _NUMBER_GOES_ON.fullmatch(rest) is not None
            or any(word.startswith(rest) for word in ("true", "false", "null", "NaN", "-Infinity"))
        )

    def value(self) -> tuple[Any, str]:
        """The next value, and its text."""
        if self.text[self.at : self.at + 1] != "{":
            self.peek()
        while True:
            try:
                found, end = self._decode(self.text, self.at)
            except json.JSONDecodeError as error:
                control = error.msg.startswith("Invalid control character")
                unfinished = error.msg.startswith("Unterminated") or error.pos + 16 >= len(self.text)
                if control and error.pos < len(self.text):
                    self.offences["raw control characters"] += 1
                    self._decode = json.JSONDecoder(strict=False, parse_constant=self._constant).raw_decode
                elif self.done:
                    raise self.broken(error.msg, len(self.text) if self._cut(error) else error.pos) from None
                elif not unfinished:
                    raise self.broken(error.msg, error.pos) from None
                else:
                    self._more()
            except RecursionError:
                raise Unreadable("is nested too deep for a trace") from None
            except ValueError as error:  # a number of thousands of digits
                raise Unreadable(f"holds a number that can't be read ({error})") from None
            else:
                if end == len(self.text) and not self.done:  # a number might go on
                    self._more()
                    continue
                text = self.text[self.at : end]
                self.at = end
                return found, text

    def elements(self, may_be_open: bool = False) -> Iterator[tuple[Any, str]]:
        """The values of an array that comes next; `may_be_open`: the file may end without its bracket."""
        self.expect("[")
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            yield self.value()
            if not self.another(may_be_open):
                return

    def another(self, may_be_open: bool = False) -> bool:
        """After an element of an array: whether one more follows. Takes the comma, or the bracket."""
        comma = _COMMA.match(self.text, self.at)
        if comma and comma.end() < len(self.text):
            self.at = comma.end()
            return True
        after = self.peek()
        if may_be_open and not after:
            return False
        if after == "]":
            self.at += 1
            return False
        self.expect(",")
        return not (may_be_open and not self.peek())

    def rest(self) -> tuple[bytes, int]:
        """What was read and not taken, and how many characters came before it. This object is of no use after it."""
        left = self.text[self.at :]
        self.offences[_BAD_BYTES] -= len(_ESCAPED_BYTES.findall(left))  # whoever reads on counts them
        self.offences = +self.offences
        return left.encode("utf-8", "surrogateescape") + self._utf8.getstate()[0], self.dropped + self.at

    def keys(self, inside: bool = False) -> Iterator[str]:
        """The keys of an object that comes next; whoever iterates takes each value before the next key. `inside`: the
        object has begun, and the value of a key of it was taken."""
        if inside:
            if self._closed():
                return
            self.expect(",")
        else:
            self.expect("{")
            if self._closed():
                return
        while True:
            if self.peek() != '"':
                raise self.broken("a key in quotes expected", self.at)
            key, _ = self.value()
            self.expect(":")
            yield key
            if self._closed():
                return
            self.expect(",")

    def _closed(self) -> bool:
        closed = self.peek() == "}"
        self.at += closed
        return closed

    def skip(self) -> None:
        """The next value, without holding it."""
        opening = self.peek()
        if opening == "[":
            for _ in self.elements():
                pass
        elif opening == "{":
            for _ in self.keys():
                self.value()
        else:
            self.value()


def printable(text: str) -> str:
    """A text from a file, fit for a terminal: nothing in it can move the cursor or fail to be printed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: Any) -> str:
    """A value from a file, fit for a terminal, and not long."""
    text = printable((value if isinstance(value, str) else json.dumps(value, default=str))[:160])
    return f'"{text}"' if isinstance(value, str) else text
