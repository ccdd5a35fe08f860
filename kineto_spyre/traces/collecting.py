"""From any event to numbers: the first half of `check`. What one event shows to be wrong is said here.

In: events as `AnyEvent`, in the order of the file. Out: `Collected`, which `judging` and `contract` read when the whole
file was taken. No value of a file is trusted: a field may be missing, or of any type. The arguments of an event stay
JSON text until a rule needs them, which is for device work and calls alone: that is most of the speed.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable
from typing import Any, cast

import msgspec

from kineto_spyre.traces.blocks import Block, Blocks
from kineto_spyre.traces.events import NOTHING
from kineto_spyre.traces.findings import Findings, is_number, is_whole, place
from kineto_spyre.traces.packed import Joinable, Track

NAMES = 100_000  # more are not kept: an example may lack its name, never its place
SECOND = 10**9

# What kind of slice a track holds: only these matter to the rules.
HOST, RANGE, KERNEL, COPY, MEMSET, MEMORY, ESTIMATE, CALL = range(8)
WORK = (KERNEL, COPY, MEMSET)
_KINDS = {
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "gpu_memset": MEMSET,
    "memcpy": COPY,
    "memset": MEMSET,
    "gpu_user_annotation": RANGE,
    "python_function": ESTIMATE,
    "cuda_sync": ESTIMATE,
}
_CALLS = re.compile(r"(^|_)(runtime|driver)$")
_LAUNCHING = re.compile(r"launch|memcpy|memset|datatransfer|filetransfer", re.IGNORECASE)
DRIVER, LAUNCHES = 1, 2  # flags of calls
_COPY_NAMES = ("Memcpy (HtoD)", "Memcpy (DtoH)", "Memcpy (PtoP)")


class AnyEvent(msgspec.Struct, gc=False):
    """An event whose fields may be anything."""

    ph: Any = None
    name: Any = None
    cat: Any = None
    ts: Any = None
    dur: Any = None
    pid: Any = None
    tid: Any = None
    id: Any = None
    bp: Any = None
    args: msgspec.Raw = NOTHING


_FIELDS = [name for name in AnyEvent.__struct_fields__ if name != "args"]
_plain_args = msgspec.json.Decoder().decode
_one_event = msgspec.json.Decoder(AnyEvent).decode


def arguments(event: AnyEvent) -> dict[str, Any] | None:
    """The event's arguments; None if they are no object."""
    text = bytes(event.args)
    if not text:
        return None
    try:
        value = _plain_args(text)
    except (msgspec.DecodeError, RecursionError):  # what strict JSON forbids, and the text of the file held
        value = json.loads(text)
    return value if type(value) is dict else None


