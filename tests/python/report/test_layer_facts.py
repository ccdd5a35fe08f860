"""What the layers of profile_spyre put into a trace, in the report: memory by category, scratchpad, torch.compile."""

from __future__ import annotations

import json

import pytest
from hand_made_work import as_bytes, kernel, launch

from kineto_spyre.report import make

CATEGORIES = "device memory by category (bytes)"


def counter(ts, device=0, **args):
    return {"ph": "C", "name": CATEGORIES, "ts": ts, "pid": device, "tid": 0, "args": args}


def report(*events, **metadata):
    document = json.loads(as_bytes([launch(0, 1, 1), kernel(10, 100, 1, 1), *events]))
    return make(json.dumps({**metadata, **document}).encode())


def test_memory_by_category_and_its_picture(tmp_path):
    made = report(counter(5, parameter=100, gradient=0), counter(20, parameter=100, gradient=60),
                  counter(30, parameter=100, gradient=10), counter(9, device=1, parameter=7, gradient=1))  # fmt: skip
    first, second = made.facts["categories"]
    assert first == {
        "device": 0, "times": [5000, 20000, 30000], "bytes": {"parameter": [100] * 3, "gradient": [0, 60, 10]},
        "peak": {"time": 20000, "bytes": {"parameter": 100, "gradient": 60}},
    }  # fmt: skip
    assert second["peak"] == {"time": 9000, "bytes": {"parameter": 7, "gradient": 1}}
    text = str(made)
    assert "Memory of device 0 by category" in text and "62.5%" in text
    page = tmp_path / "report.html"
    made.html(page)
    assert page.read_text().count("<title>gradient</title>") == 3  # a shape a device, and the legend


def test_of_many_moments_the_largest_stay():
    sizes = [(i * 7919) % 1000 for i in range(3000)]
    (one,) = report(*(counter(20 + i, parameter=held) for i, held in enumerate(sizes))).facts["categories"]
    assert len(one["times"]) == 300 and max(one["bytes"]["parameter"]) == max(sizes)
    assert one["peak"]["bytes"]["parameter"] == max(sizes)


def test_scratchpad_points_out_what_to_look_at():
    usable = int(0.8 * (64 << 20))
    made = report(launch(200, 2, 1), launch(400, 3, 1),
                  kernel(210, 100, 2, 1, name="spilling", **{"local memory total": usable}),
                  kernel(410, 100, 3, 1, name="tiny", **{"local memory total": 4096}))  # fmt: skip
    (one,) = made.facts["scratchpad"]
    assert one["peak"]["bytes"] == usable and one["spills"] == 1
    lines = str(made).splitlines()
    assert "1 launch of a kernel took all of it, so what they touch did not fit at once." in lines
    table = lines[lines.index("Scratchpad of device 0") :]
    assert next(line for line in table if line.startswith("spilling")).endswith("spills (1)")
    assert next(line for line in table if line.startswith("tiny")).endswith("more than half unused")


def test_compilation_with_reasons_and_caches():
    said = {
        "phases": 9, "compilations": 2, "duration_ns": 1_500_000,
        "recompiles": [{"time_ns": 1, "reason": "size\n mismatch"}],
        "graph_breaks": [{"time_ns": 2, "file": "model.py", "line": 12, "reason": "print"}],
        "caches": {"fx_graph_cache": {"hit": 1, "miss": 2, "bypass": 0}},
    }  # fmt: skip
    made = report(kineto_spyre_layers={"compile": said})
    assert made.facts["compile"]["graph_breaks"] == said["graph_breaks"]
    text = str(made)
    assert "2 functions were compiled within the recording, in 1.5 ms." in text
    assert "Asked of fx_graph_cache: 1 found, 2 not found." in text
    assert "model.py:12" in text and "size mismatch" in text


@pytest.mark.parametrize("said", [5, {"compile": []}, {"compile": {"recompiles": 5, "caches": {"a": {"hit": "x"}}}}])
def test_what_a_layer_wrote_and_this_can_not_read_counts_as_missing(said):
    made = report(kineto_spyre_layers=said)
    assert made.facts["categories"] == [] and "torch.compile" not in str(made)
    assert not made.facts["compile"] or made.facts["compile"]["caches"] == {}


def staged(ts, dur, number, group=0, size=8_000_000):
    """A collective as the emulated card stages it: what the rank contributes is read back, then the host's call."""
    return [
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy (DtoH)", "ts": ts, "dur": 1, "pid": 0, "tid": 200,
         "args": {"device": 0, "stream": 200, "correlation": number, "bytes": size, "coll_group": group,
                  "coll_algo": 1, "coll_bytes": size}},
        {"ph": "X", "cat": "privateuse1_runtime", "name": "aiuCommsCollAllreduce", "ts": ts + 2, "dur": dur, "pid": 1,
         "tid": 1, "args": {"cbid": 41}},
    ]  # fmt: skip


def test_bandwidth_of_collectives_and_waiting_for_other_ranks():
    events = [*staged(0, 1000, 10), *staged(2000, 4000, 11), *staged(8000, 500, 12, group=3)]
    made = report(*events, distributedInfo={"rank": 0, "world_size": 4})
    whole, part = made.facts["bandwidth"]
    assert whole["name"] == "aiuCommsCollAllreduce" and (whole["group"], whole["algorithm"], whole["count"]) == (
        0,
        1,
        2,
    )
    assert (whole["bytes"], whole["total"], whole["waiting"]) == (16_000_000, 5_000_000, 3_000_000)
    assert whole["bandwidth"] == 3.2 and whole["bus_bandwidth"] == pytest.approx(3.2 * 2 * 3 / 4)
    assert (part["group"], part["bandwidth"], part["bus_bandwidth"], part["waiting"]) == (3, 16.0, None, 0)
    assert "Collectives" in str(made) and "4.8" in str(made)
    assert report(*events).facts["bandwidth"][0]["bus_bandwidth"] is None


def test_a_kernel_with_the_fields_is_the_collective():
    fields = {"coll_group": 0, "coll_algo": 2, "coll_bytes": 1000}
    made = report(launch(200, 5, 1), kernel(300, 1, 5, 1, name="ring_all_gather", **fields),
                  distributedInfo={"world_size": 2})  # fmt: skip
    (one,) = made.facts["bandwidth"]
    assert (one["name"], one["total"], one["bandwidth"], one["bus_bandwidth"]) == ("ring_all_gather", 1000, 1.0, 0.5)
