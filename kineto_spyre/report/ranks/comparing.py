"""All numbers of a report of many ranks.

A rank's own time in a step is the step without what it waited for other ranks. The slowest rank of a step is the one
with the longest own time: the others waited for it. A rank stands out (in a step, or over all of them: then it is a
straggler) if its own time exceeds the median of the other ranks' by more than 3.5 times their spread (1.4826 times the
median distance from the median) and by more than 5 %. Why: the part of its time that exceeds the other ranks' most.

In: a directory. Out: facts (docs/reference/report.md), ns. Errors: NotComparable, SpyreProfilerError.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import numpy as np

from kineto_spyre.report.idle import CAUSES, HOST
from kineto_spyre.report.partition import WAITING
from kineto_spyre.report.ranks.finding import files, host_of
from kineto_spyre.report.ranks.reading import summaries
from kineto_spyre.report.ranks.store import Store
from kineto_spyre.report.ranks.summary import Summary
from kineto_spyre.report.steps import SHARE, SIGMAS
from kineto_spyre.report.verdict import duration
from kineto_spyre.report.work import KINDS, Array

SCHEMA = 1
KERNELS = 50
OWN = "its own time"


class NotComparable(Exception):
    """The directory's traces can't be compared; the text goes on after the directory's name and says why."""


class NoTraces(NotComparable):
    """There is none in it that can be read."""


def compared(
    directory: str | os.PathLike[str], scheduler: str | None = None, jobs: int = 1, progress: Any = None
) -> dict[str, Any]:
    """Reads all traces of a directory and compares their ranks.

    Args:
        scheduler, jobs: who reads, see `reading.summaries`.
        progress: called with the part of the traces that has been read, 0 to 1.

    Raises:
        NotComparable: it holds no trace, traces of one rank only, or traces that have no step in common.
        SpyreProfilerError: DuckDB, or what the cluster needs, is missing.
    """
    directory = os.fspath(directory)
    paths, others = files(directory)
    if not paths:
        raise NoTraces(
            "holds no trace: none of its files ends in .json or .json.gz. Name the directory that the profiler "
            "wrote to."
        )
    with Store() as store:
        read: dict[int, Summary] = {}
        for done, (place, found) in enumerate(summaries(paths, jobs, scheduler), 1):
            if found.trouble is None:
                store.add(place, found)
            # What DuckDB holds now is not kept twice.
            read[place] = Summary(found.path, found.trouble, found.problem, found.remark, found.rank, found.titles)
            if progress is not None:
                progress(done / len(paths))
        whose = _whose(read, directory)
        store.rank([(place, rank, host) for place, (rank, host) in whose.items()])
        store.match()
        return _facts(store, directory, read, whose, others)


def _whose(read: dict[int, Summary], directory: str) -> dict[int, tuple[int, str]]:
    """Rank and host of each trace that counts. A trace that names no rank counts only if none does.

    Raises:
        NotComparable: two traces hold the same step of one rank, or there are fewer than two ranks.
    """
    sound = sorted(place for place, one in read.items() if one.trouble is None)
    if not sound:
        first = next(iter(sorted(read)), 0)
        why = f"; {os.path.basename(read[first].path)} {read[first].trouble}"
        raise NoTraces(f"holds no trace with device work{why}")
    named = any(read[place].rank is not None for place in sound)
    whose: dict[int, tuple[int, str]] = {}
    seen: dict[tuple[int, str], str] = {}
    for number, place in enumerate(sound):
        one = read[place]
        rank = one.rank if named else number
        if rank is None:
            one.trouble = "names no rank, and other traces do. Put its rank into its name, such as rank7."
            continue
        for title in one.titles:
            if (rank, title) in seen:
                raise NotComparable(
                    f"holds {title} of rank {rank} twice: in {seen[rank, title]} and in {one.path}. Keep one of them, "
                    "or put the traces of each run into a directory of its own."
                )
            seen[rank, title] = one.path
        whose[place] = (rank, host_of(one.path, directory))
    ranks = {rank for rank, _ in whose.values()}
    if len(ranks) < 2:
        raise NotComparable(
            f"holds traces of rank {min(ranks)} only, so there is nothing to compare. Report on a trace by itself with "
            f"kineto-spyre report {read[min(whose)].path}."
        )
    return whose


