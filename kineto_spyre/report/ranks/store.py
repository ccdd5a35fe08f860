"""The summaries of many ranks in DuckDB: filled trace by trace, then asked with SQL.

Tables, all times in ns:

    lengths(trace, step, number, ns)             a step of a trace; number orders steps
    parts(trace, step, part, ns)                 what it was made of
    names(trace, step, part, name, ns)           the kernels, copies and ops that take longest
    collectives(trace, step, name, nth, ns, exposed)
    ranks(trace, rank, host)                     filled last, when it is known whose a trace is

`match` makes of these, by rank, what is compared:

    waits(rank, step, ns)        a collective ends on all ranks together and lasts shortest on the one that came last,
                                 so what it lasts longer elsewhere is waiting, as far as nothing overlapped it
    own(rank, step, number, whole, waiting, ns)     a step without its waiting
    portions(rank, step, part, ns)                  parts, 0 where a rank has none of one; collectives without waiting
"""

from __future__ import annotations

import re
import tempfile
from types import TracebackType
from typing import Any

import numpy as np

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.report.partition import WAITING
from kineto_spyre.report.ranks.summary import COLLECTIVES, Summary

MEMORY = "256MB"  # of DuckDB; what does not fit goes to a temporary folder
_TABLES = {
    "lengths": "trace INTEGER, step VARCHAR, number BIGINT, ns BIGINT",
    "parts": "trace INTEGER, step VARCHAR, part VARCHAR, ns BIGINT",
    "names": "trace INTEGER, step VARCHAR, part VARCHAR, name VARCHAR, ns BIGINT",
    "collectives": "trace INTEGER, step VARCHAR, name VARCHAR, nth BIGINT, ns BIGINT, exposed BIGINT",
    "ranks": "trace INTEGER, rank BIGINT, host VARCHAR",
}
_MATCH = f"""
CREATE TABLE waits AS
    WITH fastest AS (SELECT step, name, nth, min(ns) AS ns
                     FROM collectives JOIN ranks USING (trace) GROUP BY ALL HAVING count(*) > 1)
    SELECT rank, step, sum(least(one.ns - fastest.ns, one.exposed))::BIGINT AS ns
    FROM collectives AS one JOIN fastest USING (step, name, nth) JOIN ranks USING (trace) GROUP BY ALL;
CREATE TABLE own AS
    SELECT rank, step, number, one.ns AS whole, coalesce(waits.ns, 0) AS waiting, one.ns - coalesce(waits.ns, 0) AS ns
    FROM lengths AS one JOIN ranks USING (trace) LEFT JOIN waits USING (rank, step);
CREATE TABLE portions AS
    WITH told AS (SELECT rank, step, part, ns FROM parts JOIN ranks USING (trace)),
         every AS (SELECT rank, step, waiting, part FROM own, (SELECT DISTINCT part FROM told))
    SELECT rank, step, part,
        coalesce(ns, 0) - CASE part WHEN '{COLLECTIVES}' THEN waiting ELSE 0 END AS ns
    FROM every LEFT JOIN told USING (rank, step, part)
    UNION ALL SELECT rank, step, '{WAITING}', waiting FROM own;
"""


class Store:
    """One database, in memory and a temporary folder; use it in a `with`.

    Raises:
        SpyreProfilerError: DuckDB is not installed.
    """

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError:
            raise SpyreProfilerError(
                "A report of many ranks needs DuckDB. Install it with pip install 'kineto-spyre[ranks]'."
            ) from None
        self._folder = tempfile.TemporaryDirectory(prefix="kineto_spyre_")
        self._base = duckdb.connect(
            ":memory:", config={"memory_limit": MEMORY, "temp_directory": self._folder.name, "threads": 2}
        )
        for name, columns in _TABLES.items():
            self._base.execute(f"CREATE TABLE {name} ({columns})")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()
        self._folder.cleanup()

    def add(self, trace: int, found: Summary) -> None:
        """The tables of one trace."""
        numbers = [int(match[0]) if (match := re.search(r"\d+", title)) else 0 for title in found.titles]
        steps = list(zip(range(len(found.titles)), numbers, found.lengths))
        for table, rows in (("lengths", steps), ("parts", found.parts), ("names", found.names),
                            ("collectives", found.collectives)):  # fmt: skip
            if rows:
                step, *columns = zip(*rows)
                self._insert(table, [[trace] * len(rows), [found.titles[one] for one in step], *columns])

    def rank(self, rows: list[tuple[int, int, str]]) -> None:
        """(trace, rank, host) of all traces that count."""
        self._insert("ranks", list(map(list, zip(*rows))))

    def match(self) -> None:
        """Makes the tables that are compared."""
        self._base.execute(_MATCH)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        rows: list[tuple[Any, ...]] = self._base.execute(sql).fetchall()
        return rows

    def _insert(self, table: str, columns: list[Any]) -> None:
        texts = [isinstance(column[0], str) for column in columns]
        rows = {f"c{place}": np.array(column, object if text else np.int64)
                for place, (column, text) in enumerate(zip(columns, texts))}  # fmt: skip
        self._base.register("incoming", rows)
        self._base.execute(f"INSERT INTO {table} SELECT * FROM incoming")
        self._base.unregister("incoming")
