"""A Spyre's trace with CUDA's names, for tools that know no other: HTA's launch statistics and queue length, TraceLens.

Renamed are categories and calls of the runtime; nothing else is touched, byte for byte:

    category    privateuse1_runtime -> cuda_runtime, privateuse1_driver -> cuda_driver
    a call      that started device work: by that work's category cudaLaunchKernel, cudaMemcpyAsync, cudaMemsetAsync
                (and category cuda_runtime, where those tools look for it); else by its own name, see CALLS
    kept        args["Spyre name"] has the name that a renamed call had

The whole text is held in memory. It is JSON in, JSON out, because a Trace's columns don't have all arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.traces.blocks import warn_of_later_version
from kineto_spyre.traces.json_text import Unreadable
from kineto_spyre.traces.opening import Source, opened
from kineto_spyre.traces.trace import read

CATEGORIES = {"privateuse1_runtime": "cuda_runtime", "privateuse1_driver": "cuda_driver"}
LAUNCHES = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}
CALLS = {"aiuMalloc": "cudaMalloc", "aiuScheduleWait": "cudaStreamSynchronize"}
_PIECE = 1 << 24


class _Args(msgspec.Struct, gc=False):
    correlation: int = 0


class _Work(msgspec.Struct, gc=False):
    cat: str = ""
    args: _Args | None = None


def renamed(source: Source) -> Iterator[bytes]:
    """The pieces of the trace's text with CUDA's names. Nothing is given before the whole source was understood.

    Raises:
        Unreadable: the source is no trace, or is not whole; the text says why.
        SpyreProfilerError: it has no call of a PrivateUse1 device's runtime.
    """
    whole, events = _parts(source)
    launched = _launched(events)
    calls = [number for number, event in enumerate(events) if b'"privateuse1_' in bytes(event)]
    changed = {number: text for number in calls if (text := _renamed(events[number], launched)) is not None}
    if not changed:
        raise SpyreProfilerError(
            "The trace holds no call of a Spyre's runtime (category privateuse1_runtime), so there is no name to "
            "replace."
        )
    return _text(whole, events, changed)


def _parts(source: Source) -> tuple[dict[str, msgspec.Raw], list[msgspec.Raw]]:
    """The keys of the trace, and its events."""
    with opened(source) as stream:
        content = b"".join(iter(lambda: stream.read(_PIECE), b""))
        trouble = stream.trouble
    if trouble:
        raise Unreadable(trouble)
    try:
        whole = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        if "traceEvents" in whole:
            version = msgspec.json.decode(whole.get("schemaVersion", b"null"))
            warn_of_later_version({"schemaVersion": version}, stream.name)
            return whole, msgspec.json.decode(whole["traceEvents"], type=list[msgspec.Raw])
        reason = "holds no traceEvents"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"is not strict JSON ({error})"
    # The reader of traces knows better what is wrong with it.
    raise Unreadable(read(content).problem or f"{reason}. Export the trace again")


def _launched(events: list[msgspec.Raw]) -> dict[int, str]:
    """By correlation id the category of the device work that was started."""
    decoder = msgspec.json.Decoder(_Work)
    found: dict[int, str] = {}
    for event in events:
        text = bytes(event)
        if b'"kernel"' in text or b'"gpu_mem' in text:
            try:
                work = decoder.decode(text)
            except msgspec.ValidationError:  # no event of the profiler's
                continue
            if work.cat in LAUNCHES and work.args is not None and work.args.correlation > 0:
                found.setdefault(work.args.correlation, work.cat)
    return found


def _renamed(event: msgspec.Raw, launched: dict[int, str]) -> bytes | None:
    """A call with its new names; None if it is no call."""
    value: Any = msgspec.json.decode(event)
    if type(value) is not dict or type(value.get("cat")) is not str or value["cat"] not in CATEGORIES:
        return None
    args = value.get("args")
    correlation = args.get("correlation") if type(args) is dict else None
    work = launched.get(correlation) if type(correlation) is int else None
    value["cat"] = "cuda_runtime" if work else CATEGORIES[value["cat"]]
    old = value.get("name")
    new = LAUNCHES[work] if work else CALLS.get(old) if type(old) is str else None
    if new:
        value["name"] = new
        if args is None:
            args = value["args"] = {}
        if type(args) is dict:
            args["Spyre name"] = old
    return msgspec.json.encode(value)


def _text(whole: dict[str, msgspec.Raw], events: list[msgspec.Raw], changed: dict[int, bytes]) -> Iterator[bytes]:
    """The trace again, keys in their order."""
    yield b"{"
    for place, (key, value) in enumerate(whole.items()):
        yield (b",\n" if place else b"\n") + msgspec.json.encode(key) + b": "
        if key != "traceEvents":
            yield bytes(value)
            continue
        yield b"["
        for number, event in enumerate(events):
            yield (b",\n" if number else b"\n") + changed.get(number, bytes(event))
        yield b"\n]"
    yield b"\n}\n"
