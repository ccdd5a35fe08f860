"""What went wrong in a session, from codes to sentences.

The C++ side emits codes with counts and details; the table `diagnostics.json` beside this module holds a sentence for
each. This is the only module that makes sentences of them: for warnings, for `last_session()`, and for whoever reads a
trace's metadata. It imports neither torch nor anything else of this package.

>>> diagnostics = parse([{"code": "records_dropped", "count": 3, "details": {}}])
>>> print(diagnostics[0].sentence)
3 records were dropped because the buffers were full. Raise KINETO_SPYRE_BUFFER_MB.
>>> is_complete(diagnostics)
False
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
Detail = str | int | float


@dataclass(frozen=True)
class Definition:
    """A row of the table.

    Attributes:
        code: its name, as in the trace's metadata.
        severity: "error" (no device activity was recorded), "warning" (the trace is poorer, or its numbers need care)
            or "note" (listed, and no Python warning).
        missing: whether something that happened in the window is not in the trace.
        one: the sentence for a count of 1. Names in braces are details.
        many: the sentence for a count of 2 or more. {count} is the count.
        do: what to do.
    """

    code: str
    severity: Severity
    missing: bool
    one: str
    many: str
    do: str


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a session.

    Attributes:
        code: which (docs/reference/diagnostics.md lists all).
        count: how often; at least 1.
        details: what makes it definite: a path, a result code, the first event concerned.
    """

    code: str
    count: int = 1
    details: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """ "error", "warning" or "note"; "warning" for a code that this release does not know."""
        definition = definitions().get(self.code)
        return definition.severity if definition else "warning"

    @property
    def missing(self) -> bool:
        """Whether something that happened in the window is not in the trace; True for an unknown code."""
        definition = definitions().get(self.code)
        return definition.missing if definition else True

    @property
    def what(self) -> str:
        """What happened, in a sentence."""
        definition = definitions().get(self.code)
        if definition is None:
            return f"{self.code} was found {'once' if self.count == 1 else f'{self.count} times'}."
        template = definition.one if self.count == 1 else definition.many
        return template.format_map(_Details(self.details, count=self.count))

    @property
    def advice(self) -> str:
        """What to do about it."""
        definition = definitions().get(self.code)
        if definition is None:
            return "A newer kineto-spyre wrote this code; install that release to read it."
        return definition.do.format_map(_Details(self.details, count=self.count))

    @property
    def sentence(self) -> str:
        """What happened, then what to do."""
        return f"{self.what} {self.advice}"


class _Details(dict[str, Any]):
    """A detail that is not there must not hide the rest of its sentence."""

    def __init__(self, details: Mapping[str, Any], **more: Any) -> None:
        super().__init__({**details, **more})

    def __missing__(self, key: str) -> str:
        return "unknown"


@functools.cache
def definitions() -> dict[str, Definition]:
    """The table, by code."""
    table = json.loads((pathlib.Path(__file__).parent / "diagnostics.json").read_text(encoding="utf-8"))
    rows = (Definition(**{"many": row["one"], **row}) for row in table["diagnostics"])
    return {row.code: row for row in rows}


def parse(found: Iterable[Any]) -> list[Diagnostic]:
    """Diagnostics from the metadata of a trace, or from the C++ side.

    Args:
        found: objects with `code`, `count` and `details`. What is not of that form is left out: a trace may be damaged.
    """
    diagnostics = []
    for entry in found:
        if not isinstance(entry, Mapping):
            continue
        code, count, details = entry.get("code"), entry.get("count", 1), entry.get("details", {})
        if isinstance(code, str) and isinstance(count, int) and count > 0 and isinstance(details, Mapping):
            diagnostics.append(Diagnostic(code, count, dict(details)))
    return diagnostics


def is_complete(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether nothing is missing, as far as is known."""
    return not any(diagnostic.missing for diagnostic in diagnostics)
