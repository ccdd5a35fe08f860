"""The roofline as a picture: each kernel of a Spyre at its operations a byte and its operations a second, both as
powers of ten, below the roofs of device memory, of the scratchpad, and of each type's peak rate.

In: facts of `utilization`. Out: an <svg>, or "" where no kernel's operations are known.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from kineto_spyre.report.verdict import duration

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 1000, 380, 90, 40, 20
COLOURS = {"compute": 0, "device memory": 3, "scratchpad": 2, "launch": 5, "unknown": 7}


def roofline(facts: dict[str, Any]) -> str:
    """The picture of one trace."""
    told = facts["utilization"]
    shown = [one for one in told["kernels"] if one["intensity"] and one["achieved"]] if told else []
    if not shown:
        return ""
    card = told["card"]
    peaks = {name: rate for name, rate in card["peaks"].items() if any(one["type"] == name for one in shown)}
    axes = _Axes(
        [one["intensity"] for one in shown] + [rate / card["memory"] for rate in peaks.values()],
        [one["achieved"] for one in shown] + [*peaks.values()],
    )
    body = axes.body() + _roofs(axes, card, peaks)
    for one in shown:
        title = f"{one['name']}: {one['intensity']:.3g} operations a byte, {one['achieved'] / 1e12:.3g} Tops/s, "
        title += f"{duration(one['total'])} in all; bound by {one['bound']}: {one['because']}"
        body += (
            f'<circle cx="{axes.across(one["intensity"]):.1f}" cy="{axes.up(one["achieved"]):.1f}" r="6" '
            f'style="fill:var(--c{COLOURS[one["bound"]]})"><title>{escape(title)}</title></circle>'
        )
    left = _LEFT
    for bound in dict.fromkeys(one["bound"] for one in shown):
        body += f'<circle cx="{left + 6}" cy="{_HEIGHT + 14}" r="6" style="fill:var(--c{COLOURS[bound]})"/>'
        body += f'<text x="{left + 18}" y="{_HEIGHT + 18}" class="dim">{escape(bound)}</text>'
        left += 40 + 7 * len(bound)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 26}" role="img" aria-label="roofline">{body}</svg>'


class _Axes:
    """Both axes in powers of ten, as wide as what is shown."""

    def __init__(self, intensities: list[float], rates: list[float]) -> None:
        self.x = (math.floor(math.log10(min(intensities))), math.ceil(math.log10(max(intensities)) + 0.3))
        self.y = (math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)) + 0.1))

    def across(self, intensity: float) -> float:
        part = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        return _LEFT + part * (_WIDTH - _LEFT - 20)

    def up(self, rate: float) -> float:
        part = (math.log10(rate) - self.y[0]) / (self.y[1] - self.y[0])
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _BOTTOM - _TOP)

    def body(self) -> str:
        high = _HEIGHT - _BOTTOM - _TOP
        body = f'<rect class="back" x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT - 20}" height="{high}"/>'
        for power in range(self.x[0], self.x[1] + 1):
            at = self.across(10.0**power)
            body += f'<text x="{at:.1f}" y="{_HEIGHT - 22}" class="dim" text-anchor="middle">{10.0**power:g}</text>'
        for power in range(self.y[0], self.y[1] + 1):
            at = self.up(10.0**power) + 4
            body += f'<text x="{_LEFT - 8}" y="{at:.1f}" class="dim" text-anchor="end">{10.0 ** (power - 12):g}</text>'
        body += f'<text x="{_WIDTH - 20}" y="{_HEIGHT - 4}" class="dim" text-anchor="end">operations a byte</text>'
        return body + f'<text x="4" y="{_TOP - 6}" class="dim">Tops/s</text>'


def _roofs(axes: _Axes, card: dict[str, Any], peaks: dict[str, float]) -> str:
    body = ""
    highest = max(peaks.values())
    for name, rate, dash in (("device memory", card["memory"], ""), ("scratchpad", card["scratchpad"], "6 4")):
        low = max(10.0 ** axes.x[0], 10.0 ** axes.y[0] / rate)
        high = highest / rate
        if low < high:
            body += _line(axes, low, low * rate, high, highest, dash)
            turn = axes.across(low) + 8, axes.up(low * rate) - 8
            body += f'<text x="{turn[0]:.1f}" y="{turn[1]:.1f}" class="dim">{name}</text>'
    for name, rate in peaks.items():
        body += _line(axes, max(10.0 ** axes.x[0], rate / card["scratchpad"]), rate, 10.0 ** axes.x[1], rate, "")
        body += (
            f'<text x="{_WIDTH - 26}" y="{axes.up(rate) - 5:.1f}" class="dim" text-anchor="end">{escape(name)}</text>'
        )
    return body


def _line(axes: _Axes, x1: float, y1: float, x2: float, y2: float, dash: str) -> str:
    return (f'<line x1="{axes.across(x1):.1f}" y1="{axes.up(y1):.1f}" x2="{axes.across(x2):.1f}" '
            f'y2="{axes.up(y2):.1f}" style="stroke:var(--dim)" stroke-dasharray="{dash or "none"}"/>')  # fmt: skip
