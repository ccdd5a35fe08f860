"""How far two ranks' clocks are apart, from the collectives that both took part in.

In: for each collective its begin and end on both ranks, each by the rank's own clock, in ns. Out: a Fit: what the
other clock shows more than the reference's, as a line over time, with the error that it can have at most.

Two facts are used. No rank leaves such a collective before each rank came: so the other clock's lead is at least
(its begin - the reference's end) and at most (its end - the reference's begin). Every line between these bounds is
possible, and no other; they give the error. And all leave at about the same time, sooner or later by chance: of the
possible lines that one is taken that lies closest to the differences of the ends, by the sum of absolute distances,
which a few late ranks don't move. Clocks run apart by at most MOST_PPM.

Errors: ValueError, if there is no line: then what was paired was not the same collective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kineto_spyre.traces.columns import Column

MOST_PPM = 200.0  # quartz is specified to 100 at worst, one clock against another is twice that
_RATES = np.linspace(-MOST_PPM, MOST_PPM, 1601) * 1e-6
_USUAL_RATE = 50e-6
_ALIKE = 1000.0  # differences below a microsecond count alike
_ROUNDS = 50


@dataclass(frozen=True)
class Fit:
    """The other clock's lead: offset + rate * (reference time - middle), in ns.

    Attributes:
        error: how far the lead can be from the truth at most, in ns, over the time of the collectives.
        usual_error: how far it is by chance, in ns: the standard error of the differences' median.
        pairs: how many collectives it rests on.
    """

    offset: float = 0.0
    rate: float = 0.0
    middle: int = 0
    error: float = 0.0
    usual_error: float = 0.0
    pairs: int = 0

    def aligned(self, time: int) -> int:
        """A time of the other clock as the reference shows it. Monotone, so that what nests still nests."""
        lead = self.offset + self.rate * (time - self.middle - self.offset)
        return time - round(lead)


def fit(begin: Column, end: Column, other_begin: Column, other_end: Column) -> Fit:
    """The line.

    Raises:
        ValueError: no line is possible.
    """
    middle = int(end.astype(np.float64).mean())
    time = (end - middle).astype(np.float64)
    lead = (other_end - end).astype(np.float64)
    rooms = np.empty((2, len(_RATES)))  # for each rate, the least and the largest offset
    for place, rate in enumerate(_RATES):
        rooms[0, place] = ((other_begin - end) - rate * time).max()
        rooms[1, place] = ((other_end - begin) - rate * time).min()
    possible = rooms[0] <= rooms[1]
    if not possible.any():
        raise ValueError("no line fits")
    rate, offset = _closest(time, lead)
    chosen = int(np.abs(np.where(possible, _RATES, np.inf) - rate).argmin())
    rate = float(_RATES[chosen])
    offset = float(np.clip(np.median(lead - rate * time), rooms[0, chosen], rooms[1, chosen]))
    error = 0.0
    for when in (time.min(), time.max()):  # a line's largest distance is at an end
        here = offset + rate * when
        most = (rooms[1] + _RATES * when)[possible].max() - here
        least = here - (rooms[0] + _RATES * when)[possible].min()
        error = max(error, most, least)
    usual = 1.2533 * _scatter(lead - offset - rate * time) / np.sqrt(len(time))
    return Fit(offset, rate, middle, error, min(error, float(usual)), len(time))


def _scatter(values: Column) -> float:
    """The standard deviation, told from the median distance, which a few late ranks don't move."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _closest(time: Column, lead: Column) -> tuple[float, float]:
    """Rate and offset of the line with the least sum of absolute distances, by least squares that are reweighted.

    Between few collectives, or within a short time, chance looks like drift: one more row of the equations holds the
    rate near 0 until the differences say otherwise.
    """
    scatter = _scatter(lead)
    if len(time) < 3 or not np.ptp(time):
        return 0.0, float(np.median(lead))
    scale = float(np.abs(time).max())
    columns = np.stack((time / scale, np.ones(len(time))), axis=1)
    usual = np.array([[np.sqrt(max(scatter, _ALIKE)) / (_USUAL_RATE * scale), 0.0]])
    weights = np.full(len(time), 1 / np.sqrt(max(scatter, _ALIKE)))
    rate, offset = 0.0, float(np.median(lead))
    for _ in range(_ROUNDS):
        rows = np.concatenate((columns * weights[:, None], usual))
        solved = np.linalg.lstsq(rows, np.append(lead * weights, 0.0), rcond=None)[0]
        rate, offset = float(np.clip(solved[0] / scale, _RATES[0], _RATES[-1])), float(solved[1])
        distance = np.abs(lead - offset - rate * time)
        weights = 1 / np.sqrt(np.maximum(distance, _ALIKE))
    return rate, offset
