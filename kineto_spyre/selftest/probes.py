"""The probes: what is done with the library to find something out. Each returns plain values, and judges nothing.

Each probe stands alone: it registers, enables and disables for itself, so that one that was left out because the
library hung or crashed in it takes nothing from the others.
"""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

from .. import _library
from . import records as rec
from .work import ALLOCATION_BYTES, COPY_IN_BYTES, COPY_OUT_BYTES, SET_BYTES, Work

ALL_KINDS = range(1, 12)
COMPUTE, RUNTIME = 1, 6
PAIR = (COMPUTE, RUNTIME)
SETTLE_S = 0.05  # for what a library does after a call has returned
MIB = 1 << 20
SMALL = 4096  # a buffer of so many bytes holds some 17 compute records
MOST_STEPS = 1_000_000


class Driver:
    """The library and the work that it watches. Its calls are told before they are made."""

    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        from .. import _selftest

        self.path = path
        self.native = _selftest
        self._tell = tell
        self.functions: dict[str, bool] = {}
        self.mapped_before = self.mapped_with_runtime = False
        self._is_open = False
        self.enabled: set[int] = set()

    def setup(self, backend: str) -> None:
        self.mapped_before = self._mapped()
        self.work = Work(backend)
        self.mapped_with_runtime = self._mapped()

    def _mapped(self) -> bool:
        maps = pathlib.Path("/proc/self/maps").read_text()
        return os.path.realpath(self.path) in maps or _library.mapped() is not None

    def open(self, probe: str) -> None:
        """Opens the library, but for the probe that measures what a launch costs without it."""
        if self._is_open or probe == "unopened":
            return
        self._tell("dlopen")
        self.functions = self.native.open(self.path, _library.FUNCTIONS)
        self._is_open = True

    # The library's functions. Each returns (code, ns, value, number of the call).

    def register(self) -> int:
        self._tell("aiuptiActivityRegisterCallbacks")
        return self.native.register()[0]

    def enable(self, *kinds: int) -> dict[int, int]:
        codes = {}
        for kind in kinds:
            self._tell("aiuptiActivityEnable")
            codes[kind] = self.native.enable(kind)[0]
            if codes[kind] == 0:
                self.enabled.add(kind)
        return codes

    def disable(self, *kinds: int) -> dict[int, int]:
        codes = {}
        for kind in kinds:
            self._tell("aiuptiActivityDisable")
            codes[kind] = self.native.disable(kind)[0]
            if codes[kind] == 0:
                self.enabled.discard(kind)
        return codes

    def flush(self) -> tuple[int, int, int]:
        """Code, duration in ns, number of the call."""
        self._tell("aiuptiFlushAllActivities")
        code, ns, _, number = self.native.flush()
        return code, ns, number

    def dropped(self) -> tuple[int, int]:
        self._tell("aiuptiActivityGetNumDroppedRecords")
        code, _, value, _ = self.native.dropped()
        return code, value

    def iterate(self, buffer: int) -> list[tuple[int, int]]:
        self._tell("aiuptiActivityGetNextRecord")
        return self.native.iterate(buffer, MOST_STEPS)

    def mark(self) -> int:
        return len(self.native.events(0))

    def completed(self, first: int) -> list[int]:
        """The buffers that came back since `first`, in that order."""
        return [event[4] for event in self.native.events(first) if event[0] == "completed" and event[4] >= 0]

    def out(self) -> int:
        """How many buffers the library has at this moment."""
        out: set[int] = set()
        for what, *_, buffer, _, _ in self.native.events(0):
            (out.add if what == "requested" else out.discard)(buffer)
        return len(out - {-1})

    def records(self, buffers: list[int]) -> list[bytes]:
        found = []
        for buffer in buffers:
            found += rec.cut(self.native.content(buffer), self.iterate(buffer))
        return found

    def count(self, first: int) -> dict[str, int]:
        """How many records of which kind came back since `first`."""
        counts: dict[str, int] = {}
        for record in self.records(self.completed(first)):
            kind = rec.kind_name(record[0])
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def rest(self) -> None:
        """Nothing stays enabled, whatever a probe left behind."""
        if self._is_open and self.enabled:
            self.disable(*sorted(self.enabled))
            self.flush()

    def stop(self, *kinds: int) -> None:
        """As the public clients do it."""
        self.flush()
        self.disable(*kinds)
        self.flush()
        time.sleep(SETTLE_S)


def unopened(driver: Driver) -> dict[str, Any]:
    """Before the library is opened: what a launch costs."""
    path = pathlib.Path(driver.path)
    return {
        "bytes": path.stat().st_size,
        "usual_name": path.name.startswith("libaiupti.so"),
        "mapped_before_runtime": driver.mapped_before,
        "mapped_with_runtime": driver.mapped_with_runtime,
        "ns_a_launch": driver.work.ns_a_launch(100),
    }