def _facts(
    store: Store, directory: str, read: dict[int, Summary], whose: dict[int, tuple[int, str]], others: int
) -> dict[str, Any]:
    steps = _steps(store)
    if not any(one["ranks"] > 1 for one in steps):
        raise NotComparable(
            "holds traces whose ranks have no step in common, so they can't be compared. Let all ranks profile the "
            "same steps."
        )
    ranks = _ranks(store, dict(whose.values()))
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "directory": directory,
        "traces": len(whose),
        "left_out": [{"trace": read[place].path, "why": read[place].trouble}
                     for place in sorted(read) if read[place].trouble],
        "other_files": others,
        "damaged": [{"trace": read[place].path, "problem": read[place].problem}
                    for place in sorted(whose) if read[place].problem],
        "later": [{"trace": read[place].path, "remark": read[place].remark}
                  for place in sorted(whose) if read[place].remark],
        "ranks": ranks,
        "steps": steps,
        "unmatched": [{"title": one["title"], "ranks": one["ranks"]} for one in steps if one["ranks"] < len(ranks)],
        "hosts": _hosts(ranks),
        "kernels": _kernels(store),
    }  # fmt: skip
    found["verdict"] = _verdict(found)
    return found


def limit(others: Array) -> float:
    """What a time must exceed to stand out among the others."""
    middle = float(np.median(others))
    return middle + max(SIGMAS * 1.4826 * float(np.median(np.abs(others - middle))), SHARE * middle)


def _steps(store: Store) -> list[dict[str, Any]]:
    """Each step with its slowest rank, and why."""
    own: dict[tuple[int, str], list[tuple[int, int, int]]] = defaultdict(list)
    for number, step, ns, rank, waiting in store.ask(
        "SELECT number, step, ns, rank, waiting FROM own ORDER BY number, step, ns DESC, rank"
    ):
        own[number, step].append((ns, rank, waiting))
    why = _why(store)
    found: list[dict[str, Any]] = []
    for (_, step), rows in own.items():
        (longest, rank, _), *rest = rows
        others = np.array([ns for ns, _, _ in rest] or [longest], np.float64)
        one = {
            "title": step, "ranks": len(rows), "slowest": rank, "own": longest, "median": float(np.median(others)),
            "waiting": float(np.mean([waiting for _, _, waiting in rest])) if rest else 0.0,
            "stands_out": bool(rest) and longest > limit(others), **why.get((step, rank), _NOTHING),
        }  # fmt: skip
        found.append(one | {"sentence": _sentence(one)})
    return found


_NOTHING: dict[str, Any] = {"part": None, "part_excess": 0.0, "name": None, "name_excess": 0.0}


def _why(store: Store) -> dict[tuple[str, int], dict[str, Any]]:
    """By (step, rank) of the longest own time: the part, and the name in it, that exceed the median most."""
    slowest = """
        WITH slowest AS (SELECT step, rank FROM own
            QUALIFY row_number() OVER (PARTITION BY step ORDER BY ns DESC, rank) = 1),
    """
    parts = store.ask(f"""{slowest}
        medians AS (SELECT step, part, median(ns) AS ns FROM portions GROUP BY ALL)
        SELECT step, rank, part, one.ns - medians.ns AS excess
        FROM portions AS one JOIN slowest USING (step, rank) JOIN medians USING (step, part)
        WHERE part <> '{WAITING}'
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY excess DESC, part) = 1""")
    names = store.ask(f"""{slowest}
        told AS (SELECT rank, step, part, name, ns FROM names JOIN ranks USING (trace)),
        medians AS (SELECT step, part, name, median(ns) AS ns FROM told GROUP BY ALL)
        SELECT step, rank, part, name, one.ns - medians.ns AS excess
        FROM told AS one JOIN slowest USING (step, rank) JOIN medians USING (step, part, name)
        QUALIFY row_number() OVER (PARTITION BY step, rank, part ORDER BY excess DESC, name) = 1""")
    by_part = {(one, rank, part): (name, excess) for one, rank, part, name, excess in names}
    found = {}
    for one, rank, part, excess in parts:
        name, more = by_part.get((one, rank, part), (None, 0.0))
        found[one, rank] = {
            "part": part, "part_excess": excess,
            "name": name if more > 0 else None, "name_excess": more if more > 0 else 0.0,
        }  # fmt: skip
    return found


def _ranks(store: Store, hosts: dict[int, str]) -> list[dict[str, Any]]:
    """Each rank against the rest: the mean over its steps of what it takes more than the median rank."""
    rows = store.ask("""
        WITH medians AS (SELECT step, median(ns) AS ns FROM own GROUP BY step)
        SELECT rank, count(*), avg(whole), avg(one.ns), avg(waiting), avg(one.ns - medians.ns), avg(medians.ns),
               median(one.ns - medians.ns)
        FROM own AS one JOIN medians USING (step) GROUP BY rank ORDER BY rank""")
    parts: dict[int, dict[str, float]] = defaultdict(dict)
    for rank, part, excess in store.ask("""
        WITH medians AS (SELECT step, part, median(ns) AS ns FROM portions GROUP BY ALL)
        SELECT rank, part, avg(one.ns - medians.ns)
        FROM portions AS one JOIN medians USING (step, part) GROUP BY ALL ORDER BY ALL"""):
        parts[rank][part] = excess
    usual = np.array([row[7] for row in rows])  # the median over its steps: one late step makes no straggler
    found = []
    for place, (rank, steps, whole, own, waiting, more, median, often) in enumerate(rows):
        others = np.delete(usual, place) + median  # so that 5 % are of the own time, not of the excess
        mine = parts[rank]
        part = max((one for one in mine if one != WAITING), key=lambda one: mine[one], default=None)
        found.append({
            "rank": rank, "host": hosts[rank], "steps": steps, "step": whole, "own": own, "waiting": waiting,
            "excess": more, "straggler": bool(often + median > limit(others)), "parts": mine,
            "part": part, "part_excess": mine[part] if part else 0.0,
        })  # fmt: skip
    return found


