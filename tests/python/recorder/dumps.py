"""Reads what a dump wrote."""

from __future__ import annotations

import json
import pathlib


def events_of(path, *categories: str) -> list[dict]:
    """A trace's slices of some categories."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in categories and event["ph"] == "X"]
