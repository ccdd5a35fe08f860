"""The layer "phases": a track "kernel phases" beside each stream, and beside each thread of the host, that ran marked
ops.

In: the notes of marked programs (kineto_spyre.marks.running), and the trace, which has each kernel's times. A note of
an accelerator's names the time in which its kernels were launched, on which thread; the launches of the trace within
it, and their correlation, lead to the kernels, whose recorded time is divided as the note says. A note whose kernel
the trace lacks is counted and left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.marks import running
from kineto_spyre.memory._layer import columns
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile
from kineto_spyre.traces import Trace

Array = npt.NDArray[Any]

CAT = "kernel_phase"
_TRACK = "kernel phases"
_FIRST_TRACK = 1_600_000_000  # no thread of Linux and no stream has such a number


class PhasesLayer:
    name = "phases"

    def __init__(self) -> None:
        self._notes: list[running.Note] = []

    def start(self) -> None:
        running.listen(True)

    def stop(self) -> None:
        self._notes = running.listen(False)

    def additions(self, trace: TraceFile) -> Additions:
        if not self._notes:
            return Additions()
        events: list[dict[str, Any]] = []
        missing = 0
        launched = _Launched(columns(trace), trace.base_ns) if any(not one.on_host for one in self._notes) else None
        for note in self._notes:
            if launched is None or note.on_host:
                places = [(f"thread {note.thread}", "", note.begin_ns, note.end_ns)]
            else:
                places = launched.by(note)
                missing += not places
            for place, kernel, begin, end in places:
                events += _slices(note.phases, kernel, place, begin, end)
        about = {"phases": len(events), "kernels_missing": missing, "kernels": sums(events)}
        return Additions([*on_tracks(_TRACK, _FIRST_TRACK, events)], about)


def on_tracks(title: str, first: int, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, each on a track for its "place", which is taken out, and what names these tracks.

    They are tracks of this process: readers take what is on a device's for the device's work.
    """
    tracks: dict[str, int] = {}
    for event in events:
        place = event.pop("place")
        event |= {"pid": os.getpid(), "tid": tracks.setdefault(place, first + len(tracks))}
    named = {"ph": "M", "name": "thread_name", "pid": os.getpid()}
    names = [{**named, "tid": tid, "args": {"name": f"{title} ({place})"}} for place, tid in tracks.items()]
    return [*names, *events]


def sums(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kernel ("" on the host) and op what its phases amount to, so that a report needs none of these events."""
    kernels: dict[str, dict[str, Any]] = {}
    for event in events:
        args, lasted = event["args"], event["duration_ns"]
        ops = kernels.setdefault(args.get("kernel", ""), {})
        whole = ops.setdefault(event["name"], {"count": 0, "duration_ns": 0, "stalls": {}, "source": ""})
        whole["count"] += 1
        whole["duration_ns"] += lasted
        whole["source"] = whole["source"] or (f"{args['file']}:{args['line']}" if "file" in args else "")
        for key in ("read bytes", "written bytes", "stick-alignment waste", "energy"):
            if key in args:
                whole[key] = whole.get(key, 0) + args[key]
        if "utilization" in args:
            whole["utilised_ns"] = whole.get("utilised_ns", 0) + args["utilization"] * lasted
        if args.get("stalled"):
            stalls = whole["stalls"]
            stalls[args["stall"]] = stalls.get(args["stall"], 0) + args["stalled"] * lasted
    return kernels


def _slices(phases: Sequence[running.Phase], kernel: str, place: str, begin: int, end: int) -> list[dict[str, Any]]:
    """The phases of one kernel. Ends and begins are rounded alike, so that neighbours touch and don't overlap."""
    made = []
    for phase in phases:
        first, last = (begin + round((end - begin) * share) for share in (phase.begin, phase.end))
        args = {**phase.args, **({"kernel": kernel} if kernel else {})}
        made.append(
            {
                "ph": "X",
                "cat": CAT,
                "name": phase.name,
                "place": place,
                "time_ns": first,
                "duration_ns": last - first,
                "args": args,
            }
        )
    return made


class _Launched:
    """Kernels of a trace by the thread and the time of their launch."""

    def __init__(self, trace: Trace, base_ns: int) -> None:
        self._trace = trace
        slices = trace.slices
        category = np.array(trace.cats or [""])[slices["cat"]] if len(trace) else np.empty(0, str)
        correlation = trace.column("correlation")
        self._calls = np.flatnonzero(np.char.endswith(category, "_runtime") & (correlation >= 0))
        self._calls = self._calls[np.argsort(slices["start"][self._calls], kind="stable")]
        self._starts = slices["start"][self._calls] + base_ns
        kernels = np.flatnonzero(category == "kernel")
        self._kernel = dict(zip(correlation[kernels].tolist(), kernels.tolist()))
        self._base_ns = base_ns

    def by(self, note: running.Note) -> list[tuple[str, str, int, int]]:
        """Of each kernel that was launched in the note's time by its thread: where it ran, name, begin and end."""
        trace, slices = self._trace, self._trace.slices
        first, last = np.searchsorted(self._starts, [note.begin_ns, note.end_ns + 1])
        found = []
        for call in self._calls[first:last].tolist():
            if trace.tracks[slices["track"][call]][1] != note.thread:
                continue
            kernel = self._kernel.get(int(trace.column("correlation")[call]))
            if kernel is not None:
                device, stream = trace.tracks[slices["track"][kernel]]
                begin = int(slices["start"][kernel]) + self._base_ns
                name = trace.names[slices["name"][kernel]]
                found.append(
                    (f"device {device}, stream {stream}", name, begin, begin + int(slices["duration"][kernel]))
                )
        return found


def layer() -> PhasesLayer:
    return PhasesLayer()
