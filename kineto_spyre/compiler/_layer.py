"""The layer "compile": the phases of torch.compile as a track, each recompile with its reason, each graph break with
its line, each look into a compile cache with what it found.

From the structured log that PyTorch writes (what TORCH_TRACE puts into files): a handler of ours listens while a
recording runs, and PyTorch makes these messages only while somebody listens. Out: one track a compiling thread, whose
slices nest as PyTorch's own do. A phase that has not ended when the recording ends is drawn up to there. The trace's
metadata lists the recompiles, the graph breaks and the caches, so that a report needs none of these events.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile

CAT = "compile"
_FIRST_TRACK = 1_700_000_000  # no thread of Linux has such an id
_LINE = re.compile(r"user code at (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"Graph Break Reason: (?P<reason>.+)")
_CACHE = re.compile(r"(?P<cache>\w+_cache)_(?P<found>hit|miss|bypass)$")  # "fx_graph_cache_miss"
_MOST_TEXT = 4000  # characters of an argument; a key's components hold whole graphs


class _Listener(logging.Handler):
    """Keeps what is wanted of the structured log. Never raises: it runs in the middle of a compilation."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.kept: list[tuple[int, int, str, str]] = []  # thread, time, kind, payload

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        artifact = metadata.get("artifact")
        kind = artifact.get("name") if isinstance(artifact, dict) else None
        if "chromium_event" in metadata:
            kind = "phase"
        if kind in ("phase", "recompile_reasons", "dynamo_graph_break_reason"):
            payload = str(getattr(record, "payload", "") or "")
            self.kept.append((threading.get_ident(), time.time_ns(), kind, payload))


class CompileLayer:
    name = "compile"

    def __init__(self) -> None:
        self._listener = _Listener()
        self._ended = 0

    def start(self) -> None:
        self._listener = _Listener()
        _log().addHandler(self._listener)

    def stop(self) -> None:
        _log().removeHandler(self._listener)
        self._ended = time.time_ns()

    def additions(self, trace: TraceFile) -> Additions:
        tracks: dict[int, int] = {}
        by_thread: dict[int, list[tuple[int, str, str]]] = {}
        for thread, when, kind, payload in self._listener.kept:
            tracks.setdefault(thread, _FIRST_TRACK + len(tracks))
            by_thread.setdefault(thread, []).append((when, kind, payload))
        events: list[dict[str, Any]] = []
        for thread, kept in by_thread.items():
            place = {"pid": os.getpid(), "tid": tracks[thread]}
            events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": "compile"}})
            events += [{**event, **place} for event in (*_phases(kept, self._ended), *_instants(kept))]
        return Additions([*events], _about(events))


def _about(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the events amount to."""
    caches: dict[str, dict[str, int]] = {}
    of_name: dict[str, list[dict[str, Any]]] = {"recompile": [], "graph break": []}
    for event in (one for one in events if one["ph"] == "i"):
        if found := _CACHE.fullmatch(event["name"]):
            caches.setdefault(found["cache"], {"hit": 0, "miss": 0, "bypass": 0})[found["found"]] += 1
        elif event["name"] in of_name:
            shown = {key: value for key, value in event["args"].items() if key != "explanation"}
            of_name[event["name"]].append({"time_ns": event["time_ns"], **shown})
    outermost = [one for one in events if one["ph"] == "X" and one["name"] == "entire_frame_compile"]
    return {
        "phases": sum(event["ph"] == "X" for event in events),
        "compilations": len(outermost),
        "duration_ns": sum(one["duration_ns"] for one in outermost),
        "recompiles": of_name["recompile"],
        "graph_breaks": of_name["graph break"],
        "caches": caches,
    }


def _log() -> logging.Logger:
    """The logger of the structured log.

    Raises:
        ImportError: this release of PyTorch has none.
    """
    from torch._logging._internal import trace_log

    log: logging.Logger = trace_log
    return log


def _phases(kept: list[tuple[int, str, str]], ended: int) -> Iterator[dict[str, Any]]:
    """Slices of the begins and ends of one thread, each within the one that was open when it began."""
    stack: list[dict[str, Any]] = []
    when = 0
    for _, kind, payload in kept:
        event = json.loads(payload) if kind == "phase" else {}
        # PyTorch takes some times before it takes earlier ones; the order of the messages is that of what happened.
        when = max(when, round(event.get("ts", 0) * 1000))
        if event.get("ph") == "B":
            stack.append({"name": event["name"], "time_ns": when, "args": event.get("args") or {}})
        elif event.get("ph") == "E" and any(one["name"] == event["name"] for one in stack):
            while stack:  # one that was left open by an exception ends with the one around it
                one = stack.pop()
                own = one["name"] == event["name"]
                more = event.get("args") or {} if own else {}
                yield _slice(one, when, more)
                if own:
                    break
    while stack:
        yield _slice(stack.pop(), ended, {"unfinished": True})


def _slice(begun: dict[str, Any], end: int, more: dict[str, Any]) -> dict[str, Any]:
    args = json.loads(json.dumps({**begun["args"], **more}, default=str))
    begin = begun["time_ns"]
    return {"ph": "X", "cat": CAT, "name": begun["name"], "time_ns": begin, "duration_ns": max(0, end - begin),
            "args": args}  # fmt: skip


def _instants(kept: list[tuple[int, str, str]]) -> Iterator[dict[str, Any]]:
    """Recompiles, graph breaks, and looks into caches."""
    for when, kind, payload in kept:
        event = {"ph": "i", "s": "t", "cat": CAT, "time_ns": when}
        if kind == "phase":
            instant = json.loads(payload)
            if instant.get("ph") == "i" and _CACHE.fullmatch(str(instant.get("name"))):
                args = {key: _short(value) for key, value in (instant.get("args") or {}).items()}
                yield {**event, "name": instant["name"], "time_ns": round(instant["ts"] * 1000), "args": args}
        elif kind == "recompile_reasons":
            yield {**event, "name": "recompile", "args": {"reason": _reasons(payload)}}
        elif kind == "dynamo_graph_break_reason":
            args = {}
            if found := _LINE.search(payload):
                args = {"file": found["file"], "line": int(found["line"])}
            reason = _REASON.search(payload)
            args["reason"] = reason["reason"].strip() if reason else payload.partition("\n")[0]
            args["explanation"] = payload
            yield {**event, "name": "graph break", "args": args}


def _short(value: Any) -> Any:
    """A value as an argument of an event: JSON, and not of any length."""
    text = json.dumps(value, default=str)
    return json.loads(text) if len(text) <= _MOST_TEXT else text[:_MOST_TEXT]


def _reasons(payload: str) -> str:
    """The reasons of a recompile: PyTorch writes one as a text, and several as a list."""
    try:
        reasons = json.loads(payload)
    except ValueError:
        return payload.strip()
    return "; ".join(map(str, reasons)) if isinstance(reasons, list) else str(reasons)


def layer() -> CompileLayer:
    return CompileLayer()
