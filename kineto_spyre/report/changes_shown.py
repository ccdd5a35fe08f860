"""A comparison of two traces as sections and plots. In: facts of `changes`. Out: what `terminal` and `page` take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kineto_spyre.report.changes import reason, titled
from kineto_spyre.report.plots import COLOURS, deltas
from kineto_spyre.report.section import Plot, Section
from kineto_spyre.report.verdict import duration

_SURE = {True: "real", False: "noise", None: "not tested"}


def sections(facts: dict[str, Any], top: int = 10) -> Iterator[Section]:
    """What changed, in order of size."""
    damaged = [f"The trace {one['trace']} {one['problem']}. What came before is compared."
               for one in facts["traces"] if one["problem"]]  # fmt: skip
    damaged += [f"The trace {one['trace']} {one['remark']}" for one in facts["traces"] if one["remark"]]
    yield Section("What changed", [*damaged, facts["verdict"]])
    unit = facts["unit"]
    yield Section(f"How the change of a {unit} is explained", [_test(facts)], ("by", "change", "of the change"), [
        (_BY[key], signed(ns), f"{ns / facts['change']:.1%}" if facts["change"] else "")
        for key, ns in facts["explained"].items() if ns])  # fmt: skip
    heads = ("name", "first", "second", "change", "noise?", "why")
    yield _table("Device time and idle time that changed", heads, facts["parts"], top)
    yield _table("Ops that changed (their device time, and idle time within them)", heads[:5], facts["ops"], top)


_BY = {
    "real": "parts that changed",
    "noise": "parts whose change is within the noise",
    "not tested": "parts with too few samples to test",
    "unknown": "idle time without a known cause",
}


def _test(facts: dict[str, Any]) -> str:
    test = facts["test"]
    return (
        "A change is real if the Mann-Whitney test finds it and it is at least "
        f"{test['least']:.0%} of the mean; all other differences are noise. Of the changes that are reported as real, "
        f"{test['level']:.0%} may be noise (Benjamini and Hochberg's procedure)."
    )


def _table(title: str, heads: tuple[str, ...], rows: list[dict[str, Any]], top: int) -> Section:
    shown = [row for row in rows if row["change"]][:top]
    return Section(title, [] if shown else ["Nothing changed."], heads, [
        (titled(row) if "part" in row else row["name"] or "no op, no range", *map(duration, row["time"]),
         signed(row["change"]), _SURE[row["real"]], *([reason(row)] if "part" in row else []))
        for row in shown])  # fmt: skip


def signed(ns: float) -> str:
    return f"{'+' if ns > 0 else ''}{duration(ns)}"


def plots(facts: dict[str, Any]) -> list[Plot]:
    """The largest changes as bars to both sides."""
    rows = [(titled(row), row["change"], COLOURS[row["part"]]) for row in facts["parts"] if row["change"]][:12]
    return [Plot("Where the time went", deltas(rows, "changes"))]
