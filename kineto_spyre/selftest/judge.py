"""From what the probes saw to what it means: pure functions over plain values, so they can be tested without a library.

`judge(facts, died)` returns one Finding for each assumption, in the order in which a reader asks. `facts` holds what
each probe returned, `died` how a probe ended that ended its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]

EXPECTED = "as expected"  # the library does what the plugin expects
HANDLED = "handled"  # it does not, and a trace is whole all the same
COSTS = "costs"  # a trace lacks something, or says something wrong, or the program becomes slow
UNKNOWN = "not found out"

LATE_FLUSH_NS = 5_000_000_000  # KINETO_SPYRE_FLUSH_TIMEOUT_MS by default
DEAR_NS = 100_000  # a launch that costs so much more with a library open is slow
MATCHED = 0.9


@dataclass(frozen=True)
class Finding:
    """One assumption of the plugin, and what this library does."""

    key: str
    assumption: str
    found: str
    effect: str
    state: str
    variation: str = ""  # its name, if this is one that the emulated library can be asked for


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
        effect = "a profiled program may crash there too; report it to the SDK's makers"
    else:
        effect = "a session waits as long as KINETO_SPYRE_FLUSH_TIMEOUT_MS says, then goes on without the records"
        if call != "aiuptiFlushAllActivities":
            effect = "a profiled program may hang there too; report it to the SDK's makers"
    return Finding(f"died.{probe}", _ABOUT[probe], found, effect, COSTS)


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _duration(ns: float) -> str:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


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
    found = f"{_duration(base)} a launch; " + ", ".join(f"{name} {_duration(seen[name])}" for name in steps)
    yield Finding(
        "cost",
        "an open library costs little while nothing is enabled",
        found,
        "ops stay slow after the first session: profile in a process of its own" if dear else "none",
        COSTS if dear else EXPECTED,
    )


def _session(seen: Facts, facts: Facts) -> Iterator[Finding]:
    yield from _codes_of_session(seen["codes"])
    yield from _flush(seen)
    yield from _iterator(seen["end"])
    yield from _sizes(seen)
    yield from _fields(seen)
    yield from _threads(seen)
    yield from _correlation(seen)
    yield from _clocks(seen["clocks"])
    yield from _operations(seen)


def _codes_of_session(codes: Facts) -> Iterator[Finding]:
    wanted = {
        "1": "compute",
        "2": "memset",
        "3": "memory",
        "4": "memcpy",
        "5": "memcpy2",
        "6": "runtime",
        "7": "driver",
    }
    failed = {wanted[str(kind)]: code for kind, code in codes["enable"].items() if code != 0 and str(kind) in wanted}
    others = [str(kind) for kind, code in codes["enable"].items() if code != 0 and str(kind) not in wanted]
    failed_off = [str(kind) for kind, code in codes["disable"].items() if code != 0]
    text = "all succeed" if not failed else ", ".join(f"{kind} gives code {code}" for kind, code in failed.items())
    if others:
        text += f"; kinds that the plugin never enables and that fail: {', '.join(others)}"
    yield Finding(
        "enable",
        "the kinds that the plugin records can be enabled",
        text,
        "none" if not failed else "traces have none of these",
        COSTS if failed else EXPECTED,
    )
    yield Finding(
        "disable",
        "disabling an enabled kind succeeds",
        "it does" if not failed_off else f"kinds that fail: {', '.join(failed_off)}",
        "none" if not failed_off else "the library goes on recording after a session",
        COSTS if failed_off else EXPECTED,
    )
    if codes["register"] or codes["flush"]:
        yield Finding(
            "calls",
            "registering callbacks and flushing succeed",
            f"code {codes['register']} and code {codes['flush']}",
            "traces may have no device activity",
            COSTS,
        )


def _flush(seen: Facts) -> Iterator[Finding]:
    buffers = seen["buffers"]
    late = buffers["completed_after_flush_returned"]
    slow = seen["flush_ns"] > LATE_FLUSH_NS
    found = f"it took {_duration(seen['flush_ns'])}"
    found += f", and {_plural(late, 'buffer')} came after it" if late else ", and no buffer came after it"
    yield Finding(
        "flush",
        "a flush returns once all buffers are back",
        found,
        "records that come late are missing"
        if late
        else "a session waits no longer than its timeout"
        if slow
        else "none",
        COSTS if late or slow else EXPECTED,
    )
    # A flush that fails, or gives nothing back, tells nothing of rotation.
    rotates = buffers["out_after_flush"] > 0 and buffers["completed_in_all"] > 0 and seen["codes"]["flush"] == 0
    kept = buffers["still_out"]
    found = "no buffer is out after a flush"
    if buffers["out_after_flush"] and not rotates:
        found = f"{_plural(buffers['out_after_flush'], 'buffer')} stayed out"
    if rotates:
        found = "a flush takes the next buffer at once"
        if kept:
            found += f"; {_plural(kept, 'buffer')} stayed out after the session"
    yield Finding(
        "rotation",
        "after a flush the library holds no buffer",
        found,
        "a buffer lent in one session may come back in the next; the window sorts its records" if rotates else "none",
        HANDLED if rotates else UNKNOWN if buffers["out_after_flush"] else EXPECTED,
        "rotate_at_flush" if rotates else "",
    )
    odd = buffers["twice_or_unknown"] + buffers["valid_beyond_size"]
    if odd:
        yield Finding(
            "buffers",
            "a buffer comes back once, with no more in it than it holds",
            f"{_plural(buffers['twice_or_unknown'], 'buffer')} came back that was not lent; "
            f"{_plural(buffers['valid_beyond_size'], 'buffer')} came back too full",
            "the plugin counts and leaves them out",
            COSTS,
        )


def _iterator(end: Facts) -> Iterator[Finding]:
    if not end["buffers"]:
        yield Finding("end", "the iterator ends with a code", "no buffer came back", "traces are empty", COSTS)
        return
    known = sorted(int(code) for code in end["codes"])
    clean = end["whole"] == end["buffers"] and end["same_again"] == end["buffers"]
    shown = ", ".join(map(str, known))
    usual = known == [3]
    found = f"code {shown}" if len(known) == 1 else f"codes {shown}"
    found += ", the record is null" if end["null"] == end["buffers"] else ", the record is not null"
    if not clean:
        found += "; a step left the buffer, or a second run differs"
    yield Finding(
        "end",
        "iterating ends with a result that is not success, and begins anew after that",
        found,
        "none" if clean else "records of a buffer may be missing; the trace counts them as invalid",
        COSTS if not clean else EXPECTED if usual else HANDLED,
        "" if usual else f"end_code={known[0]}" if len(known) == 1 else "",
    )


def _sizes(seen: Facts) -> Iterator[Finding]:
    expected, layouts = seen["bytes_expected"], {"memcpy2": "memcpy", "runtime": "api", "driver": "api"}
    for kind, counts in seen["sizes"].items():
        layout = layouts.get(kind, kind)
        built = expected.get(layout)
        found = sorted(int(size) for size in counts)
        shown = " and ".join(f"{size:,}" for size in found) + " bytes"
        if built is None:
            yield Finding(f"size.{kind}", f"records of {kind} are not read", shown, "none", EXPECTED)
            continue
        state, effect, variation = EXPECTED, "none", ""
        if found != [built]:
            state, effect = HANDLED, "what follows the fields that are known is not read"
            if layout == "api" and found == [built + 256]:
                variation = "attributes"
            if layout in ("compute", "memcpy") and found == [built - 40]:
                effect, variation = "traces have no cycle stamps", "short_compute" if layout == "compute" else ""
            elif found[0] < built:
                state, effect = COSTS, "these records are not read; build with the SDK's header (LIBAIUPTI_INSTALL_DIR)"
        yield Finding(f"size.{kind}", f"a record of {kind} has {built} bytes", shown, effect, state, variation)


def _fields(seen: Facts) -> Iterator[Finding]:
    for layout, fields in seen["fields"].items():
        moved = {n: f["found"] for n, f in fields.items() if f["found"] is not None and f["found"] != f["expected"]}
        gone = [n for n, f in fields.items() if f["found"] is None and n != "thread_id"]
        if layout == "api" and _null_threads(seen):
            moved.pop("thread_id", None)
        text = "where they are expected"
        if moved or gone:
            text = ", ".join(f"{n} at byte {at} (expected {fields[n]['expected']})" for n, at in moved.items())
            text += ("; " if moved and gone else "") + (f"not found: {', '.join(gone)}" if gone else "")
        yield Finding(
            f"fields.{layout}",
            f"the fields of {layout} records are where this build expects them",
            text,
            "these fields are read wrongly; build with the SDK's header (LIBAIUPTI_INSTALL_DIR)"
            if moved
            else "what they say may be wrong"
            if gone
            else "none",
            COSTS if moved else UNKNOWN if gone else EXPECTED,
            "api_field_order" if layout == "api" and moved else "",
        )
    names = seen["names"]
    good = names["records"] > 0 and names["readable"] == names["terminated"] == names["records"]
    if names["records"]:
        yield Finding(
            "names",
            "a kernel's name is readable, and ends within its 128 bytes",
            "it is" if good else f"{names['readable']} of {names['records']} are",
            "none" if good else "kernels have wrong names",
            EXPECTED if good else COSTS,
        )


def _null_threads(seen: Facts) -> bool:
    threads = seen["threads"]
    return bool(threads["calls"]) and threads["zero"] + threads["without"] >= MATCHED * threads["calls"]


def _threads(seen: Facts) -> Iterator[Finding]:
    threads = seen["threads"]
    if not threads["calls"]:
        yield Finding(
            "threads", "calls name the thread that made them", "no call was recorded", "no op has work", UNKNOWN
        )
        return
    right = threads["right"] >= MATCHED * threads["calls"]
    null = _null_threads(seen)
    found = f"{threads['right']} of {threads['calls']} do"
    yield Finding(
        "threads",
        "calls name the thread that runs the op",
        "they name none" if null else found,
        "none" if right else "work is joined to ops by time, and only where one thread has an op open",
        EXPECTED if right else COSTS,
        "null_thread_ids" if null else "",
    )


def _correlation(seen: Facts) -> Iterator[Finding]:
    what = {"compute": "launches", "memcpy": "copies", "memset": "fills", "memory": "allocations"}
    for layout, word in what.items():
        joined = seen["correlation"].get(layout)
        if joined is None:
            yield Finding(
                f"correlation.{layout}", f"{word} are recorded", "no record came", "traces have none", UNKNOWN
            )
            continue
        good = joined["of_a_call"] >= MATCHED * joined["records"]
        yield Finding(
            f"correlation.{layout}",
            f"{word} have the correlation id of their call",
            f"{joined['of_a_call']} of {joined['records']} do",
            "none" if good else f"{word} have no arrow and no op",
            EXPECTED if good else COSTS,
        )


def _clocks(clocks: Facts) -> Iterator[Finding]:
    for clock, word, slack in (("host", "calls", 1_000_000), ("device", "device work", 1_000)):
        bounds = clocks[clock]
        if bounds is None:
            yield Finding(f"clock.{clock}", f"times of {word} are the host's", "no times were found", "none", UNKNOWN)
            continue
        least, most = bounds["least_ns"], bounds["most_ns"]
        agrees = least - slack <= 0 <= most + slack
        consistent = least - slack <= most
        found = f"ahead by {_duration(least)} to {_duration(most)}"
        effect = "none"
        if not agrees:
            effect = (
                "the trace brings them onto the host's clock" if clock == "device" else "calls lie beside their ops"
            )
        if not consistent:
            found, effect = "no one offset fits all records", "work is drawn at wrong times"
        yield Finding(
            f"clock.{clock}",
            f"times of {word} are the host's (CLOCK_REALTIME)",
            "they are" if agrees and consistent else found,
            effect,
            EXPECTED if agrees and consistent else HANDLED if consistent and clock == "device" else COSTS,
        )


def _operations(seen: Facts) -> Iterator[Finding]:
    kinds = {int(kind): count for kind, count in seen["operation_kinds"].items()}
    if not kinds:
        return
    prepare, others = kinds.get(1, 0), {k: n for k, n in kinds.items() if k not in (1, 2)}
    yield Finding(
        "prepare",
        "compute records are of execution",
        f"{_plural(prepare, 'record')} of preparation too" if prepare else "they are",
        "shown on request, and never counted as kernels" if prepare else "none",
        HANDLED if prepare else EXPECTED,
        "prepare" if prepare else "",
    )
    if others:
        shown = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(others.items()))
        yield Finding(
            "operations",
            "operation kinds are prepare (1) and execute (2)",
            f"others: {shown}",
            "probably DMI and DMO: shown as copies if the header that this was built with names them",
            HANDLED,
            "dmi_dmo",
        )
    for layout in ("compute", "memcpy"):
        stamps = seen["stamps"].get(layout)
        if stamps and stamps["records"]:
            bits = f", of {stamps['bits']} bits" if stamps["with_stamps"] else ""
            yield Finding(
                f"stamps.{layout}",
                f"cycle stamps of {layout} records may be zero, and wrap at 32 bits",
                f"{stamps['with_stamps']} of {stamps['records']} records have some{bits}",
                "none",
                EXPECTED if stamps["bits"] <= 32 else HANDLED,
            )


def _again(seen: Facts, facts: Facts) -> Iterator[Finding]:
    second = seen["sessions"][1].get("compute", 0)
    whole = second >= seen["launches"]
    yield Finding(
        "again",
        "a second session records what the first one did",
        f"{_plural(second, 'kernel')} of {seen['launches']}",
        "none" if whole else "later sessions of a process lack records",
        EXPECTED if whole else COSTS,
    )
    if seen["filled_from_before"]:
        yield Finding(
            "outlives",
            "a buffer belongs to the session that lent it",
            f"{_plural(seen['filled_from_before'], 'buffer')} lent in one session came back in the next",
            "it belongs to the later session; the window sorts its records",
            HANDLED,
            "rotate_at_flush",
        )


def _order(seen: Facts, facts: Facts) -> Iterator[Finding]:
    swapped, shared = seen["out_of_order"], seen["with_calls_and_kernels"]
    if seen["buffers"] < 3:
        yield Finding("order", "buffers come back in the order in which they were lent", "too few buffers", "", UNKNOWN)
        return
    apart = shared == 0
    found = "they do" if not swapped else f"{_plural(swapped, 'buffer')} of {seen['buffers']} did not"
    yield Finding(
        "order",
        "buffers come back in the order in which they were lent",
        found,
        "none: the plugin knows a buffer by its address",
        HANDLED if swapped else EXPECTED,
    )
    yield Finding(
        "sharing",
        "all threads write to one current buffer",
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
    if came == 0:
        yield Finding(
            "limit", "the library takes buffers between flushes as it needs them", "no record came", "", UNKNOWN
        )
        return
    found = f"at least {_plural(count, 'buffer')}"
    if not whole:
        found = f"{_plural(count, 'buffer')}, then no more: {came:,} of {launches:,} kernels came"
        found += f", {_plural(seen['dropped'][1], 'record')} counted as dropped" if seen["dropped"][1] else ""
    yield Finding(
        "limit",
        "the library takes buffers between flushes as it needs them",
        found,
        "none" if whole else f"a session holds {_plural(count, 'buffer')} of 32 MiB; profile fewer steps at a time",
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
        "nothing is" if not still else f"{_plural(still, 'callback')} came",
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
        found = f"{_plural(first, 'record')}; reading " + ("resets the count" if resets else "leaves the count")
        yield Finding("dropped", name, found, "none", EXPECTED)
    elif missing > 0:
        yield Finding(
            "dropped", name, f"{_plural(missing, 'record')} went missing uncounted", "a loss may go unnoticed", COSTS
        )
    else:
        yield Finding("dropped", name, "nothing could be made to be dropped", "none", UNKNOWN)


Rule = Callable[[Facts, Facts], Iterator[Finding]]
_RULES: tuple[tuple[str, Rule], ...] = (
    ("unopened", _unopened),
    ("cost", _cost),
    ("session", _session),
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
