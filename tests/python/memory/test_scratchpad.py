"""The scratchpad: what the figures say equals what the emulator's cost model put into the records, to the byte."""

from __future__ import annotations

import json
import random

import pytest
import torch

import kineto_spyre
from kineto_spyre import emulator, memory
from kineto_spyre.memory.scratchpad import CAPACITY, USABLE, table

pytestmark = pytest.mark.usefixtures("clean_device")

STICK = 128


def truth(read: int, written: int) -> int:
    """What a kernel takes by the cost model: what it touches, up to the compiler's share of the cores it runs on."""
    cores = min(32, max(1, -(-written // STICK)))
    used = int(min(read + written, 0.8 * (2 << 20) * cores))
    return -(-used // STICK) * STICK


@pytest.fixture
def trace(tmp_path):
    with kineto_spyre.profile_spyre(memory=True) as prof:
        device = emulator.Device(0)
        for name, read, written in KERNELS:
            device.launch(name, flops=0, bytes_read=read, bytes_written=written)
        torch.spyre.synchronize()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return path


KERNELS = [("small", 1000, 500), ("large", 40 << 20, 8 << 20), ("spills", 200 << 20, 8 << 20), ("small", 3000, 500)]


def test_peak_and_table_equal_the_emulators_truth(trace) -> None:
    facts = memory.scratchpad(trace)
    (device,) = facts["devices"]
    assert (facts["capacity"], facts["usable"]) == (64 << 20, int(0.8 * (64 << 20))) == (CAPACITY, USABLE)
    assert device["peak"]["bytes"] == truth(200 << 20, 8 << 20)
    assert device["peak"]["kernels"] == ["spills"]
    assert device["peak_of_capacity"] == truth(200 << 20, 8 << 20) / CAPACITY
    kernels = {one["name"]: one for one in device["kernels"]}
    assert {name: one["peak"] for name, one in kernels.items()} == {
        "small": truth(3000, 500), "large": truth(40 << 20, 8 << 20), "spills": truth(200 << 20, 8 << 20)
    }  # fmt: skip
    assert {name: one["spills"] for name, one in kernels.items()} == {"small": 0, "large": 0, "spills": 1}
    assert device["spills"] == 1
    assert {name for name, one in kernels.items() if one["more_than_half_unused"]} == {"small"}
    assert device["fragmentation"] is device["reuse"] is None
    json.dumps(facts)


def test_the_average_is_weighted_by_time(trace) -> None:
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("cat") == "kernel"]
    taken = [(one["args"]["local memory total"], one["dur"]) for one in events]
    whole = sum(duration for _, duration in taken)
    (device,) = memory.scratchpad(trace)["devices"]
    assert device["average"] == pytest.approx(sum(size * duration for size, duration in taken) / whole, rel=1e-9)


def test_the_counter_goes_up_and_down_with_each_kernel(trace) -> None:
    events = json.loads(trace.read_text())["traceEvents"]
    values = [one["args"]["bytes"] for one in events if one["ph"] == "C" and one["name"] == "scratchpad (bytes)"]
    expected = []
    for _, read, written in KERNELS:
        expected += [truth(read, written), 0]
    assert values == expected


def test_kernels_of_two_streams_add_up(tmp_path) -> None:
    with kineto_spyre.profile_spyre(memory=True) as prof:
        device = emulator.Device(0)
        for stream in (1, 2):
            device.launch("k", ns=50_000_000, stream=stream, bytes_read=1 << 20, bytes_written=1 << 20)
        torch.spyre.synchronize()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    (found,) = memory.scratchpad(path)["devices"]
    (kernel,) = found["kernels"]
    assert found["peak"]["bytes"] == 2 * kernel["peak"]


def test_the_table_points_out_what_to_look_at(trace) -> None:
    lines = table(memory.scratchpad(trace)).splitlines()
    remarks = {line.split()[0]: line for line in lines[2:]}
    assert remarks["spills"].endswith("spills once") and remarks["small"].endswith("more than half unused")
    assert not remarks["large"].endswith("unused") and "spills" not in remarks["large"]
    assert table({"devices": []}) == "No kernel of this trace says how much of the scratchpad it uses."


def test_the_device_says_the_same_while_it_runs(tmp_path) -> None:
    torch.spyre.memory.reset_scratchpad_stats()
    with kineto_spyre.profile_spyre(memory=True) as prof:
        device = emulator.Device(0)
        for name, read, written in KERNELS:
            device.launch(name, flops=0, bytes_read=read, bytes_written=written)
        torch.spyre.synchronize()
    said = torch.spyre.memory.scratchpad_stats("spyre:0")
    assert said == {
        "capacity": CAPACITY, "usable": USABLE, "largest": truth(200 << 20, 8 << 20), "kernels": 4, "spills": 1,
        "fragmentation": None, "reuse": None,
    }  # fmt: skip
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    (found,) = memory.scratchpad(path)["devices"]
    assert found["peak"]["bytes"] == torch.spyre.memory.max_scratchpad_allocated()
    torch.spyre.memory.reset_scratchpad_stats()
    assert torch.spyre.memory.max_scratchpad_allocated() == 0


@pytest.mark.parametrize("seed", range(5))
def test_memory_and_scratchpad_peaks_of_random_programs_equal_the_emulators(tmp_path, seed) -> None:
    draw = random.Random(seed)
    torch.spyre.memory.reset_scratchpad_stats()
    memory.reset_peak()
    held: list[torch.Tensor] = []
    with kineto_spyre.profile_spyre(memory=True) as prof:
        held.append(torch.ones(1 << 20, device="spyre"))
        for _ in range(40):
            if len(held) > 1 and draw.random() < 0.4:
                held.pop(draw.randrange(len(held)))
            else:
                held.append(torch.ones(draw.randrange(1, 1 << 20), device="spyre") + 1)
        torch.spyre.synchronize()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    assert memory.peak(path).allocated == torch.spyre.memory.max_memory_allocated()
    (found,) = memory.scratchpad(path)["devices"]
    assert found["peak"]["bytes"] == torch.spyre.memory.max_scratchpad_allocated() > 0
