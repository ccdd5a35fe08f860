"""Plots as inline SVG, in the colours that the page's style defines. In: facts. Out: an <svg>, or "".

Each bar has a <title>, which a browser shows under the pointer.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from kineto_spyre.report.roofline_plot import roofline
from kineto_spyre.report.section import Plot
from kineto_spyre.report.verdict import duration, size

_WIDTH, _LEFT, _BAR = 1000, 260, 18
COLOURS = {
    "kernels": 0, "collectives": 2, "copies": 3, "fills": 3, "host": 1, "synchronisation": 4, "launch latency": 5,
    "queue wait": 6, "copy": 3, "other stream": 2, "collective": 2, "unknown": 7,
    "waiting on another rank": 5,
}  # fmt: skip


def _svg(height: int, body: str, what: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(what)}">{body}</svg>'


def _box(left: float, top: float, wide: float, high: float, colour: int, title: str) -> str:
    return (f'<rect x="{left:.2f}" y="{top:.1f}" width="{max(wide, 0.4):.2f}" height="{high:.1f}" '
            f'style="fill:var(--c{colour})"><title>{escape(title)}</title></rect>')  # fmt: skip


def _text(left: float, top: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else f"{text[: most - 13]}…{text[-12:]}"


def bars(rows: list[tuple[str, float, int]], what: str) -> str:
    """Horizontal bars: (label, ns, colour)."""
    if not rows:
        return ""
    longest = max(value for _, value, _ in rows) or 1
    body = ""
    for place, (label, value, colour) in enumerate(rows):
        top = place * (_BAR + 6)
        body += _text(_LEFT - 8, top + 13, _short(label), anchor="end")
        body += _box(_LEFT, top, value / longest * 600, _BAR, colour, f"{label}: {duration(value)}")
        body += _text(_LEFT + value / longest * 600 + 8, top + 13, duration(value), "dim")
    return _svg(len(rows) * (_BAR + 6), body, what)


def deltas(rows: list[tuple[str, float, int]], what: str) -> str:
    """Bars to the left (less) and to the right (more): (label, ns, colour)."""
    if not rows:
        return ""
    longest = max(abs(value) for _, value, _ in rows) or 1
    zero, room = (_LEFT + 340, 250) if any(value < 0 for _, value, _ in rows) else (_LEFT, 600)
    height = len(rows) * (_BAR + 6)
    body = f'<rect class="back" x="{zero - 1}" y="0" width="2" height="{height}"/>'
    for place, (label, value, colour) in enumerate(rows):
        top, wide = place * (_BAR + 6), abs(value) / longest * room
        body += _text(_LEFT - 8, top + 13, _short(label), anchor="end")
        body += _box(zero if value > 0 else zero - wide, top, wide, _BAR, colour, f"{label}: {duration(value)}")
        at, anchor = (zero + wide + 8, "start") if value > 0 else (zero - wide - 8, "end")
        body += _text(at, top + 13, f"{'+' if value > 0 else ''}{duration(value)}", "dim", anchor)
    return _svg(height, body, what)


def of_trace(facts: dict[str, Any]) -> list[Plot]:
    """The plots of one trace's report."""
    return [
        Plot("Timeline", timeline(facts)),
        Plot("Step times", steps(facts) if len(facts["steps"]) > 1 else ""),
        Plot("Why the device was idle", causes(facts)),
        Plot("Longest kernels", kernels(facts)),
        Plot("Roofline", roofline(facts)),
        Plot("Allocated memory", memory(facts)),
        Plot("Memory by category", categories(facts)),
    ]


def kernels(facts: dict[str, Any]) -> str:
    return bars([(one["name"], one["total"], 0) for one in facts["kernels"][:10]], "longest kernels")


def causes(facts: dict[str, Any]) -> str:
    several = len(facts["devices"]) > 1
    return bars(
        [
            (f"device {device['device']}: {one['cause']}" if several else one["cause"], one["duration"],
             COLOURS[one["cause"]])
            for device in facts["devices"] for one in device["causes"]
        ],
        "idle time by cause",
    )  # fmt: skip


def steps(facts: dict[str, Any]) -> str:
    """A stacked bar a step: what its time was made of."""
    shown = facts["steps"][:60]
    longest = max(one["duration"] for one in shown)
    used = list(dict.fromkeys(part for one in shown for part, ns in one["parts"].items() if ns))
    body = ""
    for place, one in enumerate(shown):
        top, left = place * (_BAR + 4), float(_LEFT)
        body += _text(_LEFT - 8, top + 13, one["title"], anchor="end")
        for part, ns in one["parts"].items():
            wide = ns / longest * 600
            if ns:
                body += _box(left, top, wide, _BAR, COLOURS[part], f"{one['title']}, {part}: {duration(ns)}")
            left += wide
        body += _text(left + 8, top + 13, duration(one["duration"]), "dim")
    return _with_legend(body, len(shown) * (_BAR + 4), used, "step times")