def _hosts(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Ranks by host, and whether they differ more between hosts than within one."""
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in ranks:
        by[one["host"]].append(one)
    listed = []
    for host, mine in sorted(by.items()):
        own = np.array([one["own"] for one in mine])
        listed.append({
            "host": host, "ranks": len(mine), "own": float(own.mean()), "spread": float(own.std()),
            "waiting": float(np.mean([one["waiting"] for one in mine])),
            "slowest": max(mine, key=lambda one: (one["own"], -one["rank"]))["rank"],
        })  # fmt: skip
    means, counts = (np.array([one[key] for one in listed], np.float64) for key in ("own", "ranks"))
    middle = np.average(means, weights=counts)
    return {
        "hosts": sorted(listed, key=lambda one: -one["own"]),
        "between": float(np.sqrt(np.average((means - middle) ** 2, weights=counts))),
        "within": float(np.sqrt(np.average([one["spread"] ** 2 for one in listed], weights=counts))),
    }


def _kernels(store: Store) -> list[dict[str, Any]]:
    """Kernels, copies and the host's ops by how much they differ between ranks; ns of a mean step of a rank."""
    rows = store.ask(f"""
        WITH steps AS (SELECT rank, count(*) AS steps FROM own GROUP BY rank),
             told AS (SELECT rank, part, name, sum(ns)::BIGINT / any_value(steps) AS ns
                      FROM names JOIN ranks USING (trace) JOIN steps USING (rank) GROUP BY ALL)
        SELECT part, name, count(*), min(ns), median(ns), max(ns), arg_max(rank, (ns, -rank))
        FROM told GROUP BY part, name HAVING count(*) > 1
        ORDER BY max(ns) - median(ns) DESC, part, name LIMIT {KERNELS}""")
    keys = ("part", "name", "ranks", "smallest", "median", "largest", "rank")
    return [dict(zip(keys, row)) for row in rows]


def _sentence(one: dict[str, Any]) -> str:
    if one["ranks"] < 2:
        return f"Only rank {one['slowest']} has {one['title']}."
    if not one["stands_out"]:
        return f"No rank stands out in {one['title']}; the slowest is rank {one['slowest']}."
    more = one["own"] - one["median"]
    why = f": {_because(one)}" if one["part"] and one["part_excess"] > 0 else ""
    return (
        f"In {one['title']} rank {one['slowest']} was the slowest, {duration(more)} longer than the median of the "
        f"others{why}. The others waited {duration(one['waiting'])} on average."
    )


def _because(one: dict[str, Any]) -> str:
    """What of the rank's time exceeds the others' most."""
    more, name = duration(one["part_excess"]), one["name"]
    if one["part"] in KINDS:
        return f"{one['part']}{f' ({name})' if name else ''} took {more} more"
    if one["part"] == CAUSES[HOST]:
        return f"the device waited {more} more for the host{f' (in {name})' if name else ''}"
    return f"idle time ({one['part']}) was {more} longer"


def _verdict(found: dict[str, Any]) -> str:
    ranks = found["ranks"]
    waiting = float(np.mean([one["waiting"] for one in ranks]))
    step = float(np.mean([one["step"] for one in ranks]))
    waited = (
        f"On average a rank waits {duration(waiting)} of each step ({waiting / step:.0%}) for another rank."
        if waiting else "No rank was seen to wait for another one in a collective."
    )  # fmt: skip
    late = sorted((one for one in ranks if one["straggler"]), key=lambda one: -one["excess"])
    if not late:
        return f"No rank is slower than the others in general. {waited}"
    worst = late[0]
    some = "1 rank is a straggler" if len(late) == 1 else f"{len(late):,} ranks are stragglers"
    return (
        f"{some}: the slowest is rank {worst['rank']}{_on(worst['host'])}, whose own time in a step is "
        f"{duration(worst['excess'])} longer than the median, {duration(worst['part_excess'])} of that in "
        f"{worst['part']}. {waited}"
    )


def _on(host: str) -> str:
    return f" on {host}" if host else ""
