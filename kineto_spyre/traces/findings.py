"""What was found wrong with a trace: for each rule a count, and the earliest event concerned."""

from __future__ import annotations

from typing import Any, TypeGuard

from kineto_spyre.traces.events import LIMIT
from kineto_spyre.traces.rules import RULES

Finding = dict[str, Any]


class Findings(dict[str, Finding]):
    """By rule. `incomplete` holds the findings on what is missing from the trace: one for each diagnostic."""

    def __init__(self) -> None:
        super().__init__()
        self.incomplete: list[Finding] = []

    def say(self, rule: str, first: dict[str, Any] | None, count: int = 1, words: dict[str, str] | None = None) -> None:
        """One more finding. `words` replace what the rule says (what, means, do)."""
        found = self.get(rule)
        if found is None:
            self[rule] = {"count": count, "first": first, **(words or {})}
            return
        found["count"] += count
        before = found["first"]
        if first and before and is_number(first.get("ts")) and is_number(before.get("ts")):
            if first["ts"] < before["ts"]:
                found["first"] = first

    def told(self) -> list[Finding]:
        """As the report lists them: faults first, each with its words."""
        listed = []
        for rule, (fault, what, means, do) in RULES.items():
            ours = self.incomplete if rule == "incomplete" else [self[rule]] if rule in self else []
            about = {"rule": rule, "severity": "fault" if fault else "note", "what": what, "means": means, "do": do}
            listed += [about | found for found in ours]
        return sorted(listed, key=lambda finding: str(finding["severity"]))


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a browser reads the number as it is; NaN is none."""
    return type(value) in (int, float) and -LIMIT < value < LIMIT


def is_whole(value: Any, least: int) -> TypeGuard[int]:
    """Whether it is a whole number, and at least that."""
    return type(value) is int and least <= value < LIMIT


def place(event: Any) -> dict[str, Any]:
    """Where an event is, fit for a report."""

    def plain(value: Any) -> Any:
        return value if value is None or type(value) in (str, int) or is_number(value) else type(value).__name__

    return {key: plain(getattr(event, key)) for key in ("name", "ts", "pid", "tid")}