def cost(driver: Driver) -> dict[str, Any]:
    """What a launch costs with the library open, with kinds enabled, and with them disabled again."""
    found: dict[str, Any] = {"functions": driver.functions, "opened": driver.work.ns_a_launch(100)}
    driver.native.set_buffers(MIB)
    driver.register()
    driver.enable(*PAIR)
    found["enabled"] = driver.work.ns_a_launch(100)
    driver.stop(*PAIR)
    found["disabled"] = driver.work.ns_a_launch(100)
    return found


def session(driver: Driver) -> dict[str, Any]:
    """A session as the public clients do it, with one of each kind of work in it."""
    native, work = driver.native, driver.work
    native.set_buffers(MIB)
    first = driver.mark()
    register = driver.register()
    enabled = driver.enable(*ALL_KINDS)
    for what, count, worker in (("launch", 20, 0), ("launch", 20, 1), ("copy_in", 4, 0), ("copy_out", 4, 0)):
        work.do(what, count, worker)
    work.do("fill", 4)
    work.do("allocate", 2)
    by_itself = len(driver.completed(first))
    code, flush_ns, flush_number = driver.flush()
    at_return = len(driver.completed(first))
    out_at_return = driver.out()
    time.sleep(SETTLE_S)
    late = len(driver.completed(first)) - at_return
    before_disable = driver.mark()
    disabled = driver.disable(*(kind for kind, result in enabled.items() if result == 0))
    last_code, _, _ = driver.flush()
    time.sleep(SETTLE_S)
    events = native.events(first)
    after_flush = driver.completed(before_disable)
    buffers = driver.completed(first)
    found = records_of(driver, buffers)
    lent = {event[4] for event in events if event[0] == "requested"}
    return {
        "codes": {
            "register": register,
            "enable": enabled,
            "disable": disabled,
            "flush": code,
            "flush_with_nothing_enabled": last_code,
        },
        "flush_ns": flush_ns,
        "buffers": {
            "requested": len(lent),
            "completed_before_flush": by_itself,
            "completed_after_flush_returned": late,
            "completed_in_all": len(buffers),
            "requested_in_flush": sum(event[0] == "requested" and event[3] == flush_number for event in events),
            "out_after_flush": out_at_return,
            "still_out": driver.out(),
            "twice_or_unknown": sum(event[0] == "unknown" for event in events),
            "valid_beyond_size": sum(event[0] == "completed" and event[6] > event[5] for event in events),
            "bytes_after_last_flush": sum(len(native.content(buffer)) for buffer in after_flush),
            "callback_on_callers_thread": sum(event[2] in {w.thread for w in work.workers} for event in events),
            "callbacks": len(events),
        },
        **found,
    }


def records_of(driver: Driver, buffers: list[int]) -> dict[str, Any]:
    """The iterator's ways, and what the records say."""
    native = driver.native
    ends: dict[str, Any] = {"codes": {}, "null": 0, "whole": 0, "buffers": 0, "same_again": 0, "steps": 0}
    found: list[bytes] = []
    for buffer in buffers:
        content = native.content(buffer)
        steps = driver.iterate(buffer)
        records = rec.cut(content, steps)
        found += records
        code, offset = steps[-1]
        ends["buffers"] += 1
        ends["steps"] += len(steps)
        ends["codes"][code] = ends["codes"].get(code, 0) + 1
        ends["null"] += offset == -1
        ends["whole"] += len(records) == len(steps) - 1
        ends["same_again"] += driver.iterate(buffer) == steps
    pieces = driver.work.taken()
    sizes = {"copy_in": COPY_IN_BYTES, "copy_out": COPY_OUT_BYTES, "fill": SET_BYTES, "allocate": ALLOCATION_BYTES}
    done = {piece["what"] for piece in pieces if not piece["error"]}
    moved = {what: size for what, size in sizes.items() if what in done}
    truth = rec.Truth(os.getpid(), pieces, moved, lambda process: os.path.exists(f"/proc/{process}"))
    return {
        "end": ends,
        "work": [{"what": p["what"], "count": p["count"], "error": p["error"]} for p in pieces],
        "sizes": rec.sizes(found),
        **rec.read(found, truth, [dict(layout) for layout in native.layouts()]),
    }


def again(driver: Driver) -> dict[str, Any]:
    """Two sessions in a row: whether what was lent in one comes back in the next."""
    driver.native.set_buffers(MIB)
    counts, old = [], 0
    for _ in range(2):
        first = driver.mark()
        lent_before = {event[4] for event in driver.native.events(0) if event[0] == "requested"}
        driver.register()
        driver.enable(*PAIR)
        driver.work.do("launch", 20)
        driver.stop(*PAIR)
        counts.append(driver.count(first))
        old += sum(len(driver.native.content(b)) > 0 for b in driver.completed(first) if b in lent_before)
    driver.work.taken()
    return {"launches": 20, "sessions": counts, "filled_from_before": old}


