"""A report of many ranks as sections and plots. In: facts of `comparing`. Out: what `terminal` and `page` take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kineto_spyre.report.partition import WAITING
from kineto_spyre.report.plots import COLOURS, bars
from kineto_spyre.report.section import Plot, Section
from kineto_spyre.report.verdict import duration


def sections(facts: dict[str, Any], top: int = 10) -> Iterator[Section]:
    """The verdict, ranks, steps, hosts, and what differs between ranks."""
    yield Section("Verdict", [facts["verdict"], *_notes(facts)])
    ranks = sorted(facts["ranks"], key=lambda one: (-one["excess"], one["rank"]))
    yield Section(
        "Ranks, the slowest first", ["Own time is the step without what the rank waited for others."],
        ("rank", "host", "step", "own time", "waiting", "against the median", "most of it in", ""),
        [(f"{one['rank']}", one["host"], duration(one["step"]), duration(one["own"]), duration(one["waiting"]),
          signed(one["excess"]), f"{one['part']} ({signed(one['part_excess'])})" if one["part_excess"] > 0 else "",
          "straggler" if one["straggler"] else "") for one in ranks[:top]],
    )  # fmt: skip
    slow = sorted(facts["steps"], key=lambda one: one["median"] - one["own"])[:top]
    yield Section("Steps, by how much one rank was slower than the others", [one["sentence"] for one in slow])
    hosts = facts["hosts"]
    if len(hosts["hosts"]) > 1:
        yield Section(
            "Hosts, the slowest first",
            [f"Ranks differ by {duration(hosts['between'])} between hosts and by {duration(hosts['within'])} within a "
             "host (standard deviations of the own time)."],
            ("host", "ranks", "own time", "spread", "waiting", "slowest rank"),
            [(one["host"] or "unknown", f"{one['ranks']:,}", duration(one["own"]), duration(one["spread"]),
              duration(one["waiting"]), f"{one['slowest']}") for one in hosts["hosts"][:top]],
        )  # fmt: skip
    yield Section(
        "What differs most between ranks (time of a step)", [],
        ("name", "part", "ranks", "smallest", "median", "largest", "of rank"),
        [(one["name"], one["part"], f"{one['ranks']:,}", duration(one["smallest"]), duration(one["median"]),
          duration(one["largest"]), f"{one['rank']}") for one in facts["kernels"][:top]],
    )  # fmt: skip


def against(facts: dict[str, Any], rank: int) -> Section:
    """One rank against the rest.

    Raises:
        KeyError: there is no such rank.
    """
    one = next((one for one in facts["ranks"] if one["rank"] == rank), None)
    if one is None:
        raise KeyError(rank)
    sentence = (
        f"Its own time in a step is {duration(one['own'])}, {signed(one['excess'])} against the median of all ranks; "
        f"it waits {duration(one['waiting'])} for others."
    )
    parts = sorted(one["parts"].items(), key=lambda pair: -abs(pair[1]))
    return Section(f"Rank {rank} against the rest", [sentence], ("part of a step", "against the median"),
                   [(part, signed(excess)) for part, excess in parts if excess])  # fmt: skip


def _notes(facts: dict[str, Any]) -> Iterator[str]:
    """What was left out, and what does not match."""
    ranks, out = len(facts["ranks"]), facts["left_out"]
    if facts["unmatched"]:
        first = facts["unmatched"][0]
        yield (
            f"The ranks don't match: {_some(len(facts['unmatched']), 'step is', 'steps are')} not in all traces, "
            f"{first['title']} in those of {first['ranks']:,} of {ranks:,} ranks. Each step is compared among "
            "those that have it."
        )
    if out:
        yield (f"{_some(len(out), 'file was', 'files were')} left out. The first, {out[0]['trace']}, {out[0]['why']}")
    if facts["damaged"]:
        one = facts["damaged"][0]
        yield (
            f"{_some(len(facts['damaged']), 'trace is', 'traces are')} damaged, and what comes before counts. The "
            f"first, {one['trace']}, {one['problem']}"
        )
    if facts["later"]:
        one = facts["later"][0]
        yield (
            f"{_some(len(facts['later']), 'trace is', 'traces are')} of a later version. The first, {one['trace']}, "
            f"{one['remark']}"
        )


def _some(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def signed(ns: float) -> str:
    return f"{'+' if ns > 0 else ''}{duration(ns)}"


def plots(facts: dict[str, Any]) -> list[Plot]:
    """Own time of the slowest ranks, and how much each step's slowest rank exceeds the others."""
    ranks = sorted(facts["ranks"], key=lambda one: (-one["own"], one["rank"]))
    steps = sorted(facts["steps"], key=lambda one: one["median"] - one["own"])[:20]
    return [
        Plot("Own time of a step, the 20 slowest ranks" if len(ranks) > 20 else "Own time of a step by rank",
             bars([(f"rank {one['rank']} {one['host']}", one["own"], 5 if one["straggler"] else 0)
                   for one in ranks[:20]], "own time by rank")),
        Plot("How much longer the slowest rank of a step took",
             bars([(f"{one['title']}: rank {one['slowest']}", one["own"] - one["median"],
                    COLOURS.get(one["part"] or WAITING, 7)) for one in steps if one["ranks"] > 1], "slowest ranks")),
    ]  # fmt: skip
