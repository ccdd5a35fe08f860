"""From what the probes saw to what it means: pure functions over plain values, so they can be tested without a library.

`judge(facts, died)` returns one Finding for each assumption, in the order in which a reader asks. `facts` holds what
each probe returned, `died` how a probe ended that ended its process. Here are the rules for all probes but `session`,
which has the most to say and a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .finding import COSTS, EXPECTED, HANDLED, MATCHED, UNKNOWN, Facts, Finding, duration, plural
from .judge_session import session

__all__ = ["COSTS", "EXPECTED", "HANDLED", "UNKNOWN", "Finding", "judge", "variations"]

DEAR_NS = 100_000  # a launch that costs so much more with a library open is slow


def judge(facts: Facts, died: dict[str, dict[str, Any]] | None = None) -> list[Finding]:
    """What each assumption has come to. A probe that is missing makes its assumptions "not found out"."""
    findings: list[Finding] = []
    for probe, how in (died or {}).items():
        findings.append(_death(probe, how))
    for probe, rule in _RULES:
        if probe in facts:
            findings += rule(facts[probe], facts)
        elif not any(f.key == f"missing.{probe}" for f in findings):
            findings.append(Finding(f"missing.{probe}", _ABOUT[probe], "not tried, or not done", "", UNKNOWN))
    return findings


def variations(findings: list[Finding]) -> list[str]:
    """The variations that were named, each once."""
    return list(dict.fromkeys(f.variation for f in findings if f.variation))


def _death(probe: str, how: dict[str, Any]) -> Finding:
    call = how.get("call") or "its work on the device"
    ways = {"hung": "did not come back", "crashed": f"ended the process (signal {how.get('signal')})"}
    found = f"{call} {ways.get(how['how'], 'ended the process')}"
    if how["how"] == "crashed":
        effect = "a profiled program may crash there too; report it to the vendor of the SDK"
    else:
        effect = "a session waits as long as KINETO_SPYRE_FLUSH_TIMEOUT_MS says, then goes on without the records"
        if call != "aiuptiFlushAllActivities":
            effect = "a profiled program may hang there too; report it to the vendor of the SDK"
    return Finding(f"died.{probe}", _ABOUT[probe], found, effect, COSTS)


def _unopened(seen: Facts, facts: Facts) -> Iterator[Finding]:
    early = seen["mapped_before_runtime"]
    with_runtime = seen["mapped_with_runtime"] and not early
    found = "not there before it is opened"
    if early:
        found = "in the process before the device was used: something links or preloads it"
    elif with_runtime:
        found = "the runtime opened one by itself"
    yield Finding(
        "loading",
        "no libaiupti is in the process before a session opens it",
        found,
        "each op is slower with no profiler running"
        if early
        else "the plugin uses that one"
        if with_runtime
        else "none",
        COSTS if early else HANDLED if with_runtime else EXPECTED,
    )


def _cost(seen: Facts, facts: Facts) -> Iterator[Finding]:
    missing = sorted(name for name, there in seen["functions"].items() if not there)
    yield Finding(
        "functions",
        "the six functions have their C++ names",
        "all are there" if not missing else "missing: " + ", ".join(missing),
        "none" if not missing else "the plugin takes the plain C name if there is one; else it can't use this library",
        COSTS if missing else EXPECTED,
    )
    base = facts.get("unopened", {}).get("ns_a_launch", seen["opened"])
    steps = {name: seen[name] - base for name in ("opened", "enabled", "disabled")}
    dear = [name for name in ("opened", "disabled") if steps[name] > DEAR_NS]
    found = f"{duration(base)} a launch; " + ", ".join(f"{name} {duration(seen[name])}" for name in steps)
    yield Finding(
        "cost",
        "an open library costs little while nothing is enabled",
        found,
        "ops stay slow after the first session: profile in a process of its own" if dear else "none",
        COSTS if dear else EXPECTED,
    )


def _again(seen: Facts, facts: Facts) -> Iterator[Finding]:
    second = seen["sessions"][1].get("compute", 0)
    whole = second >= seen["launches"]
    yield Finding(
        "again",
        "a second session records what the first one did",
        f"{plural(second, 'kernel')} of {seen['launches']}",
        "none" if whole else "later sessions of a process lack records",
        EXPECTED if whole else COSTS,
    )
    if seen["filled_from_before"]:
        yield Finding(
            "outlives",
            "a buffer belongs to the session that lent it",
            f"{plural(seen['filled_from_before'], 'buffer')} lent in one session came back in the next",
            "it belongs to the later session; the window sorts its records",
            HANDLED,
            "rotate_at_flush",
        )


def _order(seen: Facts, facts: Facts) -> Iterator[Finding]:
    swapped, shared = seen["out_of_order"], seen["with_calls_and_kernels"]
    name = "buffers come back in the order in which they were lent"
    if seen["buffers"] < 3:
        yield Finding("order", name, "too few buffers", "", UNKNOWN)
    else:
        yield Finding(
            "order",
            name,
            "they do" if not swapped else f"{plural(swapped, 'buffer')} of {seen['buffers']} did not",
            "none" if not swapped else "none: the plugin knows a buffer by its address",
            HANDLED if swapped else EXPECTED,
        )
    sharing = "all threads write to one current buffer"
    if min(seen["with_calls"], seen["with_kernels"]) < 2:
        yield Finding("sharing", sharing, "too few buffers", "", UNKNOWN)
        return
    apart = shared == 0
    yield Finding(
        "sharing",
        sharing,
        "calls and kernels never share one: each thread has its own" if apart else "calls and kernels share buffers",
        "each thread that launches takes a buffer of the budget (KINETO_SPYRE_BUFFER_MB)" if apart else "none",
        HANDLED if apart else EXPECTED,
        "buffer_per_thread" if apart else "",
    )


def _disable_first(seen: Facts, facts: Facts) -> Iterator[Finding]:
    wanted, code = seen["launches"], seen["flush_code"]
    at = {name: seen[name].get("compute", 0) for name in ("at_disable", "at_flush", "once_enabled_again")}
    variation, state = "", HANDLED
    if at["at_disable"] + at["at_flush"] >= wanted:
        found, state = "disabling delivers them" if at["at_disable"] >= wanted else "the flush delivers them", EXPECTED
    elif code != 0:
        found, variation = f"the flush fails with code {code}", "flush_when_disabled=fail"
    elif at["once_enabled_again"]:
        found, variation = "the flush does nothing; they come once a kind is enabled", "flush_when_disabled=nothing"
    elif at["at_flush"] == 0:
        found, variation = _disappeared(facts)
    else:
        found = f"{at['at_flush']} of {wanted} come"
    yield Finding(
        "disable_first",
        "records that were not delivered before disabling come with the next flush",
        found,
        "none" if state == EXPECTED else "none: the plugin flushes before it disables",
        state,
        variation,
    )


def _disappeared(facts: Facts) -> tuple[str, str]:
    """Only where a flush before disabling delivers can their absence be laid on the disabling."""
    sessions = facts.get("again", {}).get("sessions", [{}])
    if all(session.get("compute", 0) > 0 for session in sessions):
        return "disabling discards them", "discard_at_disable"
    return "they never come, as in every other session", ""


def _limit(seen: Facts, facts: Facts) -> Iterator[Finding]:
    came, launches = seen["records"].get("compute", 0), seen["launches"]
    whole = came >= MATCHED * launches
    count = seen["buffers"]
    if not any(seen["records"].values()):  # calls alone may have filled the few buffers that a library takes
        yield Finding(
            "limit", "the library takes buffers between flushes as it needs them", "no record came", "", UNKNOWN
        )
        return
    found = f"at least {plural(count, 'buffer')}"
    if not whole:
        found = f"{plural(count, 'buffer')}, then no more: {came:,} of {launches:,} kernels came"
        found += f", {plural(seen['dropped'][1], 'record')} counted as dropped" if seen["dropped"][1] else ""
    yield Finding(
        "limit",
        "the library takes buffers between flushes as it needs them",
        found,
        "none" if whole else f"a session holds {plural(count, 'buffer')} of 32 MiB; profile fewer steps at a time",
        EXPECTED if whole else COSTS,
        "" if whole else f"buffer_limit={count}",
    )
    after = seen["records_after"].get("compute", 0)
    if not whole or after < seen["launches_after"]:
        yield Finding(
            "limit_after",
            "a flush makes room for new records",
            "it does" if after >= seen["launches_after"] else f"{after} of {seen['launches_after']} kernels came",
            "none" if after >= seen["launches_after"] else "later sessions of a process lack records",
            EXPECTED if after >= seen["launches_after"] else COSTS,
        )


def _quiet(seen: Facts, facts: Facts) -> Iterator[Finding]:
    still = seen["callbacks"]
    yield Finding(
        "quiet",
        "with everything disabled nothing is recorded",
        "nothing is" if not still else f"{plural(still, 'callback')} came",
        "none" if not still else "the program stays slow after a session",
        COSTS if still else EXPECTED,
    )


def _codes(seen: Facts, facts: Facts) -> Iterator[Finding]:
    twice = [*seen["enable_twice"], *seen["disable_twice"]]
    found = (
        f"kind 0: {seen['enable_invalid']}, kind 99: {seen['enable_unknown']}, nothing to iterate: "
        f"{seen['next_of_nothing']}; twice: {', '.join(map(str, twice))}"
    )
    yield Finding("codes", "success is 0, and other codes have no known meaning", found, "none", EXPECTED)


def _dropped(seen: Facts, facts: Facts) -> Iterator[Finding]:
    (code, first), (_, second) = seen["after"]
    name = "what was dropped is counted"
    if code != 0:
        yield Finding("dropped", name, f"code {code}", "what the library drops is not known", COSTS)
        return
    missing = seen["launches"] - seen["records"].get("compute", 0)
    if first:
        resets = second < first
        found = f"{plural(first, 'record')}; reading " + ("resets the count" if resets else "leaves the count")
        yield Finding("dropped", name, found, "none", EXPECTED)
    elif missing > 0:
        yield Finding(
            "dropped", name, f"{plural(missing, 'record')} went missing uncounted", "a loss may go unnoticed", COSTS
        )
    else:
        yield Finding("dropped", name, "nothing could be made to be dropped", "none", UNKNOWN)


Rule = Callable[[Facts, Facts], Iterator[Finding]]
_RULES: tuple[tuple[str, Rule], ...] = (
    ("unopened", _unopened),
    ("cost", _cost),
    ("session", session),
    ("again", _again),
    ("order", _order),
    ("disable_first", _disable_first),
    ("limit", _limit),
    ("quiet", _quiet),
    ("dropped", _dropped),
    ("codes", _codes),
)
_ABOUT = {
    "unopened": "the device works without a libaiupti",
    "cost": "an open library costs little",
    "session": "flush, disable, flush delivers all records",
    "again": "a second session records what the first one did",
    "order": "buffers come back in the order in which they were lent",
    "disable_first": "records that were not delivered before disabling come with the next flush",
    "limit": "the library takes buffers between flushes as it needs them",
    "quiet": "with everything disabled nothing is recorded",
    "dropped": "what was dropped is counted",
    "codes": "success is 0, and other codes have no known meaning",
}
