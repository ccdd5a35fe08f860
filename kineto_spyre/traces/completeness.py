"""What the profiler itself says is missing from a trace: the metadata key `kineto_spyre`, of this release and of older
ones (which counted records by the words dropped or lost, and invalid or refused, and had no diagnostics)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kineto_spyre.diagnostics import Diagnostic, parse
from kineto_spyre.traces.findings import Finding, is_whole


def ours(metadata: dict[str, Any]) -> dict[str, Any]:
    """What kineto_spyre wrote into the trace; empty if it is not ours, or no object."""
    found = metadata.get("kineto_spyre")
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def missing(metadata: dict[str, Any]) -> list[Finding]:
    """A finding for each diagnostic that means that something is missing; none for a complete trace."""
    session = ours(metadata)
    listed = session.get("diagnostics")
    found: list[Finding]
    layers = metadata.get("kineto_spyre_layers")
    of_layers = layers.get("diagnostics") if isinstance(layers, dict) else None
    if isinstance(of_layers, list):
        listed = [*(listed if isinstance(listed, list) else []), *of_layers]
    if isinstance(listed, list):
        found = [_finding(one) for one in parse(listed) if one.missing]
    else:
        found = list(_of_older_release(session))
    if not found and session.get("complete") is False:
        found.append(
            {
                "count": 1,
                "code": None,
                "what": "The profiler marked this trace as incomplete and gave no reason that this release knows.",
                "do": "Look at the metadata key kineto_spyre.",
            }
        )
    return [finding | {"first": None} for finding in found]


def _finding(diagnostic: Diagnostic) -> Finding:
    return {
        "count": diagnostic.count,
        "code": diagnostic.code,
        "what": diagnostic.what,
        "do": diagnostic.advice,
    }


def _of_older_release(session: dict[str, Any]) -> Iterator[Finding]:
    dropped = _total(session.get("dropped")) or _total(session.get("lost"))
    if dropped:
        yield _finding(Diagnostic("records_dropped", dropped))
    invalid = _total(session.get("invalid")) or _total(session.get("refused"))
    if invalid:
        some = "1 record was" if invalid == 1 else f"{invalid} records were"
        yield {
            "count": invalid,
            "code": None,
            "what": f"{some} left out because what libaiupti wrote was invalid.",
            "do": "Look at the reasons in the metadata key kineto_spyre.",
        }


def _total(value: Any) -> int:
    numbers = value.values() if isinstance(value, dict) else [value]
    return sum(number for number in numbers if is_whole(number, 0))
