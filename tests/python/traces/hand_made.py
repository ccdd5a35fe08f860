"""Hand-made traces for the tests of `kineto-spyre check`."""

from __future__ import annotations

import json
from typing import Any

BASE = 5_240_198_230_406.0  # microseconds, as large as Kineto's are


def slice_(name: str, cat: str, pid: Any, tid: Any, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": BASE + ts, "dur": dur, "args": args}


def arrow(end: str, number: int, pid: Any, tid: Any, ts: float, name: str = "ac2g") -> dict[str, Any]:
    event = {"ph": end, "id": number, "pid": pid, "tid": tid, "ts": BASE + ts, "cat": name, "name": name}
    return event | {"bp": "e"} if end == "f" else event


def meta(name: str, pid: Any, /, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": BASE, "args": args}


class Trace:
    """A sound trace of a Spyre: an op launches a kernel, a copy and a memset. A test spoils it."""

    def __init__(self) -> None:
        host = {"pid": 4321, "tid": 4322}
        self.op = slice_("aten::mm", "cpu_op", **host, ts=1.5, dur=40.0, **{"External id": 7})
        self.launch = slice_(
            "aiuLaunchControlBlocks", "privateuse1_runtime", **host, ts=2.0, dur=3.0, correlation=101, num_cbs=1
        )
        self.kernel = slice_(
            "spyre_kernel_v1_mm_abcdefghijklmnop#1", "kernel", 0, 1, 10.0, 20.0, correlation=101, stream=1, device=0
        )
        self.copy_call = slice_(
            "aiuDataTransferDtoH", "privateuse1_runtime", **host, ts=6.0, dur=3.0, correlation=102, bytes=64
        )
        self.copy = slice_(
            "Memcpy (DtoH)", "gpu_memcpy", 0, 200, 31.0, 5.0, correlation=102, stream=200, device=0, bytes=64
        )
        self.copy["args"]["memory bandwidth (GB/s)"] = 0.0128
        self.set_call = slice_("aiuMalloc", "privateuse1_runtime", **host, ts=10.0, dur=1.0, correlation=103, bytes=8)
        self.set = slice_("Memset (Device)", "gpu_memset", 0, 300, 40.5, 1.0, correlation=103, stream=300, bytes=8)
        for event in (self.launch, self.kernel, self.copy_call, self.copy, self.set_call, self.set):
            event["args"]["External id"] = 7
        self.step = slice_("ProfilerStep#1", "user_annotation", **host, ts=1.0, dur=60.0)
        self.span = slice_("PyTorch Profiler (0)", "Trace", "Spans", "PyTorch Profiler", 0.0, 100.0)
        self.start = arrow("s", 101, **host, ts=2.0)
        self.end = arrow("f", 101, 0, 1, 10.0)
        self.names = [
            meta("process_name", 4321, name="python"),
            meta("process_labels", 4321, labels="CPU"),
            meta("process_name", 0, name="AIU"),
            meta("process_labels", 0, labels="AIU 0"),
        ]
        self.events: list[Any] = [
            *self.names, self.step, self.op, self.launch, self.start, self.kernel, self.end,
            self.copy_call, arrow("s", 102, **host, ts=6.0), self.copy, arrow("f", 102, 0, 200, 31.0),
            self.set_call, arrow("s", 103, **host, ts=10.0), self.set, arrow("f", 103, 0, 300, 40.5),
            {"ph": "C", "name": "pwr (W)", "pid": 0, "tid": 0, "ts": BASE, "args": {"W": 41.5}},
            self.span,
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": BASE + 100.0},
        ]  # fmt: skip
        self.head: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "type": "AIU", "name": "AIU", "core": "PT Array"}],
            "kineto_spyre": {"dropped": 0, "invalid": {}},
        }
        self.tail: dict[str, Any] = {"traceName": "trace.json"}

    def remove(self, *events: Any) -> None:
        self.events = [event for event in self.events if not any(event is one for one in events)]

    def add(self, *events: Any) -> None:
        self.events.extend(events)

    def text(self) -> str:
        return json.dumps(self.head | {"traceEvents": self.events} | self.tail)
