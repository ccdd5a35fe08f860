"""Energy from power samples, against the emulator's own meter in simulated time: right within 5 %, and the error bar
holds the truth."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kineto_spyre import _emulator
from kineto_spyre.telemetry.energy import estimate, running

MS = 1_000_000


def program(draw, kinds, seconds, scatter, rare=0):
    """Pieces of work on one stream: (start, end, kind, joules)."""
    work, at = [], 0
    while at < seconds * 1000 * MS:
        kind = draw.choice(kinds)
        lasts = int(kind["ns"] * draw.uniform(0.9, 1.1))
        watts = kind["watts"] * draw.uniform(1 - scatter, 1 + scatter)
        work.append((at, at + lasts, kind["number"], watts * lasts * 1e-9))
        at += lasts + draw.choice([400, 400, 50_000, int(kind["ns"] * draw.random())])
        at += rare * lasts
        if draw.random() < 0.01:
            at += draw.randrange(200 * MS)  # the host has something else to do
    return work


def measured(draw, work, hz):
    """What a sampler sees of the emulated card's meter: windows of 10 ms, a part of them, in tenths of a watt."""
    count = work[-1][1] // (10 * MS) + 1
    shown = _emulator.simulate_power([(start, end, joules) for start, end, _, joules in work], 10 * MS, count)
    step, chosen, at = 100 / hz, [], draw.random() * 100 / hz
    while at < count:
        chosen.append(int(at))
        at += step + draw.uniform(-0.3, 0.3)
        if draw.random() < 0.02:
            at += step  # missed
    begin = np.array(sorted(set(chosen))) * 10 * MS
    watts = np.array([round(shown[one // (10 * MS)][0], 1) for one in begin.tolist()])
    return begin, begin + 10 * MS, watts


def solved(draw, work, kinds, hz=10):
    start, end, kind = (np.array([one[place] for one in work]) for place in range(3))
    windows = measured(draw, work, hz)
    energy = estimate(*windows, running(*windows[:2], start, end, kind, kinds))
    seconds = (end - start) * 1e-9
    truth = np.bincount(kind, weights=[one[3] for one in work], minlength=kinds)
    return energy, seconds, kind, truth


def test_a_sequence_of_kernels_within_five_percent():
    draw = random.Random(5)
    kinds = [{"number": 0, "ns": 20_000_000, "watts": 25}, {"number": 1, "ns": 2_000_000, "watts": 50}]
    energy, seconds, kind, truth = solved(draw, program(draw, kinds, 20, 0), 2)
    assert energy.of_work(seconds, kind).joules == pytest.approx(truth.sum(), rel=0.05)
    for one in range(2):
        alone = energy.of_work(seconds[kind == one], kind[kind == one])
        assert alone.joules == pytest.approx(truth[one], rel=0.05)
    assert energy.idle.joules == pytest.approx(_emulator.IDLE_WATTS, abs=0.5)


def test_the_truth_is_within_the_error_bar_of_random_programs():
    held, kinds_held, kinds_seen, widths = 0, 0, 0, []
    for seed in range(100):
        draw = random.Random(seed)
        count = draw.randrange(1, 7)
        kinds = [{"number": n, "ns": int(10 ** draw.uniform(5, 8)), "watts": draw.uniform(3, 55)} for n in range(count)]
        work = program(draw, kinds, draw.uniform(3, 15), draw.choice([0, 0.05, 0.2]), draw.choice([0, 0, 5, 50]))
        energy, seconds, kind, truth = solved(draw, work, count)
        total = energy.of_work(seconds, kind)
        held += abs(total.joules - truth.sum()) <= total.error
        widths.append(total.error / truth.sum())
        for one in range(count):
            alone = energy.of_work(seconds[kind == one], kind[kind == one])
            kinds_held += abs(alone.joules - truth[one]) <= alone.error
            kinds_seen += 1
    assert held >= 95, (held, kinds_held, kinds_seen)
    assert kinds_held >= 0.95 * kinds_seen, (held, kinds_held, kinds_seen)
    print(held, kinds_held, kinds_seen, np.median(widths))
    assert np.median(widths) < 0.25, np.median(widths)  # a bar that holds anything would say nothing


def test_idle_is_apart_and_an_idle_card_has_no_energy_of_work():
    begin = np.arange(50) * 100 * MS
    energy = estimate(begin, begin + 10 * MS, np.full(50, 31.2), np.zeros((50, 1)))
    assert energy.idle.joules == pytest.approx(31.2, abs=0.1) and energy.idle.error < 0.3
    assert energy.of_idle(10).joules == pytest.approx(312, abs=1)
    assert energy.of_work(np.array([0.0]), np.array([0])).joules == 0
    with pytest.raises(ValueError, match="no power sample"):
        estimate(begin[:0], begin[:0], np.zeros(0), np.zeros((0, 1)))
