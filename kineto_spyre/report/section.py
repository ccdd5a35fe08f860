"""What reports are made of, and every rendering shows in its own way: sections, and plots for a page."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """A heading, sentences and a table. The first column is text to the left, the others are to the right."""

    title: str
    sentences: list[str]
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []  # noqa: RUF012 (never changed)


class Plot(NamedTuple):
    """A heading and an <svg>, which may be empty."""

    title: str
    svg: str