def order(driver: Driver) -> dict[str, Any]:
    """Two threads launch at once, with small buffers: in which order they come back, and who shares one.

    A library may write what threads recorded one thread after the other. So that calls and kernels meet often enough,
    the second part flushes after each few launches.
    """
    driver.native.set_buffers(SMALL)
    first = driver.mark()
    driver.register()
    driver.enable(*PAIR)
    driver.work.both(150)
    driver.flush()
    buffers = [buffer for buffer in driver.completed(first) if driver.native.content(buffer)]
    second = driver.mark()
    for _ in range(10):
        driver.work.both(10)
        driver.flush()
    driver.stop(*PAIR)
    kinds = [{record[0] for record in driver.records([buffer])} for buffer in driver.completed(second)]
    return {
        "buffers": len(buffers),
        "out_of_order": sum(later < earlier for earlier, later in zip(buffers, buffers[1:])),
        "with_calls": sum(RUNTIME in seen for seen in kinds),
        "with_kernels": sum(COMPUTE in seen for seen in kinds),
        "with_calls_and_kernels": sum({*PAIR} <= seen for seen in kinds),
    }


def disable_first(driver: Driver) -> dict[str, Any]:
    """Disabling before any flush: when the records come, if they come."""
    driver.native.set_buffers(MIB)
    driver.register()
    driver.enable(*PAIR)
    found: dict[str, Any] = {"launches": 20}
    driver.work.do("launch", 20)
    first = driver.mark()
    driver.disable(*PAIR)
    time.sleep(SETTLE_S)
    found["at_disable"] = driver.count(first)
    first = driver.mark()
    found["flush_code"], _, _ = driver.flush()
    time.sleep(SETTLE_S)
    found["at_flush"] = driver.count(first)
    first = driver.mark()
    driver.enable(*PAIR)
    driver.stop(*PAIR)
    found["once_enabled_again"] = driver.count(first)
    driver.work.taken()
    return found


def limit(driver: Driver) -> dict[str, Any]:
    """Many launches without a flush, in small buffers: how many buffers the library takes."""
    driver.native.set_buffers(SMALL)
    first = driver.mark()
    driver.register()
    driver.enable(*PAIR)
    driver.dropped()
    launches, begin = 0, time.monotonic()
    while launches < 2000 and time.monotonic() - begin < 4:
        driver.work.do("launch", 100)
        launches += 100
    driver.flush()
    filled = sum(len(driver.native.content(buffer)) > 0 for buffer in driver.completed(first))
    driver.stop(*PAIR)
    dropped = driver.dropped()
    found = {"launches": launches, "buffers": filled, "records": driver.count(first), "dropped": dropped}
    first = driver.mark()
    driver.enable(*PAIR)
    driver.work.do("launch", 20)
    driver.stop(*PAIR)
    driver.work.taken()
    return {**found, "launches_after": 20, "records_after": driver.count(first)}


def quiet(driver: Driver) -> dict[str, Any]:
    """With everything disabled: whether the library still asks for buffers or writes."""
    first = driver.mark()
    driver.work.do("launch", 20)
    time.sleep(SETTLE_S)
    driver.work.taken()
    return {"callbacks": driver.mark() - first}


def codes(driver: Driver) -> dict[str, Any]:
    """What the functions return where they are asked for what they may not have."""
    driver.register()
    found: dict[str, Any] = {"enable_invalid": driver.enable(0)[0], "enable_unknown": driver.enable(99)[99]}
    found["enable_twice"] = [driver.enable(COMPUTE)[COMPUTE] for _ in range(2)]
    found["disable_twice"] = [driver.disable(COMPUTE)[COMPUTE] for _ in range(2)]
    found["disable_invalid"] = driver.disable(0)[0]
    driver._tell("aiuptiActivityGetNextRecord")
    found["next_of_nothing"] = driver.native.next_of_nothing()[0]
    return found


def dropped(driver: Driver) -> dict[str, Any]:
    """Buffers that are too small for any record: whether that is counted, and whether reading resets the count."""
    driver.register()
    before = [driver.dropped() for _ in range(2)]
    driver.native.set_buffers(MIB, short_ones=3, short_bytes=64)
    first = driver.mark()
    driver.enable(COMPUTE)
    driver.work.do("launch", 20)
    driver.stop(COMPUTE)
    driver.native.set_buffers(MIB)
    driver.work.taken()
    return {
        "before": before,
        "after": [driver.dropped() for _ in range(2)],
        "launches": 20,
        "records": driver.count(first),
    }


# In the order in which they are done: what is most worth knowing first, what is most likely to end the process last.
PROBES: dict[str, Callable[[Driver], dict[str, Any]]] = {
    "unopened": unopened,
    "session": session,
    "cost": cost,
    "again": again,
    "order": order,
    "disable_first": disable_first,
    "limit": limit,
    "quiet": quiet,
    "codes": codes,
    "dropped": dropped,
}
