"""A section of a report: what every rendering shows, each in its own way."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """A heading, sentences and a table. The first column is text to the left, the others are to the right."""

    title: str
    sentences: list[str]
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []  # noqa: RUF012 (never changed)
