"""Two traces: what changed has the right values, noise is told from change, and the sum is explained to 1 %."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from hand_made_work import as_bytes, kernel, launch, slice_

from kineto_spyre.report import compare
from kineto_spyre.report.noise import probability, real


def run_of(steps, a=20.0, b=50.0, calls=1, host=30.0, jitter=0.0, seed=1, extra=None):
    """Steps of: host time in aten::slow, kernel `a` several times, kernel `b`; ends with 10 us of nothing known."""
    rng = random.Random(seed)
    events, at, number = [], 0.0, 0

    def work(name, dur):
        nonlocal at, number
        number += 1
        dur = round(dur * (1 + jitter * rng.uniform(-1, 1)), 3)
        events.extend([launch(at - 2, number, 0), kernel(at, dur, number, 0, name)])
        at = round(at + dur, 3)

    for step in range(1, steps + 1):
        begin = at
        events.append(slice_("cpu_op", "aten::slow", at, host - 2, **{"External id": 10_000 + step}))
        at += host
        for _ in range(calls):
            work("a", a)
        work("b", b)
        if extra:
            work("extra", extra)
        events.append(slice_("user_annotation", f"ProfilerStep#{step}", begin, at - begin))
    return as_bytes(events)


def rows(found, key="parts"):
    return {(row.get("part"), row["name"]) if key == "parts" else row["name"]: row for row in found[key]}


def adds_up(found):
    """The parts, the ops and the kinds of explanation each add up to the change, to 1 %."""
    change = found["change"]
    for total in (
        sum(row["change"] for row in found["parts"]),
        sum(row["change"] for row in found["ops"]),
        sum(found["explained"].values()),
    ):
        assert abs(total - change) <= 0.01 * abs(change) + 1e-6
    return change


def test_a_slower_kernel_and_a_slower_host_are_found_with_their_values():
    found = compare(run_of(8), run_of(8, b=60, host=45)).facts
    assert adds_up(found) == 25_000 and found["real"] and found["unit"] == "step"
    slower = rows(found)["kernels", "b"]
    assert slower["change"] == 10_000 and slower["real"] and slower["mean"] == [50_000, 60_000]
    assert rows(found)["host", ""]["change"] == 15_000 and rows(found)["host", ""]["real"]
    assert rows(found)["kernels", "a"]["change"] == 0 and not rows(found)["kernels", "a"]["real"]
    assert rows(found, "ops")["aten::slow"]["change"] == pytest.approx(15_000)
    assert found["explained"]["real"] == 25_000
    assert "b (10 us: a call takes 60 us instead of 50 us)" in found["verdict"]


def test_more_calls_a_new_and_a_missing_kernel():
    found = compare(run_of(5), run_of(5, calls=3)).facts
    more = rows(found)["kernels", "a"]
    assert adds_up(found) == more["change"] == 40_000
    assert more["how"] == "calls" and more["calls"] == [1, 3] and more["real"] and more["slower"] is None
    both = compare(run_of(5), run_of(5, extra=7)).facts
    assert rows(both)["kernels", "extra"]["how"] == "new" and adds_up(both) == 7_000
    back = compare(run_of(5, extra=7), run_of(5)).facts
    assert rows(back)["kernels", "extra"]["how"] == "gone" and adds_up(back) == -7_000


def test_traces_of_different_length_are_compared_step_by_step():
    found = compare(run_of(5), run_of(20, b=55)).facts
    assert adds_up(found) == 5_000 and [one["steps"] for one in found["traces"]] == [5, 20]


def test_noise_is_no_change():
    """The same program with 10 % of jitter, 40 times: a wrong alarm in 5 % of them at most is expected."""
    alarms = 0
    for seed in range(40):
        found = compare(run_of(20, jitter=0.1, seed=seed), run_of(20, jitter=0.1, seed=seed + 100)).facts
        adds_up(found)
        alarms += any(row["real"] for row in found["parts"])
    assert alarms <= 6  # 5 % of 40 are 2; more than 6 have a probability of 0.3 %


def test_a_change_within_jitter_is_found():
    found = compare(run_of(60, jitter=0.1), run_of(60, jitter=0.1, b=53, seed=2)).facts
    adds_up(found)
    assert rows(found)["kernels", "b"]["real"] and not rows(found)["kernels", "a"]["real"]


def test_too_few_samples_are_said_to_be_untested():
    found = compare(run_of(2), run_of(2, b=60)).facts
    assert rows(found)["kernels", "b"]["real"] is None and found["real"] is None
    assert found["explained"]["not tested"] == adds_up(found) == 10_000
    assert "can't be tested" in found["verdict"]


def test_overlapping_work_counts_once():
    def overlapping(dur):
        events = [
            launch(0, 1, 0),
            kernel(2, 100, 1, 0, "long"),
            launch(1, 2, 0),
            kernel(52, dur, 2, 0, "beside", tid=2),
        ]
        return as_bytes(events)

    found = compare(overlapping(50), overlapping(80)).facts
    assert adds_up(found) == 30_000
    assert rows(found)["kernels", "beside"]["change"] == 30_000 and rows(found)["kernels", "long"]["change"] == 0


@pytest.mark.parametrize(
    "before, after, expected",
    [
        ([1, 2, 3, 4], [5, 6, 7, 8], 0.0304),  # scipy.stats.mannwhitneyu(method="asymptotic")
        ([1, 2, 2, 3, 5], [2, 3, 4, 4, 6, 7], 0.1386),
        ([3, 3, 3, 3], [3, 3, 3, 3], 1.0),
    ],
)
def test_the_test_is_mann_whitneys(before, after, expected):
    assert probability(np.array(before, float), np.array(after, float)) == pytest.approx(expected, abs=1e-4)


def test_many_tests_are_corrected():
    # Benjamini and Hochberg's own example: 4 of 15 are found, 3 by Bonferroni's.
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1,
    ]
    assert real(p) == [True] * 4 + [False] * 11
    assert real([None, 0.04]) == [None, True]


PROGRAM = """
import sys, time, torch, kineto_spyre
from kineto_spyre import emulator
emulator.enable(devices=1)
device = emulator.Device(0)

