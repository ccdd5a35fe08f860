"""The emulated Spyre with two devices, ops that launch what a test wants, and traces as dictionaries."""

from __future__ import annotations

import collections
import gzip
import json
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kineto_spyre
from kineto_spyre import emulator

ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]

_library = torch.library.Library("kineto_spyre_tests", "FRAGMENT")
_library.define("a(Tensor x) -> Tensor")
_library.define("b(Tensor x) -> Tensor")
_work: dict[str, Callable[[], None]] = {}


def _implement(name: str) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        _work[name]()
        return torch.ones_like(x)

    _library.impl(name, run, "CompositeExplicitAutograd")


_implement("a")
_implement("b")


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    if not emulator.is_enabled():
        emulator.enable(devices=2)


@pytest.fixture
def devices() -> list[emulator.Device]:
    if emulator.device_count() < 2:
        pytest.skip("another test of this process has started a machine with one device")
    return [emulator.Device(0), emulator.Device(1)]


@pytest.fixture
def device() -> Iterator[emulator.Device]:
    yield emulator.Device(0)
    emulator.Device(0).synchronize()


@pytest.fixture
def op() -> Callable[..., None]:
    """op("a", work) runs the op kineto_spyre_tests::a, whose kernel calls work."""

    def run(name: str, work: Callable[[], None]) -> None:
        _work[name] = work
        getattr(torch.ops.kineto_spyre_tests, name)(torch.empty(1))

    return run


class Trace:
    """A written trace, and the questions that tests ask of it."""

    def __init__(self, path: pathlib.Path) -> None:
        opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
        with opened as file:
            self.json = json.load(file)
        self.events: list[dict[str, Any]] = self.json["traceEvents"]
        self.metadata: dict[str, Any] = self.json.get("kineto_spyre", {})

    def of(self, *categories: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["ph"] == "X" and e.get("cat") in categories]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["ph"] == "X" and e["name"] == name]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return self.of("kernel")

    @property
    def device_work(self) -> list[dict[str, Any]]:
        return self.of("kernel", "gpu_memcpy", "gpu_memset")

    def flows(self, phase: str) -> collections.Counter[int]:
        return collections.Counter(e["id"] for e in self.events if e["ph"] == phase and e.get("cat") == "ac2g")

    def ns(self, event: dict[str, Any]) -> tuple[int, int]:
        """Start since the epoch, and duration."""
        start = self.json["baseTimeNanoseconds"] + round(event["ts"] * 1000)
        return start, round(event["dur"] * 1000)

    def overlaps_by_row(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of device events that cross on one row (ranges may nest)."""
        rows: dict[tuple[Any, Any], list[dict[str, Any]]] = collections.defaultdict(list)
        for event in self.of("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
            rows[event["pid"], event["tid"]].append(event)
        crossing = []
        for events in rows.values():
            events.sort(key=lambda e: (e["ts"], -e["dur"]))
            open_: list[dict[str, Any]] = []
            for event in events:
                start, duration = self.ns(event)
                while open_ and sum(self.ns(open_[-1])) <= start:
                    open_.pop()
                # Kineto draws a range without length a nanosecond longer at both ends.
                if event["cat"] == "gpu_user_annotation" and duration == 2:
                    start, duration = start + 1, 0
                if open_ and (event["cat"] != "gpu_user_annotation" or sum(self.ns(open_[-1])) < start + duration):
                    crossing.append((open_[-1], event))
                open_.append(event)
        return crossing


@pytest.fixture
def export(tmp_path: pathlib.Path) -> Callable[[profile], Trace]:
    def write(prof: profile) -> Trace:
        path = tmp_path / "trace.json"
        prof.export_chrome_trace(str(path))
        return Trace(path)

    return write


def device_ns(prof: profile, name: str) -> int:
    """Self SPYRE of all events of a name, in ns."""
    return sum(round(e.self_device_time_total * 1000) for e in prof.events() if e.name == name and is_cpu(e))


def is_cpu(event: Any) -> bool:
    return event.device_type == torch.autograd.DeviceType.CPU


def session() -> kineto_spyre.Session:
    last = kineto_spyre.last_session()
    assert last is not None
    return last


@pytest.fixture
def next_session_is_well(
    device: emulator.Device, op: Callable[..., None], export: Callable[[profile], Trace]
) -> Iterator[None]:
    """Whatever went wrong in a test, the session after it is right."""
    yield
    # A library that was not flushed still holds buffers of the session that went wrong, and fills them first.
    with warnings.catch_warnings(), profile(activities=ACTIVITIES):
        warnings.simplefilter("ignore", kineto_spyre.SpyreProfilerWarning)
        device.synchronize()
    with profile(activities=ACTIVITIES) as prof:
        op("a", lambda: device.launch("after", ns=1000))
        device.synchronize()
    trace = export(prof)
    assert [k["name"] for k in trace.kernels] == ["after"]
    assert session().warnings == []
    assert session().invalid == {}
    assert session().dropped == 0
