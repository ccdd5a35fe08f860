"""The rules for the probe `session`: what a session as the plugin runs it (flush, disable, flush) delivered.

One function for what is asked together: codes, flush, iterator, sizes, fields, threads, correlation, clocks,
operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from .finding import COSTS, EXPECTED, HANDLED, MATCHED, UNKNOWN, Facts, Finding, duration, plural

LATE_FLUSH_NS = 5_000_000_000  # KINETO_SPYRE_FLUSH_TIMEOUT_MS by default


def session(seen: Facts, facts: Facts) -> Iterator[Finding]:
    yield from _codes_of_session(seen["codes"])
    yield from _flush(seen)
    yield from _iterator(seen["end"])
    yield from _sizes(seen)
    yield from _fields(seen)
    yield from _process(seen)
    yield from _threads(seen)
    yield from _correlation(seen)
    yield from _clocks(seen["clocks"])
    yield from _queued(seen["queued"])
    yield from _waits(seen["waits"], seen["clocks"])
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
    found = f"it took {duration(seen['flush_ns'])}"
    found += f", and {plural(late, 'buffer')} came after it" if late else ", and no buffer came after it"
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
        found = f"{plural(buffers['out_after_flush'], 'buffer')} stayed out"
    if rotates:
        found = "a flush takes the next buffer at once"
        if kept:
            found += f"; {plural(kept, 'buffer')} stayed out after the session"
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
            f"{plural(buffers['twice_or_unknown'], 'buffer')} came back that was not lent; "
            f"{plural(buffers['valid_beyond_size'], 'buffer')} came back too full",
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
        "iterating ends with a result that is not success, and starts at the first record after that",
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
            elif layout == "compute" and found == [built + 24]:
                variation = "collectives"
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
        if layout == "api" and not moved and _other_process(seen):
            gone.remove("process_id")  # it has a finding of its own
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


def _other_process(seen: Facts) -> bool:
    """Whether all calls name one and the same process, and it is another one."""
    process = seen["process"]
    return bool(process["calls"]) and process["own"] == 0 and process["distinct"] == 1


def _in_place(seen: Facts) -> bool:
    """Whether the fields of calls are where they are expected, whatever the ids of process and thread say."""
    fields = seen["fields"].get("api", {})
    found = [f for name, f in fields.items() if name not in ("process_id", "thread_id")]
    return bool(found) and all(f["found"] == f["expected"] for f in found)


def _process(seen: Facts) -> Iterator[Finding]:
    process = seen["process"]
    if not process["calls"] or not _in_place(seen):
        return
    right = process["own"] == process["calls"]
    other = _other_process(seen)
    found, effect, state, variation = "they do", "none", EXPECTED if right else COSTS, ""
    if other and process["existing"]:
        found, variation = "all name one other process, which exists here", "other_process"
        effect = "calls that name another process are left out, with what they launched"
    elif other:
        state, variation = HANDLED, "other_namespace"
        found = "all name one other process, as from another pid namespace"
        effect = "a session takes that id as this process's, unless a process here has it"
    elif not right:
        found = f"{process['own']} of {process['calls']} do"
        effect = "calls that name another process are left out, with what they launched"
    yield Finding("process", "calls name the process that made them", found, effect, state, variation)


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
        "null_thread_ids" if null else "wrong_thread_ids" if _wrong_threads(seen) else "",
    )


def _wrong_threads(seen: Facts) -> bool:
    threads = seen["threads"]
    return threads["right"] == 0 and _in_place(seen) and not _other_process(seen)


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
        found = f"ahead by {duration(least)} to {duration(most)}"
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


def _queued(queued: Facts) -> Iterator[Finding]:
    if not queued["records"]:
        return
    right = queued["of_the_host"] >= MATCHED * queued["records"]
    yield Finding(
        "clock.queued",
        "the time at which work was queued is the host's",
        "it is" if right else f"{queued['of_the_host']} of {queued['records']} are",
        "none" if right else "a kernel whose launch is not recorded belongs to the session in which it began",
        EXPECTED if right else HANDLED,
    )


def _waits(waits: Facts, clocks: Facts) -> Iterator[Finding]:
    device = clocks["device"]
    if device is None or not device["least_ns"] - 1_000 <= 0 <= device["most_ns"] + 1_000:
        return  # what a wait waited for is not to be seen on another clock
    name = "aiuScheduleWait returns once the work before it has ended"
    if not waits["waits"]:
        yield Finding("waits", name, "no such call was found", "none: only work and its launch are compared", UNKNOWN)
        return
    early = waits["early"]
    yield Finding(
        "waits",
        name,
        "it does" if not early else f"{early} of {waits['waits']} returned before",
        "none" if not early else "device work may be drawn too early; set KINETO_SPYRE_CLOCK_ALIGN=off",
        COSTS if early else EXPECTED,
    )


def _operations(seen: Facts) -> Iterator[Finding]:
    kinds = {int(kind): count for kind, count in seen["operation_kinds"].items()}
    if not kinds:
        return
    prepare, others = kinds.get(1, 0), {k: n for k, n in kinds.items() if k not in (1, 2)}
    yield Finding(
        "prepare",
        "compute records are of execution",
        f"{plural(prepare, 'record')} of preparation too" if prepare else "they are",
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