def any_event(value: Any, text: str) -> AnyEvent | None:
    """An event from its JSON text and what that holds; None if it is no object."""
    if type(value) is not dict:
        return None
    try:
        return _one_event(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        event = AnyEvent(args=msgspec.Raw(json.dumps(value["args"]).encode()) if "args" in value else NOTHING)
        for name in _FIELDS:
            setattr(event, name, value.get(name))
        return event


class Collecting(Blocks):
    """Reads a trace's blocks into a `Collected`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._decode = msgspec.json.Decoder(list[AnyEvent]).decode
        self.collected = Collected()

    def collect(self, progress: Callable[[], None]) -> Collected:
        """Takes every event; calls `progress` now and then."""
        for block in self:
            for event in cast("list[AnyEvent]", block.events):
                self.collected.take(event)
            progress()
        return self.collected

    def _one_by_one(self, values: list[tuple[Any, str]]) -> Block:
        self.events += len(values)
        for value, text in values:
            event = any_event(value, text)
            if event is None:
                self.collected.findings.say("malformed-event", {"name": None, "event": text[:80]})
            else:
                self.collected.take(event)
        return Block([], [])


class Collected:
    """What was taken of a trace's events."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.tracks: list[Track] = []
        self.device = Joinable()  # correlation, external id, flag: an arrow must lead here
        self.calls = Joinable()  # correlation, external id, flags: DRIVER, LAUNCHES
        self.flows = Joinable()  # hash of category, name and id; the id; flag: it starts here
        self.process_names: dict[Any, str] = {}
        self.labels: dict[Any, Any] = {}
        self.device_pids: dict[Any, dict[str, Any]] = {}  # pid -> an example of its work
        # pid, stream -> start, end, track, name of each of its ranges, one after another
        self.ranges: dict[tuple[Any, str], array[int]] = {}
        self.spyre = False
        self.fraction = False  # whether some time is no whole microsecond
        self.first_times = array("q")
        self.window: tuple[int, int] | None = None
        self.highest_fwdbwd = 0
        self.lowest_ac2g: tuple[int, dict[str, Any]] | None = None
        self._say = self.findings.say
        self._kinds: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._name_list: list[str] = []
        self._by_place: dict[tuple[Any, Any], Track] = {}
        self._stream_tracks: dict[tuple[Any, Any], int] = {}

    def example(self, track: int, start: int, name: int, **more: Any) -> dict[str, Any]:
        """A slice or an arrow's end as a finding shows it."""
        where = self.tracks[track]
        return {"name": self.name_of(name), "ts": start / 1000, "pid": where.pid, "tid": where.tid, **more}

    def name_of(self, number: int) -> str | None:
        """The name of that number; None where it was not kept."""
        if number < 0:
            return None
        if len(self._name_list) != len(self._names):
            self._name_list = list(self._names)
        return self._name_list[number]

    def _intern(self, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            if len(self._names) >= NAMES:
                return -1
            number = self._names[name] = len(self._names)
        return number

    def _track(self, pid: Any, tid: Any) -> Track:
        track = self._by_place.get((pid, tid))
        if track is None:
            if type(pid) not in (int, str) or type(tid) not in (int, str):
                raise TypeError
            track = self._by_place[pid, tid] = Track(pid, tid, len(self.tracks))
            self.tracks.append(track)
        return track

    def take(self, event: AnyEvent) -> None:
        """One event, the next one of the file."""
        phase = event.ph
        if phase == "X":
            self._slice(event)
            return
        if phase == "B" or phase == "E":
            self._half(event)
        elif phase == "s" or phase == "f":
            self._arrow(event)
        elif phase == "M":
            self._named(event)
        elif phase == "C":
            self._counter(event)
        elif phase == "i" and event.name == "[memory]":
            if (arguments(event) or {}).get("Device Type") == 20:
                self._say("contract-memory", place(event))
        elif type(phase) is not str or not phase:
            self._say("malformed-event", place(event))
        if phase not in ("M", "s", "f", "i", "C") and type(phase) is str:
            self._say("contract-phase", place(event))

    def _time(self, value: Any) -> int:
        """Microseconds of the file as whole nanoseconds."""
        if not self.fraction and type(value) is float and not value.is_integer():
            self.fraction = True
        nanoseconds: int = round(value * 1000)
        return nanoseconds

    def _where(self, event: AnyEvent) -> Track | None:
        """The track of an event that has what each slice needs; without it None, and said."""
        try:
            track = self._track(event.pid, event.tid)
        except TypeError:  # missing, or neither number nor string
            self._say("malformed-event", place(event))
            return None
        if not is_number(event.ts) or (type(event.name) is not str and event.ph != "E"):
            self._say("malformed-event", place(event))
            return None
        return track

    def _half(self, event: AnyEvent) -> None:
        """A slice's begin (B) or end (E)."""
        track = self._where(event)
        if track is None:
            return
        start = self._time(event.ts)
        if event.ph == "B":
            track.open.append((start, self._intern(event.name), _hash(event)))
        elif not track.open:
            self._say("unbalanced", place(event))
        else:
            began, number, hashed = track.open.pop()
            if start < began:
                shown = self.example(track.number, began, number, dur=(start - began) / 1000)
                self._say("negative-duration", shown)
            else:
                track.add(began, start - began, number, hashed, HOST)

    def _slice(self, event: AnyEvent) -> None:
        track = self._where(event)
        if track is None:
            return
        if not is_number(event.dur):
            self._say("malformed-event", place(event))
            return
        start, duration = self._time(event.ts), self._time(event.dur)
        name, category = event.name, event.cat
        if type(category) is not str:
            category = ""
        track.counts[category] = track.counts.get(category, 0) + 1
        kind = self._kinds.get(category, -1)
        if kind < 0:
            lower = category.lower()
            kind = self._kinds[category] = _KINDS.get(lower) or (CALL if _CALLS.search(lower) else HOST)
        if (kind == MEMSET or kind == COPY) and name.startswith("Memory ("):
            kind = MEMORY
        if duration < 0:
            self._say("negative-duration", place(event))
            duration = 0
        number = self._intern(name)
        if len(self.first_times) < 1001:
            self.first_times.append(start)
        track.add(start, duration, number, _hash(event), kind)

        if kind == CALL:
            self._call(event, track, start, number, category.lower())
        elif kind != HOST and kind != ESTIMATE:
            self._device_event(event, track, start, duration, number, kind)
        elif category == "Trace" and name.startswith("PyTorch Profiler"):
            first, last = self.window or (start, start + duration)
            self.window = min(first, start), max(last, start + duration)
        if "Cmpt Exec" in name or b"TS1" in bytes(event.args):
            self._stamps(event)

    def _stamps(self, event: AnyEvent) -> None:
        args = arguments(event) or {}
        stamps = [args.get(f"TS{i}") for i in range(1, 6)]
        if stamps[0] is not None and not all(type(stamp) is str for stamp in stamps):
            self._say("contract-ts", place(event))
        elif "Cmpt Exec" in event.name and stamps[0] is None:
            self._say("contract-name", place(event))

    def _call(self, event: AnyEvent, track: Track, start: int, name: int, category: str) -> None:
        args = arguments(event) or {}
        correlation = args.get("correlation")
        if not self.spyre and category.startswith("privateuse1") and event.name.startswith("aiu"):
            self.spyre = True
        if not is_whole(correlation, 1):
            if correlation is not None and correlation != 0:
                self._say("contract-correlation", place(event))
            return
        external = args.get("External id")
        flags = (DRIVER if category.endswith("driver") else 0) | (LAUNCHES if _LAUNCHING.search(event.name) else 0)
        self.calls.add(correlation, external if is_whole(external, 0) else -1, start, track.number, name, flags)

    def _device_event(self, event: AnyEvent, track: Track, start: int, duration: int, name: int, kind: int) -> None:
        args = arguments(event) or {}
        pid = track.pid
        if pid not in self.device_pids:
            self.device_pids[pid] = place(event)
        if kind == RANGE:
            # As acelyzer tells them apart: by the stream, and all that have none are one.
            key = (pid, str(args.get("stream", 0)))
            self.ranges.setdefault(key, array("q")).extend((start, start + duration, track.number, name))
            if event.name.startswith("ProfilerStep#"):
                self._say("contract-steps", place(event))
            return
        if kind == KERNEL and duration > SECOND:
            self._say("long-kernel", place(event))
        correlation = args.get("correlation")
        if is_whole(correlation, 1):
            external = args.get("External id")
            link = external if is_whole(external, 0) else -1
            self.device.add(correlation, link, start, track.number, name, kind != MEMORY)
        else:
            if kind != MEMORY:
                self._say("unlinked", place(event))
            self._say("contract-correlation", place(event))
        self._device_contract(event, args, track, kind)

    def _device_contract(self, event: AnyEvent, args: dict[str, Any], track: Track, kind: int) -> None:
        """What only a Spyre's readers need; told only if this turns out to be a Spyre's trace."""
        stream = args.get("stream")
        if kind == MEMORY:
            if stream is not None and event.name == "Memory (Release)":
                self._say("contract-stream", place(event))
        elif not is_whole(stream, 1):
            self._say("contract-stream", place(event))
        elif self._stream_tracks.setdefault((track.pid, stream), track.number) != track.number:
            self._say("contract-track", place(event))
        if kind == KERNEL:
            device = args.get("device")
            if not is_whole(device, 0) or device > 63:
                self._say("contract-device", place(event))
            return
        if (kind == COPY and event.name not in _COPY_NAMES) or (kind == MEMSET and event.name != "Memset (Device)"):
            self._say("contract-name", place(event))
        if not is_whole(args.get("bytes", 0), 0) or not is_number(args.get("memory bandwidth (GB/s)", 0)):
            self._say("contract-bytes", place(event))

    def _arrow(self, event: AnyEvent) -> None:
        flow, name = event.id, event.name
        try:
            track = self._track(event.pid, event.tid)
            key = hash((event.cat, name, flow))
        except TypeError:
            self._say("malformed-event", place(event))
            return
        if not is_number(event.ts) or type(flow) not in (int, str) or type(name) is not str:
            self._say("malformed-event", place(event))
            return
        opens = event.ph == "s"
        if opens or event.bp == "e":
            track.arrows.append(len(self.flows))
        number = flow if is_whole(flow, 0) else -1
        self.flows.add(key, number, self._time(event.ts), track.number, self._intern(name), opens)
        if type(flow) is int:
            if name == "fwdbwd":
                self.highest_fwdbwd = max(self.highest_fwdbwd, flow)
            elif name == "ac2g" and (self.lowest_ac2g is None or flow < self.lowest_ac2g[0]):
                self.lowest_ac2g = (flow, place(event))

    def _named(self, event: AnyEvent) -> None:
        args, pid = arguments(event), event.pid
        if args is None or type(pid) not in (int, str):
            return
        if event.name == "process_name":
            self.process_names[pid] = str(args.get("name") or "")
        elif event.name == "process_labels":
            self.labels[pid] = args.get("labels")
            if str(args.get("labels")).startswith("AIU"):
                self.spyre = True

    def _counter(self, event: AnyEvent) -> None:
        args = arguments(event)
        if not args or not all(is_number(value) for value in args.values()):
            self._say("counter-value", place(event))
        if event.name == "Power":
            self._say("contract-counter", place(event))


def _hash(event: AnyEvent) -> int:
    """Equal for slices that say the same beyond place, name and time."""
    is_plain = type(event.cat) is str and event.id is None and event.bp is None
    rest = event.cat if is_plain else repr((event.cat, event.id, event.bp))
    return hash((rest, bytes(event.args))) & 0x7FFFFFFF
