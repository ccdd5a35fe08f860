"""Where noise ends: which of many changes are real.

Two samples of durations are compared with the Mann-Whitney test (two-sided, normal approximation, corrected for ties
and continuity): it asks whether the durations of one sample tend to be larger, and needs no normal distribution. A
table tests many rows at once, so the p-values go through Benjamini and Hochberg's procedure: of the rows that it calls
real, 5 % at most are expected to be none. A real change is also at least 1 % of the mean, because with thousands of
calls differences get significant that nobody wants to know. A sample of fewer than four can't reach 5 %: it is not
tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEVEL = 0.05
LEAST = 0.01  # of the mean before
FEWEST = 4


def probability(before: Array, after: Array) -> float | None:
    """The Mann-Whitney p-value; None for samples that are too small."""
    few, many = len(before), len(after)
    if min(few, many) < FEWEST:
        return None
    together = np.concatenate((before, after))
    _, group, count = np.unique(together, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[group.ravel()]  # ties share the middle of their ranks
    u = float(ranks[:few].sum()) - few * (few + 1) / 2
    total = few + many
    ties = float((count.astype(np.float64) ** 3 - count).sum()) / (total * (total - 1))
    spread = math.sqrt(few * many / 12 * (total + 1 - ties))
    if spread == 0:
        return 1.0  # all durations are equal
    z = max(abs(u - few * many / 2) - 0.5, 0) / spread
    return math.erfc(z / math.sqrt(2))


def real(found: Sequence[float | None]) -> list[bool | None]:
    """By p-value, whether the change is real at LEVEL among all of them (Benjamini-Hochberg); None: not tested."""
    tested = sorted(one for one in found if one is not None)
    limit = max((p for place, p in enumerate(tested, 1) if p <= LEVEL * place / len(tested)), default=-1.0)
    return [None if one is None else one <= limit for one in found]
