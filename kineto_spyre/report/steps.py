"""What each step's time was made of, and which steps stand out.

A step's parts are a partition of it by what its busiest device did: kernels, collectives, waiting on another rank,
copies and fills that nothing before them in this list overlapped, and idle time by cause.

An outlier differs from the median step by more than 3.5 times the spread that the others have (1.4826 times the median
of the distances from the median, which is a normal distribution's sigma) and by more than 5 % of the median. Fewer than
five steps have no outlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kineto_spyre.report.idle import Classifier, causes, covered, idle
from kineto_spyre.report.kernels import by_bound, kernels
from kineto_spyre.report.partition import WAITING
from kineto_spyre.report.verdict import duration, verdict
from kineto_spyre.report.work import COLLECTIVE, COPY, FILL, KERNEL, KINDS, Array, Work

FEWEST, SIGMAS, SHARE = 5, 3.5, 0.05


def steps(work: Work, classifier: Classifier) -> list[dict[str, Any]]:
    """The facts of each step."""
    return [{"title": title, **_step(work, begin, end, classifier)} for title, begin, end in work.steps if end > begin]


def _step(work: Work, begin: int, end: int, classifier: Classifier) -> dict[str, Any]:
    window = (begin, end)
    inside = np.flatnonzero((work.start < end) & (work.end > begin))
    devices = np.unique(work.device[inside]).tolist()
    parts: dict[str, int] = {}
    busiest, busy = None, 0
    top: list[dict[str, Any]] = []
    bound: dict[str, int] = {}
    if devices:
        busiest = max(devices, key=lambda one: _busy(work, inside[work.device[inside] == one], window))
        near = np.flatnonzero((work.device == busiest) & (work.end > begin))
        parts = _device_parts(work, near, window)
        found = causes(idle(work, near, window, classifier))
        busy, mine = sum(parts.values()), near[work.start[near] < end]
        top, bound = kernels(work, mine)[:1], by_bound(work, mine)
    else:
        found = causes(list(classifier.gap(begin, end, None)))
    where: list[dict[str, Any]] = []
    for one in found:
        parts[one["cause"]] = parts.get(one["cause"], 0) + one["duration"]
        where += [{"cause": one["cause"], **place} for place in one["where"]]
    said = verdict(end - begin, parts, where, top, bound)
    return {"begin": begin, "duration": end - begin, "device": busiest, "busy": busy, "parts": parts, "where": where,
            "bound": bound, **said}  # fmt: skip


def _device_parts(work: Work, near: Array, window: tuple[int, int]) -> dict[str, int]:
    """What overlaps counts for the first of kernels, collectives, waiting, copies, fills."""
    kind, start, end = work.kind[near], work.start[near], work.end[near]
    collective = kind == COLLECTIVE
    ready = np.where(collective, end - work.transfer[near], start)  # from here on every rank was there
    sets = [
        (KINDS[KERNEL], start[kind == KERNEL], end[kind == KERNEL]),
        (KINDS[COLLECTIVE], ready[collective], end[collective]),
        (WAITING, start[collective], ready[collective]),
        (KINDS[COPY], start[kind == COPY], end[kind == COPY]),
        (KINDS[FILL], start[kind == FILL], end[kind == FILL]),
    ]
    parts, done = {}, 0
    for place, (name, _, _) in enumerate(sets):
        one, other = (np.concatenate([group[side] for group in sets[: place + 1]]) for side in (1, 2))
        until_now = covered(one, other, window)
        parts[name], done = until_now - done, until_now
    return {name: ns for name, ns in parts.items() if ns or name != WAITING}


def _busy(work: Work, chosen: Array, window: tuple[int, int]) -> int:
    return covered(work.start[chosen], work.end[chosen], window)


def outliers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps that stand out, with the part of them that differs most from its median."""
    if len(found) < FEWEST:
        return []
    lasted = np.array([one["duration"] for one in found], np.float64)
    middle = float(np.median(lasted))
    spread = 1.4826 * float(np.median(np.abs(lasted - middle)))
    limit = max(SIGMAS * spread, SHARE * middle)
    names = list(dict.fromkeys(part for one in found for part in one["parts"]))
    medians = {name: float(np.median([one["parts"].get(name, 0) for one in found])) for name in names}
    told = []
    for one in found:
        excess = one["duration"] - middle
        if abs(excess) <= limit:
            continue
        sign = 1 if excess > 0 else -1
        part = max(names, key=lambda name: sign * (one["parts"].get(name, 0) - medians[name]))
        differs = one["parts"].get(part, 0) - medians[part]
        word = "longer" if excess > 0 else "shorter"
        sentence = (
            f"{one['title'].capitalize()} took {duration(one['duration'])}, {duration(abs(excess))} {word} than the "
            f"median step ({duration(middle)}); the part that differs most is {part} ({differs / 1e6:+,.3f} ms)."
        )
        told.append({"title": one["title"], "excess": excess, "median": middle, "part": part,
                     "part_excess": differs, "sentence": sentence})  # fmt: skip
    return told
