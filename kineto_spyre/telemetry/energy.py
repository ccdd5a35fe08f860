"""Joules of each kind of work, from power samples and from when the work ran.

In: windows, each with the mean power that was measured in it; pieces of work with a kind each. Out: the idle power, the
power of each kind while it runs, and an error bar for any sum of them.

A window's power is idle power plus, for each kind, its power times the part of the window in which it ran. That is a
linear model; it is solved by least squares. Windows cover a part of the time only (10 of each 100 ms at 10 Hz), kinds
that always run side by side can't be told apart, and nor can idle power from rare work that is in each window. So the
solution begins from what is known beforehand: idle is 20 W give or take 5, aiu-smi's own default; work draws 20 W give
or take 15 above it, and kinds differ from each other by about a half. What the samples say takes precedence as far as
they say it, and the rest stays in the error bar, as does what a piece of work differs from its kind. The bar holds the
truth in 99 of 100 cases as far as the samples' scatter tells; the most that the file's resolution of 0.1 W can do is
added, since rounding is the same again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

IDLE_WATTS, IDLE_SPREAD = 20.0, 5.0
WORK_WATTS, WORK_SPREAD = 20.0, 15.0
RESOLUTION_WATTS = 0.05  # half of the last digit
_SIGMAS = 2.6  # 99 of 100
_FIRST_NOISE = 0.05  # watts; as strong a belief as one window
_FIRST_SCATTER = 0.1  # of a piece's power about its kind's; as strong a belief as two busy windows


@dataclass(frozen=True)
class Joules:
    """An amount of energy and how far off it may be, either way."""

    joules: float
    error: float


class Energy:
    """What the samples say about power, by kind of work.

    Attributes:
        idle: watts, with its error.
        windows: samples that were used.
        noise: watts by which a window's power scatters about the model.
        scatter: the part of its power by which a piece differs from its kind.
    """

    def __init__(self, mean: Array, covariance: Array, gain: Array, noise: float, scatter: float) -> None:
        self._mean, self._covariance, self._gain = mean, covariance, gain
        self.windows, self.noise, self.scatter = gain.shape[1], noise, scatter
        self.idle = self._amount(np.eye(len(mean))[0])

    def _amount(self, weights: Array, pieces: float = 0.0) -> Joules:
        spread = max(0.0, float(weights @ self._covariance @ weights) + pieces) ** 0.5
        rounded = RESOLUTION_WATTS * float(abs(weights @ self._gain).sum())
        return Joules(float(weights @ self._mean), _SIGMAS * spread + rounded)

    def of_work(self, seconds: Array, kind: Array) -> Joules:
        """Energy above idle of some pieces of work.

        Args:
            seconds: how long each piece ran.
            kind: of each piece.
        """
        kinds = len(self._mean) - 1
        each = np.bincount(kind, weights=seconds**2, minlength=kinds)
        pieces = float((self.scatter * self._mean[1:]) ** 2 @ each)  # they differ, each by itself
        found = self._amount(np.concatenate(([0.0], np.bincount(kind, weights=seconds, minlength=kinds))), pieces)
        return Joules(max(0.0, found.joules), found.error)

    def of_idle(self, seconds: float) -> Joules:
        """What the card draws anyway."""
        return Joules(self.idle.joules * seconds, self.idle.error * seconds)


def running(begin: Array, end: Array, start: Array, stop: Array, kind: Array, kinds: int) -> Array:
    """By window and kind: for how much of the window such work ran, all streams together."""
    share = np.zeros((len(begin), kinds))
    order = np.argsort(start, kind="stable")
    start, stop, kind = start[order], stop[order], kind[order]
    reach: Array = np.maximum.accumulate(stop) if len(stop) else stop
    for place, (low, high) in enumerate(zip(begin.tolist(), end.tolist())):
        first, last = np.searchsorted(reach, low, "right"), np.searchsorted(start, high, "left")
        inside = np.minimum(stop[first:last], high) - np.maximum(start[first:last], low)
        ran = np.maximum(inside, 0) / (high - low)
        share[place] = np.bincount(kind[first:last], weights=ran, minlength=kinds)
    return share


def estimate(begin: Array, end: Array, watts: Array, share: Array) -> Energy:
    """Solves for the powers.

    Args:
        begin, end: of each window, in ns.
        watts: measured in it.
        share: what `running` gives.

    Raises:
        ValueError: there is no window.
    """
    if not len(begin):
        raise ValueError("there is no power sample")
    busy = share.sum(axis=1, keepdims=True)
    active = max(float(_Fit(busy, watts, 0.0).mean[1]), 1.0)
    fit = _Fit(share, watts, active / 2 + 1)
    return Energy(fit.mean, fit.covariance, fit.gain, fit.noise, fit.scatter)


class _Fit:
    """Least squares with what is known beforehand, each window weighed by how far its power may be off.

    A window is off by noise, which idle windows show, and by a part of what ran in it drew.

    Attributes:
        mean, covariance: of idle power and each kind's.
        gain: how each of them moves with each window's watts.
        noise, scatter: as in Energy.
    """

    def __init__(self, share: Array, watts: Array, spread: float) -> None:
        kinds = share.shape[1]
        matrix = np.concatenate((np.ones((len(watts), 1)), share), axis=1)
        prior = np.concatenate(([IDLE_WATTS], np.full(kinds, WORK_WATTS)))
        known = np.zeros((kinds + 1, kinds + 1))
        known[0, 0] = IDLE_SPREAD**2
        known[1:, 1:] = WORK_SPREAD**2 + np.eye(kinds) * max(spread, 1e-3) ** 2
        belief = np.linalg.inv(known)
        idle = ~share.any(axis=1)
        self.noise, self.scatter = _FIRST_NOISE, _FIRST_SCATTER
        drawn = share.sum(axis=1) * WORK_WATTS
        for _ in range(10):
            weighed = (matrix / (self.noise**2 + (self.scatter * drawn) ** 2)[:, None]).T
            self.covariance = np.linalg.inv(weighed @ matrix + belief)
            self.gain = self.covariance @ weighed
            self.mean = self.gain @ watts + self.covariance @ belief @ prior
            drawn = share @ self.mean[1:]
            left = (watts - self.mean[0] - drawn) ** 2
            self.noise = float(((left[idle].sum() + _FIRST_NOISE**2) / (idle.sum() + 1)) ** 0.5)
            usual = 2 * float((drawn**2).max())
            of_work = float(left[~idle].sum()) + _FIRST_SCATTER**2 * usual
            spare = max(int((~idle).sum()) - kinds, 1) / max(int((~idle).sum()), 1)  # windows beyond the unknowns
            self.scatter = (of_work / (spare * float((drawn**2).sum()) + usual)) ** 0.5 if usual > 0 else 0.0
