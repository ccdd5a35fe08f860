"""`kineto-spyre merge`: clocks that are known to be apart are found, and what does not belong together is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from kineto_spyre.traces.clocks import fit

US = 1000


def collectives(seed, count=400, seconds=10, offset=5_000 * US, rate=50e-6):
    """Two ranks' begins and ends: each comes when it comes, and leaves some time after the last one came."""
    random = np.random.default_rng(seed)
    true = np.sort(random.uniform(0, seconds * 1e9, count))
    came = true + random.exponential(300 * US, (2, count))
    left = came.max(0) + 20 * US + random.gamma(1, 100 * US, (2, count))
    left[:, :: count // 10] += random.exponential(20_000 * US, (2, len(true[:: count // 10])))  # a rank that slept
    other = [clock + offset + rate * clock for clock in (came[1], left[1])]
    return [clock.astype(np.int64) for clock in (came[0], left[0], *other)]


@pytest.mark.parametrize("seed", range(20))
def test_clocks_5_ms_and_50_ppm_apart_are_aligned_within_20_us(seed):
    found = fit(*collectives(seed))
    for time in range(0, 10_000_000_001, 1_000_000_000):
        away = abs(found.aligned(round(time + 5_000 * US + 50e-6 * time)) - time)
        assert away <= 20 * US
        assert away <= found.error
    assert found.pairs == 400 and 0 < found.usual_error <= 20 * US


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_error_holds_for_a_few_collectives_too(seed):
    begin, end, other_begin, other_end = collectives(seed, count=10, seconds=0.1)
    found = fit(begin, end, other_begin, other_end)
    for time in (end[0], end[-1]):
        assert abs(found.aligned(round(time + 5_000 * US + 50e-6 * time)) - time) <= found.error + 1


@pytest.mark.parametrize("seed", range(10))
def test_a_rank_that_is_late_more_often_does_not_seem_to_have_another_clock(seed):
    begin, end, other_begin, other_end = collectives(seed, count=200, seconds=1, offset=0, rate=0)
    random = np.random.default_rng(seed)
    late = random.random(200) < 0.8
    came = np.maximum(begin, other_begin)
    begin, other_begin = np.where(late, came - 300 * US, came), np.where(late, came, came - 300 * US)
    # Who comes last finds the other's data there, and leaves 60 us before the other does.
    leaves = came + 20 * US + random.gamma(2, 10 * US, (2, 200)).astype(np.int64)
    end, other_end = leaves[0] + np.where(late, 60 * US, 0), leaves[1] + np.where(late, 0, 60 * US)
    found = fit(begin, end, other_begin, other_end)
    assert abs(found.offset) <= 10 * US


def test_aligned_times_keep_their_order():
    found = fit(*collectives(0))
    times = np.random.default_rng(1).integers(0, 10**10, 1000)
    moved = [found.aligned(int(time)) for time in np.sort(times)]
    assert moved == sorted(moved)


def test_what_was_not_the_same_collective_has_no_line():
    begin, end, other_begin, other_end = collectives(0)
    with pytest.raises(ValueError):
        fit(begin, end, other_begin[::-1], other_end[::-1])


def rank(number, shift=0.0, size=2, names=("gloo:all_reduce",), base=1_790_857_026_000_000_000, count=8):
    """A rank's trace with a kernel, its launch and the arrow, and collectives."""
    events = [
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "AIU 0"}},
        {"ph": "X", "cat": "privateuse1_runtime", "name": "aiuLaunch", "pid": 7, "tid": 7, "ts": 10.5 + shift,
         "dur": 2, "args": {"correlation": 5}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 7, "tid": 7, "ts": 10.5 + shift},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 0, "tid": 1, "ts": 20 + shift, "bp": "e"},
        {"ph": "X", "cat": "kernel", "name": "mm", "pid": 0, "tid": 1, "ts": 20 + shift, "dur": 5.25,
         "args": {"correlation": 5, "stream": 1, "device": 0, "odd": [1, {"a": None}]}},
    ]  # fmt: skip
    for index in range(count):
        for place, name in enumerate(names):
            events.append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 9, "dur": 10,
                           "ts": 1000.0 * index + 100 * place + 40 + shift, "args": {"Input Dims": [[4]]}})  # fmt: skip
    info = {"backend": "gloo", "rank": number, "world_size": size}
    return {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": base, "traceEvents": events}


def merge(tmp_path, *documents, options=()):
    paths = []
    for place, document in enumerate(documents):
        paths.append(tmp_path / f"{place}.json")
        text = document if isinstance(document, str) else json.dumps(document)
        paths[-1].write_text(text)
    out = tmp_path / "merged.json"
    command = [sys.executable, "-P", "-m", "kineto_spyre", "merge", *map(str, paths), "-o", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done, json.loads(out.read_bytes()) if out.exists() else None


def test_a_rank_is_moved_onto_the_first_ones_clock_and_nothing_collides(tmp_path):
    # The second rank's clock is 5 ms ahead, and its file counts from another base.
    done, merged = merge(tmp_path, rank(0), rank(1, 5000 - 2e6, base=1_790_857_028_000_000_000))
    assert done.returncode == 0, done.stderr
    assert "rank 1: its clock was +5,000.0 us from rank 0's" in done.stdout and "8 collectives" in done.stdout
    events = merged["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert [event["ts"] for event in kernels] == [20, 20] and [event["dur"] for event in kernels] == [5.25, 5.25]
    assert kernels[0]["args"] == kernels[1]["args"] == rank(0)["traceEvents"][5]["args"]
    pids = {event["pid"] for event in events if "pid" in event}
    assert len(pids) == 4 and kernels[0]["pid"] != kernels[1]["pid"]
    ends = [(event["ph"], event["id"]) for event in events if event.get("cat") == "ac2g"]
    assert len(set(ends)) == 4 and len({number for _, number in ends}) == 2
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 0: python", "rank 1: python"} <= names
    labels = [event["args"]["labels"] for event in events if event["name"] == "process_labels"]
    assert labels == ["rank 0: AIU 0", "rank 1: AIU 0"]
    assert [one["rank"] for one in merged["merged"]] == [0, 1]
    assert merged["merged"][1]["offset_ns"] == 5_000_000 and "distributedInfo" not in merged


def test_a_rank_that_recorded_more_is_paired_where_the_ends_differ_evenly(tmp_path):
    longer = rank(1, 5000, count=11)
    times = [40, 250, 1100, 2900, 3050, 3800, 5200, 5900, 6600, 8100, 9400]
    ranges = [event for event in longer["traceEvents"] if event["name"].startswith("gloo")]
    for event, time in zip(ranges, times, strict=True):
        event["ts"] = 5000 + time
    shorter = rank(0, count=7)
    for event, time in zip([e for e in shorter["traceEvents"] if e["name"].startswith("gloo")], times[2:9]):
        event["ts"] = time
    done, merged = merge(tmp_path, shorter, longer)
    assert done.returncode == 0, done.stderr
    assert merged["merged"][1]["offset_ns"] == 5_000_000 and merged["merged"][1]["collectives"] == 7


def test_clocks_can_be_kept(tmp_path):
    done, merged = merge(tmp_path, rank(0, names=()), rank(1, 7, names=()), options=["--keep-clocks"])
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert [event["ts"] for event in merged["traceEvents"] if event.get("cat") == "kernel"] == [20, 27]


@pytest.mark.parametrize(
    ("documents", "code", "words"),
    [
        ([rank(0)], 2, "one trace is merged already"),
        ([rank(0), rank(0)], 1, "are both rank 0; name each rank once"),
        ([rank(0), rank(1, size=4)], 1, "of a run of 2 ranks and"),
        ([rank(0), rank(1, names=())], 1, "1.json holds no collective that all ranks wait for"),
        ([rank(0), rank(1, names=("gloo:broadcast",))], 1, "1.json holds no collective that all ranks wait for"),
        ([rank(0), rank(1, names=("gloo:barrier",))], 1, "have no collective in common"),
        ([rank(0), {**rank(1), "distributedInfo": None}], 1, "does not say which rank it is"),
        ([rank(0), "no JSON"], 2, "1.json"),
        ([rank(0), json.dumps(rank(1))[:-200]], 2, "1.json"),
        ([rank(0), ""], 2, "1.json"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path, documents, code, words):
    done, merged = merge(tmp_path, *documents)
    assert done.returncode == code and merged is None
    assert words in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_collectives_that_no_clock_explains_are_refused(tmp_path):
    other = rank(1)
    for place, event in enumerate(e for e in other["traceEvents"] if e["name"].startswith("gloo")):
        event["ts"] += 500 * (-1) ** place
    done, merged = merge(tmp_path, rank(0), other)
    assert done.returncode == 1 and merged is None and "don't match" in done.stderr


def test_nothing_is_replaced_without_force(tmp_path):
    (tmp_path / "merged.json").write_text("mine")
    command = [sys.executable, "-P", "-m", "kineto_spyre", "merge", "a", "b", "-o", str(tmp_path / "merged.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "exists; pass --force" in done.stderr
    assert (tmp_path / "merged.json").read_text() == "mine"
    done, merged = merge(tmp_path, rank(0), rank(1), options=["--force"])
    assert done.returncode == 0 and len(merged["merged"]) == 2