def _with_legend(body: str, top: int, used: list[str], what: str, colours: dict[str, int] = COLOURS) -> str:
    left = 0
    for part in used:
        if left > _WIDTH - 150:
            left, top = 0, top + 20
        body += _box(left, top + 8, 12, 12, colours[part], part) + _text(left + 18, top + 18, part, "dim")
        left += 34 + 7 * len(part)
    return _svg(top + 28, body, what)


def timeline(facts: dict[str, Any]) -> str:
    """By track how busy it was, in as many slots as fit."""
    body, top = "", 0
    length = facts["window"]["duration"]
    for device in facts["devices"]:
        for stream in device["streams"]:
            body += _text(_LEFT - 8, top + 13, _short(f"{device['device']}: {stream['stream']}"), anchor="end")
            body += f'<rect class="back" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{_BAR}"/>'
            slots = stream["load"]
            wide = (_WIDTH - _LEFT) / len(slots)
            colour = COLOURS[stream["kind"]]
            for place, load in enumerate(slots):
                if load:
                    high = max(1.0, load * _BAR)
                    body += _box(_LEFT + place * wide, top + _BAR - high, wide, high, colour, f"busy {load:.0%}")
            top += _BAR + 6
    body += _text(_LEFT, top + 12, "0", "dim") + _text(_WIDTH, top + 12, duration(length), "dim", "end")
    return _svg(top + 18, body, "timeline of the devices")


def memory(facts: dict[str, Any]) -> str:
    """Allocated memory over time, a panel a device."""
    body, top, high = "", 0.0, 90
    begin, length = facts["window"]["begin"], max(facts["window"]["duration"], 1)
    for one in facts["memory"]:
        most = max(one["peak"]["allocated"], 1)
        before = max(0, one["begin"])
        points = [(float(_LEFT), before)]
        for time, allocated in one["curve"]:
            at = _LEFT + min(max((time - begin) / length, 0), 1) * (_WIDTH - _LEFT)
            points += [(at, before), (at, allocated)]
            before = allocated
        points.append((float(_WIDTH), one["end"]))
        line = " ".join(f"{at:.1f},{top + high * (1 - max(value, 0) / most):.1f}" for at, value in points)
        body += f'<rect class="back" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{high}"/>'
        body += f'<polygon points="{_LEFT},{top + high} {line} {_WIDTH},{top + high}" style="fill:var(--c0)"/>'
        body += _text(_LEFT - 8, top + 13, _short(one["device"]), anchor="end")
        body += _text(_LEFT - 8, top + 31, f"peak {size(most)}", "dim", "end")
        top += high + 10
    return _svg(int(top), body, "allocated memory") if body else ""


def categories(facts: dict[str, Any]) -> str:
    """What memory held, by category, stacked: the picture of PyTorch's export_memory_timeline. A panel a device."""
    names = list(dict.fromkeys(name for one in facts["categories"] for name in one["bytes"]))
    colours = {name: place % 8 for place, name in enumerate(names)}
    body, top, high = "", 0, 120
    begin, length = facts["window"]["begin"], max(facts["window"]["duration"], 1)
    for one in facts["categories"]:
        most = max(sum(one["peak"]["bytes"].values()), 1)
        across = [_LEFT + min(max((time - begin) / length, 0), 1) * (_WIDTH - _LEFT) for time in one["times"]]
        body += f'<rect class="back" x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{high}"/>'
        body += _text(_LEFT - 8, top + 13, f"device {one['device']}", anchor="end")
        body += _text(_LEFT - 8, top + 31, f"peak {size(most)}", "dim", "end")
        below = [0] * len(across)
        for name, sizes in one["bytes"].items():
            above = [low + more for low, more in zip(below, sizes)]
            edge = [*_stairs(across, above), *reversed(list(_stairs(across, below)))]
            line = " ".join(f"{at:.1f},{top + high * (1 - value / most):.1f}" for at, value in edge)
            body += (
                f'<polygon points="{line}" style="fill:var(--c{colours[name]})"><title>{escape(name)}</title></polygon>'
            )
            below = above
        top += high + 10
    return _with_legend(body, top, names, "memory by category", colours) if body else ""


def _stairs(across: list[float], values: list[int]) -> Iterator[tuple[float, int]]:
    """The corners of a curve that holds each value until the next."""
    for at, until, value in zip(across, [*across[1:], float(_WIDTH)], values):
        yield at, value
        yield until, value
