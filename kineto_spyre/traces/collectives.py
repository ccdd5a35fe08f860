"""The collectives of a trace that tell how far clocks are apart, and which of two ranks' are the same one.

Such a collective is left by no rank before every rank came (all_reduce, all_gather, reduce_scatter, all_to_all,
barrier; not broadcast, which its root leaves at once), and is in the trace from coming to leaving: as a range that
gloo, MPI or UCC wrote (`gloo:all_reduce`), or as a kernel with `Collective name`.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from kineto_spyre.traces.columns import Column
from kineto_spyre.traces.trace import Trace

Collectives = dict[tuple[str, str], Column]  # by name and shapes: (begin, end) in ns since the epoch, a row each
_BOTH_WAYS = r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier)"
_RANGE = re.compile(rf"(gloo|mpi|ucc):_?{_BOTH_WAYS}", re.IGNORECASE)
_KERNEL = re.compile(rf"_?{_BOTH_WAYS}", re.IGNORECASE)
_MOST_SHIFTS = 1000


def found(trace: Trace) -> Collectives:
    """The collectives, in the order of time."""
    if not len(trace):
        return {}
    slices = trace.slices
    base = trace.metadata.get("baseTimeNanoseconds")
    base = base if type(base) is int else 0
    names = {number for number, name in enumerate(trace.names) if _RANGE.match(name)}
    kernels = {number for number, text in enumerate(trace.texts) if _KERNEL.match(text)}
    hosts = [number for number, cat in enumerate(trace.cats) if cat == "user_annotation"]
    works = [number for number, cat in enumerate(trace.cats) if cat == "kernel"]
    ranges = np.isin(slices["name"], list(names)) & np.isin(slices["cat"], hosts)
    device = np.isin(trace.column("collective"), list(kernels)) & np.isin(slices["cat"], works)
    chosen = np.flatnonzero(device if device.any() else ranges)
    chosen = chosen[np.argsort(slices["start"][chosen], kind="stable")]
    which = trace.column("collective") if device.any() else slices["name"]
    texts = trace.texts if device.any() else trace.names
    dims = trace.column("dims")
    rows: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in chosen.tolist():
        begin = base + int(slices["start"][row])
        shape = trace.texts[dims[row]] if dims[row] >= 0 else ""
        rows[texts[which[row]], shape].append((begin, begin + int(slices["duration"][row])))
    return {key: np.array(value, np.int64) for key, value in rows.items()}


def paired(one: Collectives, other: Collectives) -> Column:
    """A row for each collective of both: begin and end on one rank, begin and end on the other.

    Those of one name and shape are paired in their order. If one rank has more of them, since its profile began
    earlier or ended later, they are paired such that the ends differ most evenly.
    """
    pairs = []
    for key in one.keys() & other.keys():
        mine, theirs = one[key], other[key]
        if len(mine) > len(theirs):
            pairs.append(_shifted(theirs, mine)[:, [2, 3, 0, 1]])
        else:
            pairs.append(_shifted(mine, theirs))
    return np.concatenate(pairs) if pairs else np.zeros((0, 4), np.int64)


def _shifted(few: Column, many: Column) -> Column:
    best, least = many[: len(few)], float("inf")
    for shift in range(min(len(many) - len(few) + 1, _MOST_SHIFTS)):
        part = many[shift : shift + len(few)]
        apart = (part[:, 1] - few[:, 1]).astype(np.float64)
        # The median alone for one pair: its distance, since there is nothing to be even.
        spread = float(np.median(np.abs(apart - np.median(apart)))) if len(few) > 1 else abs(float(apart[0]))
        if spread < least:
            best, least = part, spread
    return np.concatenate((few, best), axis=1)
