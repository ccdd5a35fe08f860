"""How far two ranks' clocks are apart, from the collectives that both took part in.

In: for each collective its begin and end on both ranks, each by the rank's own clock, in ns. Out: a Fit: what the
other clock shows more than the reference's, as a line over time, with the error that it can have at most.

Two facts are used. No rank leaves such a collective before each rank came: so the other clock's lead is at least
(its begin - the reference's end) and at most (its end - the reference's begin). Every line between these bounds is
possible, and no other; they give the error. And all leave at about the same time, sooner or later by chance: of the
possible lines that one is taken that lies closest to the differences of the ends, by the sum of absolute distances,
which a few late ranks don't move, and in which a collective counts more the sooner both left it; and in which the rank
that came last leaves some time before the other. Clocks run apart by at most MOST_PPM.

Errors: ValueError, if there is no line: then what was paired was not the same collective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kineto_spyre.traces.columns import Column

MOST_PPM = 200.0  # quartz is specified to 100 at worst, one clock against another is twice that
_MOST = MOST_PPM * 1e-6
_LINES = 401  # rates that are looked at, between the least and the largest that are possible
_USUAL_RATE = 50e-6
_USUAL_HEAD_START = 50_000.0  # ns
_ALIKE = 1000.0  # differences below a microsecond count alike
_ROUNDS = 50
_PASSES = 3  # to a line, to how long each stayed by it, and again
_SOONEST = 0.1  # the part of the collectives among which none counts more than another


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
    bounds = _Bounds(time, (other_begin - end).astype(np.float64), (other_end - begin).astype(np.float64))
    rates = bounds.rates()
    rooms = np.array([bounds.offsets(rate) for rate in rates])  # for each rate, the least and the largest offset
    widest = int(np.ptp(rooms, axis=1).argmax())
    rate, offset = float(rates[widest]), float(rooms[widest].mean())
    for _ in range(_PASSES):
        expected = offset + rate * time
        doubt = _doubt(expected, np.stack((begin, end, other_begin, other_end)))
        last = np.where(other_begin - expected > begin, 1.0, -1.0)
        rate, offset, head_start = _closest(time, lead, last, doubt)
    lead -= head_start * last
    rate = float(np.clip(rate, rates[0], rates[-1]))
    offset = float(np.clip(offset, *bounds.offsets(rate)))
    error = 0.0
    for when in (time.min(), time.max()):  # a line's largest distance is at an end
        here = offset + rate * when
        error = max(error, (rooms[:, 1] + rates * when).max() - here, here - (rooms[:, 0] + rates * when).min())
    usual = 1.2533 * _scatter(lead - offset - rate * time) / np.sqrt(len(time))
    return Fit(offset, rate, middle, error, min(error, float(usual)), len(time))


class _Bounds:
    """The lines that lie between the bounds: `least` <= offset + rate * `time` <= `most`, in ns."""

    def __init__(self, time: Column, least: Column, most: Column) -> None:
        self._time, self._least, self._most = time, least, most

    def offsets(self, rate: float) -> tuple[float, float]:
        """The least and the largest offset of a line of this rate; the least is above if there is no line."""
        return float((self._least - rate * self._time).max()), float((self._most - rate * self._time).min())

    def rates(self) -> Column:
        """Rates from the least to the largest that has a line.

        Raises:
            ValueError: none has one.
        """
        # The room between the offsets is concave over the rate: thirds lead to its top, halves to its zeros.
        low, high = -_MOST, _MOST
        while high - low > _MOST * 1e-6:
            third = (high - low) / 3
            if self._room(low + third) < self._room(high - third):
                low += third
            else:
                high -= third
        top = (low + high) / 2
        if self._room(top) < 0:
            raise ValueError("no line fits")
        return np.linspace(self._last(top, -_MOST), self._last(top, _MOST), _LINES)

    def _room(self, rate: float) -> float:
        low, high = self.offsets(rate)
        return high - low

    def _last(self, inside: float, outside: float) -> float:
        if self._room(outside) >= 0:
            return outside
        while abs(outside - inside) > _MOST * 1e-6:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self._room(middle) >= 0 else (inside, middle)
        return inside


def _scatter(values: Column) -> float:
    """The standard deviation, told from the median distance, which a few late ranks don't move."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _doubt(lead: Column, times: Column) -> Column:
    """How far each difference of ends may be from the lead by chance: how much longer than need be both stayed."""
    begin, end, other_begin, other_end = times
    came = np.maximum(begin, other_begin - lead)
    stayed = (end - came) + (other_end - lead - came)
    stayed -= stayed.min()
    doubt: Column = np.maximum(stayed, np.quantile(stayed, _SOONEST) + _ALIKE)
    return doubt


def _closest(time: Column, lead: Column, last: Column, doubt: Column) -> tuple[float, float, float]:
    """Rate and offset of the line with the least sum of absolute distances, each in units of its doubt.

    The rank that came last finds the other's data there, and leaves sooner than the other does; so a rank that is late
    more often than the other would seem to have another clock. How much sooner is the third figure: it is found with
    the line, where each came last now and then (`last` is 1 where the other did, else -1).

    By least squares that are reweighted. Between few collectives, or within a short time, chance looks like drift: more
    rows of the equations hold the rate, and how much sooner, near 0 until the differences say otherwise.
    """
    scale = float(np.abs(time).max()) or 1.0
    columns = np.stack((time / scale, np.ones(len(time)), last), axis=1)
    usual = np.array([[1 / (_USUAL_RATE * scale), 0.0, 0.0], [0.0, 0.0, 1 / _USUAL_HEAD_START]])
    weights = 1 / doubt
    rate, offset, head_start = 0.0, 0.0, 0.0
    for _ in range(_ROUNDS):
        rows = np.concatenate((columns * weights[:, None], usual))
        solved = np.linalg.lstsq(rows, np.append(lead * weights, [0.0, 0.0]), rcond=None)[0]
        rate, offset = float(np.clip(solved[0] / scale, -_MOST, _MOST)), float(solved[1])
        head_start = float(solved[2])
        distance = np.abs(lead - offset - rate * time - head_start * last)
        weights = 1 / np.sqrt(np.maximum(distance, _ALIKE) * doubt)
    return rate, offset, head_start
