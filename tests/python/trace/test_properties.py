"""Random programs on the emulated device: the trace is valid, complete, and joined as the program was written."""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import tempfile
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.profiler import profile, record_function

from kineto_spyre import emulator

from .conftest import ACTIVITIES, Trace, is_cpu, session


@dataclass
class Kernel:
    name: str
    ns: int
    stream: int
    device: int
    count: int


@dataclass
class Copy:
    kind: str
    nbytes: int
    stream: int
    device: int


@dataclass
class Block:
    """Work under an op ("a" or "b"), a record_function range, or nothing; blocks nest."""

    under: str
    body: list[Kernel | Copy | Block] = field(default_factory=list)


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
kernels = st.builds(
    Kernel, names, st.integers(0, 20_000), st.integers(1, 3), st.integers(0, 1), st.sampled_from([1, 1, 1, 4])
)
copies = st.builds(
    Copy, st.sampled_from(["HtoD", "DtoH", "PtoP"]), st.integers(0, 100_000), st.integers(1, 3), st.integers(0, 1)
)
blocks = st.recursive(
    st.one_of(kernels, copies),
    lambda inner: st.builds(Block, st.sampled_from(["a", "b", "range", ""]), st.lists(inner, max_size=4)),
    max_leaves=12,
)
programs = st.lists(blocks, max_size=6)


class Run:
    """Runs a program; remembers what it launched, in order, and from which op (its place in the order of ops)."""

    def __init__(self, op, devices: list[emulator.Device]) -> None:
        self.op = op
        self.devices = devices
        self.kernels: list[tuple[Kernel, int | None]] = []
        self.copies: list[tuple[Copy, int | None]] = []
        self.ops = 0

    def run(self, part: Kernel | Copy | Block, op: int | None = None) -> None:
        if isinstance(part, Kernel):
            self.kernels.append((part, op))
            # The number makes each name unique, so that the trace tells which kernel it shows.
            name = f"{len(self.kernels)} {part.name}"
            self.devices[part.device].launch(name, ns=part.ns, stream=part.stream, count=part.count)
        elif isinstance(part, Copy):
            self.copies.append((part, op))
            self.devices[part.device].copy(part.kind, part.nbytes, stream=part.stream)
        elif part.under in ("a", "b"):
            number = self.ops
            self.ops += 1
            self.op(part.under, lambda: [self.run(inner, number) for inner in part.body])
        else:
            with record_function("range") if part.under == "range" else contextlib.nullcontext():
                for inner in part.body:
                    self.run(inner, op)


def profiled(program, op, devices) -> tuple[Run, Trace, profile]:
    run = Run(op, devices)
    with profile(activities=ACTIVITIES) as prof:
        for part in program:
            run.run(part)
        for device in devices:
            device.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        path.read_bytes().decode("utf-8")
        json.loads(path.read_text())
        return run, Trace(path), prof


def adds_up(trace: Trace) -> None:
    meta = trace.metadata
    assert meta == session().details
    assert meta["records_read"] == (
        sum(meta["captured"].values()) + sum(meta["invalid"].values()) + meta["out_of_window"] + meta["not_requested"]
    )
    shown = collections.Counter(e["cat"] for e in trace.events if e["ph"] == "X" and "cat" in e)
    assert meta["captured"]["kernel"] == shown["kernel"]
    assert meta["captured"]["memcpy"] == shown["gpu_memcpy"]
    assert meta["captured"]["memset"] + meta["captured"]["memory"] == shown["gpu_memset"]
    assert meta["captured"]["runtime"] == shown["privateuse1_runtime"]


common = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def run_op(op):
    return op


NO_LENGTH = Kernel("k", 0, 1, 0, 1)


