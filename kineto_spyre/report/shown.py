"""What a report can do, whatever it is of: be printed, written as a page, shown in a notebook.

>>> print(report); report.html("report.html"); report       # the last in a notebook: the page itself
"""

from __future__ import annotations

import pathlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from kineto_spyre.report.page import body, page
from kineto_spyre.report.section import Plot, Section
from kineto_spyre.report.terminal import plain

ROWS_OF_A_PAGE = 20


class Shown(ABC):
    """Facts, and how they are shown."""

    title = "Report"

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    @property
    @abstractmethod
    def sources(self) -> list[str]:
        """What was read."""

    @abstractmethod
    def sections(self, top: int = 10) -> Iterator[Section]:
        """Headings, sentences and tables of at most `top` rows; the verdict first."""

    @abstractmethod
    def plots(self) -> list[Plot]:
        """What a page shows after the verdict."""

    def __str__(self) -> str:
        return "\n".join(plain(self.sections()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.sources))})"

    def _repr_html_(self) -> str:
        return body(self.title, self.sources, self._parts())

    def text(self) -> str:
        """One self-contained page of HTML."""
        return page(self.title, self.sources, self._parts())

    def html(self, path: str | pathlib.Path, force: bool = False) -> None:
        """Writes one self-contained page.

        Raises:
            FileExistsError: the file is there and `force` is not set.
            OSError: it can't be written.
        """
        text = self.text()
        with open(path, "w" if force else "x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)

    def _parts(self) -> list[Section | Plot]:
        verdict, *rest = self.sections(ROWS_OF_A_PAGE)
        return [verdict, *self.plots(), *rest]
