"""What else joins a trace when it is written: memory, scratchpad, telemetry, compile passes; one layer each.

A layer is told when a recording begins and ends, and hands over events and metadata when the trace is exported. Each
works alone and fails alone: an exception in one becomes the diagnostic `layer_failed`, and the rest of the trace is
whole. A layer that was not asked for is not imported.

`profile_spyre(memory=True)` names layers; their modules are imported here by name, because they read traces and the
profiler knows nothing of those. Times that a layer hands over are nanoseconds since the epoch, as Kineto's clock has
them; they become the file's microseconds here.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from .. import _notices
from ..diagnostics import Diagnostic
from ._trace_file import TraceFile

KEY = "kineto_spyre_layers"  # of the trace's metadata: what each layer says, and what went wrong

# What `profile_spyre` knows by name: for each, the modules that have a function `layer()`.
_MODULES: dict[str, tuple[str, ...]] = {
    "memory": (
        "kineto_spyre.memory._layer",
        "kineto_spyre.memory._category_layer",
        "kineto_spyre.memory._scratchpad_layer",
    ),
    "compile": ("kineto_spyre.compiler._layer",),
    "telemetry": ("kineto_spyre.telemetry._layer",),
    "phases": ("kineto_spyre.phases._stamps_layer",),
}
_BY_THEMSELVES = {"marks": ("kineto_spyre.phases._layer",)}  # on when a program has marks


class Counter(NamedTuple):
    """A counter of one device over time: as many figures of each series as there are times.

    Attributes:
        name, device: what is counted, and the number of the device.
        times: in ns since the epoch.
        series: for each its figures.
    """

    name: str
    device: int
    times: Sequence[int]
    series: Mapping[str, Sequence[float]]


@dataclass
class Additions:
    """What a layer adds to one trace.

    Attributes:
        events: Chrome trace events, but with `time_ns` (since the epoch) in place of `ts`, and `duration_ns` of `dur`;
            and counters, which are written faster than as many events.
        about: a JSON value that goes into the metadata key `kineto_spyre_layers`, under the layer's name.
        diagnostics: what the layer could not do.
    """

    events: list[dict[str, Any] | Counter] = field(default_factory=list)
    about: Any = None
    diagnostics: list[Diagnostic] = field(default_factory=list)


class Layer(Protocol):
    """What joins a trace. `name` is a word that a diagnostic can name."""

    name: str

    def start(self) -> None:
        """A recording begins."""

    def stop(self) -> None:
        """The recording has ended, and the device's work with it."""

    def additions(self, trace: TraceFile) -> Additions:
        """What belongs into the trace of the last recording, which was written to `trace.path`."""


def named(*names: str) -> list[Layer]:
    """New layers by name. One that can't be made says so in its diagnostics, and is otherwise left out."""
    made: list[Layer] = []
    for name in names:
        for module in (_MODULES | _BY_THEMSELVES)[name]:
            try:
                made.append(importlib.import_module(module).layer())
            except Exception as error:  # its own dependency is missing, say
                made.append(_Missing(name, error))
    return made


class _Missing:
    """Stands for a layer that could not be made."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def additions(self, trace: TraceFile) -> Additions:
        raise self._error


_latest: Layers | None = None  # of the profile that recorded last, if it had any


def diagnostics_within(begin_ns: int, end_ns: int) -> list[Diagnostic]:
    """What the layers of the recording with that window could not do, as far as is known by now."""
    if _latest is None or not begin_ns <= _latest.started_ns <= end_ns:  # a stock profile may have come later
        return []
    return _latest.diagnostics


class Layers:
    """The layers of one profile. Without any, each call does nothing."""

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        self._layers = list(layers)
        self.started_ns = 0  # since the epoch
        self._failed: dict[str, Diagnostic] = {}
        self._found: list[Diagnostic] = []

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What could not be done in the last recording."""
        return [*self._failed.values(), *self._found]

    def __bool__(self) -> bool:
        return bool(self._layers)

    def start(self) -> None:
        global _latest
        if not self._layers:
            return
        _latest = self
        self.started_ns = time.time_ns()
        self._failed, self._found = {}, []
        for layer in self._layers:
            try:
                layer.start()
            except Exception as error:
                self._fail(layer, error)

    def stop(self) -> None:
        for layer in self._layers:
            try:
                layer.stop()
            except Exception as error:
                self._fail(layer, error)

    def additions(self, trace: TraceFile) -> tuple[list[str], dict[str, Any]]:
        """The events, as JSON, and the metadata that join the trace, and `diagnostics` beside that. Warns of what is
        missing."""
        events: list[str] = []
        about: dict[str, Any] = {}
        self._found = []
        for layer in self._layers:
            if layer.name in self._failed:
                continue
            try:
                added = layer.additions(trace)
                events += in_microseconds(added.events, trace.base_ns)
            except Exception as error:
                self._fail(layer, error)
                continue
            self._found += added.diagnostics
            if added.about is not None:
                about[layer.name] = added.about
        for diagnostic in self.diagnostics:
            if diagnostic.severity != "note":
                _notices.warn(diagnostic.sentence)
        if self.diagnostics:
            about["diagnostics"] = [
                {"code": one.code, "count": one.count, "details": dict(one.details)} for one in self.diagnostics
            ]
        return events, {KEY: about} if about else {}

    def _fail(self, layer: Layer, error: Exception) -> None:
        text = re.sub(r"\s+", " ", str(error)).strip().rstrip(".")
        details = {"layer": layer.name, "error": f"{type(error).__name__}: {text}" if text else type(error).__name__}
        self._failed.setdefault(layer.name, Diagnostic("layer_failed", 1, details))


def in_microseconds(events: Iterable[dict[str, Any] | Counter], base_ns: int) -> list[str]:
    """Events as JSON, with times as the file has them.

    Args:
        events: with `time_ns`, and `duration_ns` where they last; or counters.
        base_ns: what the file's times begin at.

    Raises:
        TypeError, ValueError: an event is not JSON.
    """
    made: list[str] = []
    for event in events:  # all before the file is touched, so that one bad event fails its own layer
        if isinstance(event, Counter):
            made += _lines(event, base_ns)
            continue
        event = dict(event)
        if "time_ns" in event:
            event["ts"] = (event.pop("time_ns") - base_ns) / 1000
        if "duration_ns" in event:
            event["dur"] = event.pop("duration_ns") / 1000
        made.append(json.dumps(event, allow_nan=False))
    return made


def _lines(counter: Counter, base_ns: int) -> Iterator[str]:
    """A counter's events. The text around the figures is made once: there are as many as allocations, say.

    Raises:
        ValueError: a figure is not JSON, or a series has more or fewer figures than there are times.
    """
    place = f'{{"ph": "C", "name": {json.dumps(counter.name)}, "pid": {counter.device:d}, "ts": '
    named = [f"{json.dumps(name)}: " for name in counter.series]
    for time_ns, *figures in zip(counter.times, *counter.series.values(), strict=True):
        if not all(map(math.isfinite, figures)):
            raise ValueError(f"the counter {counter.name} has a value that is not a number: {figures}")
        shown = ", ".join([name + repr(figure) for name, figure in zip(named, figures)])
        yield f'{place}{(time_ns - base_ns) / 1000!r}, "args": {{{shown}}}}}'