@settings(common, max_examples=40)
@given(programs)
@example([Block("range", [NO_LENGTH, Block("range", [NO_LENGTH])])])
def test_every_piece_of_work_is_there_once_and_at_its_op(run_op, devices, program):
    run, trace, prof = profiled(program, nested(run_op), devices)
    adds_up(trace)
    assert session().invalid == {} and session().dropped == 0 and session().overlaps == 0
    assert trace.overlaps_by_row() == []

    ops = sorted(
        (e for e in trace.of("cpu_op") if e["name"].startswith("kineto_spyre_tests::")),
        key=lambda e: (e["ts"], -e["dur"]),
    )
    assert len(ops) == run.ops
    shown = collections.defaultdict(list)
    for kernel in trace.kernels:
        shown[int(kernel["name"].split(" ", 1)[0])].append(kernel)
    assert sorted(shown) == list(range(1, len(run.kernels) + 1))
    for number, (kernel, op) in enumerate(run.kernels, 1):
        events = shown[number]
        assert len(events) == kernel.count
        for event in events:
            assert trace.ns(event)[1] == kernel.ns
            assert (event["pid"], event["tid"]) == (kernel.device, kernel.stream)
            assert event["args"].get("External id") == (None if op is None else ops[op]["args"]["External id"])
    expected = collections.Counter(
        (f"Memcpy ({c.kind})", c.device, c.nbytes, None if op is None else ops[op]["args"]["External id"])
        for c, op in run.copies
    )
    assert expected == collections.Counter(
        (e["name"], e["pid"], e["args"]["bytes"], e["args"].get("External id")) for e in trace.of("gpu_memcpy")
    )

    # Arrows: one begin a launch that has work, one end a piece of work.
    assert set(trace.flows("s").values()) <= {1}
    assert trace.flows("f") == collections.Counter(e["args"]["correlation"] for e in trace.device_work)
    assert set(trace.flows("s")) == set(trace.flows("f"))

    # To the nanosecond: what the table gives to ops is what was launched from ops.
    table = sum(round(e.self_device_time_total * 1000) for e in prof.events() if is_cpu(e))
    assert table == sum(trace.ns(e)[1] for e in trace.device_work if "External id" in e["args"])


def nested(run_op):
    """The op fixture keeps one function an op; a program calls ops within ops."""
    stacks = collections.defaultdict(list)

    def run(name, work):
        stacks[name].append(work)

        def body():
            stacks[name].pop()()

        run_op(name, body)

    return run


FAULTS = [
    "drop", "duplicate", "zero_start", "backwards", "bad_name", "unterminated", "unknown_kind", "unknown_id", "torn",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning")
@settings(common, max_examples=40)
@given(
    programs,
    st.dictionaries(st.sampled_from(FAULTS), st.integers(1, 5), max_size=3),
    st.sampled_from(["", "-3ms", "3ms", "-1s"]),
    st.booleans(),
    st.sampled_from([None, "+40", "-40", "+8"]),
)
def test_whatever_the_library_does_the_trace_is_valid_and_adds_up(
    run_op, devices, program, faults, clock_offset, shuffle, size
):
    settings_ = dict(faults)
    if clock_offset:
        settings_["clock_offset"] = clock_offset
    if shuffle:
        settings_["shuffle"] = True
    if size:
        settings_["size"] = size
    with emulator.faults(**settings_):
        _run, trace, _prof = profiled(program, nested(run_op), devices)
    adds_up(trace)
    ops = {e["args"]["External id"]: e for e in trace.of("cpu_op")}
    launches = {e["args"]["correlation"]: e for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]}
    for event in trace.device_work:
        assert event["dur"] >= 0
        correlation = event["args"]["correlation"]
        assert 2**30 < correlation < 2**31
        if "External id" in event["args"]:
            # Joined to an op: then through a launch on that op's thread, within it.
            launch, op = launches[correlation], ops[event["args"]["External id"]]
            assert launch["tid"] == op["tid"]
            assert trace.ns(op)[0] <= trace.ns(launch)[0] <= sum(trace.ns(op))
    for name in (e["name"] for e in trace.events if "name" in e):
        assert name.isprintable()
