"""Records of a newer release name the collective that work belongs to; trace and report show it."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed as dist

import kineto_spyre
from kineto_spyre import emulator
from kineto_spyre.report import make

FIELDS = ("coll_group", "coll_algo", "coll_bytes")


@pytest.fixture(scope="module", autouse=True)
def group():
    """A group of this process alone."""
    if not emulator.is_enabled():
        emulator.enable()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def profiled(path, **faults):
    x, out = torch.ones(1000, device="spyre"), torch.empty(1000, device="spyre")
    with emulator.faults(**faults), kineto_spyre.profile_spyre() as prof:
        dist.all_reduce(x)
        dist.all_gather_into_tensor(out, x)
        (x + out).cpu()
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def copies(trace):
    found = [one for one in trace["traceEvents"] if one.get("cat") == "gpu_memcpy"]
    return [one["args"] for one in sorted(found, key=lambda one: one["ts"])]


def test_a_collectives_copies_name_it_and_others_name_none(tmp_path):
    *staged, last = copies(profiled(tmp_path / "trace.json", collectives=True))
    assert len(staged) == 4  # read back and written, for each collective
    for args in staged:
        assert (args["coll_group"], args["coll_algo"], args["coll_bytes"]) == (0, 1, 4000)
        assert args["bytes"] == 4000
    assert not set(FIELDS) & set(last)
    (kernel,) = (one["args"] for one in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
                 if one.get("cat") == "kernel")  # fmt: skip
    assert not set(FIELDS) & set(kernel) and kernel["cycles_ts"]


def test_a_release_without_the_fields_shows_none(tmp_path):
    trace = profiled(tmp_path / "trace.json")
    assert copies(trace) and not [args for args in copies(trace) if set(FIELDS) & set(args)]
    assert make(tmp_path / "trace.json").facts["bandwidth"] == []


def test_a_longer_record_of_another_kind_is_not_taken_for_one(tmp_path):
    trace = profiled(tmp_path / "trace.json", size=24)
    kernels = [one["args"] for one in trace["traceEvents"] if one.get("cat") == "kernel"]
    assert kernels and not [args for args in kernels if set(FIELDS) & set(args)]


def test_the_report_shows_their_bandwidth(tmp_path):
    profiled(tmp_path / "trace.json", collectives=True)
    made = make(tmp_path / "trace.json")
    found = {one["name"]: one for one in made.facts["bandwidth"]}
    assert set(found) == {
        "Unknown CBID 41",
        "aiuCommsCollAllgather",
    }  # 41 is the all-reduce here
    reduced = found["Unknown CBID 41"]
    assert (reduced["count"], reduced["bytes"], reduced["group"], reduced["waiting"]) == (1, 4000, 0, 0)
    assert reduced["bandwidth"] == pytest.approx(4000 / reduced["total"])
    assert reduced["bus_bandwidth"] == 0  # of one rank, no link carries anything