def run(path, slow_ns, calls, sleep):
    with kineto_spyre.profile_spyre(schedule=None) as prof:
        for step in range(12):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                device.launch("steady", ns=300_000)
                for _ in range(calls):
                    device.launch("varying", ns=slow_ns)
                device.synchronize()
                with torch.profiler.record_function("load data"):
                    time.sleep(sleep)
    prof.export_chrome_trace(path)

run(sys.argv[1], 200_000, 2, 0.001)
run(sys.argv[2], 300_000, 3, 0.03)
"""


def test_what_changed_on_an_emulated_card_is_found(tmp_path):
    paths = [str(tmp_path / name) for name in ("before.json", "after.json")]
    subprocess.run([sys.executable, "-c", PROGRAM, *paths], check=True, timeout=120)
    ended = subprocess.run(
        [sys.executable, "-m", "kineto_spyre", "report", *paths, "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(ended.stdout)
    adds_up(found)
    varying, steady = rows(found)["kernels", "varying"], rows(found)["kernels", "steady"]
    assert varying["calls"] == [2, 3] and varying["mean"] == pytest.approx([200_000, 300_000], rel=0.01)
    assert varying["change"] == pytest.approx(500_000, rel=0.01) and varying["real"]
    assert abs(steady["change"]) <= 3_000 and not steady["real"]
    # The host runs in real time, on a machine that others may use: 29 ms more were slept.
    assert rows(found, "ops")["range load data"]["change"] > 10_000_000
    assert rows(found)["host", ""]["change"] > 10_000_000 and rows(found)["host", ""]["real"]


def test_the_comparison_is_shown(tmp_path):
    first, second, page = (tmp_path / name for name in ("first.json", "second.json", "page.html"))
    first.write_bytes(run_of(6))
    second.write_bytes(run_of(6, b=60, extra=5))
    command = [sys.executable, "-m", "kineto_spyre", "report", str(first), str(second)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0
    assert "A step takes 115 us instead of 100 us (+15.0%)." in ended.stdout
    assert "a call takes 60 us instead of 50 us" in ended.stdout and "only in the second trace" in ended.stdout
    assert subprocess.run([*command, "--html", str(page)]).returncode == 0
    text = page.read_text()
    assert text.count("<svg") == 1 and "only in the second trace" in text and "<script" not in text
