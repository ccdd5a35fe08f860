"""A report as text: with rich on a terminal, plain elsewhere or without rich. In: facts. Out: printed lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from kineto_spyre.report import acelyzer, bandwidth, energy, hta, layers, origins, phases, utilization
from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration, size


def sections(facts: dict[str, Any], top: int = 10) -> Iterator[Section]:
    """What is shown, in order; the HTML page shows the same."""
    notes = [f"The trace {facts['problem']}. The report is of what came before."] if facts["problem"] else []
    if facts["remark"]:
        notes.append(f"The trace {facts['remark']}")
    if facts["steps"] and facts["steps"][0]["title"] == "the whole trace":
        notes.append("The trace has no ProfilerStep ranges, so the whole of it counts as one step.")
    shown = sorted(facts["steps"], key=lambda one: -one["duration"])[:top]
    yield Section("Verdict", notes + [f"{_titled(one['title'])}: {one['verdict']}" for one in shown])
    if facts["outliers"]:
        yield Section("Steps that stand out", [one["sentence"] for one in facts["outliers"][:top]])
    whole = facts["window"]["duration"]
    for device in facts["devices"]:
        yield Section(
            f"Device {device['device']}",
            [f"Busy {_of(device['busy'], whole)}, idle {_of(device['idle'], whole)} of {duration(whole)}."]
            + ([f"Work on several tracks overlapped for {duration(device['overlap'])}."] if device["overlap"] else []),
            ("track", "pieces of work", "busy", "idle"),
            [(one["stream"], f"{one['pieces']:,}", _of(one["busy"], whole), _of(one["idle"], whole))
             for one in device["streams"]],
        )  # fmt: skip
        yield Section(
            f"Why device {device['device']} was idle", [], ("cause", "time", "of idle", "most of it in"),
            [(one["cause"], duration(one["duration"]), f"{one['duration'] / max(device['idle'], 1):.1%}", place(one))
             for one in device["causes"]],
        )  # fmt: skip
    yield from _named(facts, top)
    yield from utilization.sections(facts, top)
    names = {"launch_call": "the launching call", "launch_latency": "launch to start, track free",
             "queue_wait": "launch to start, track busy",
             "after_predecessor": "end of work before to start"}  # fmt: skip
    rows = [(names[key], f"{one['count']:,}", *(duration(one[mark]) for mark in ("p50", "p90", "p99", "largest")))
            for key, one in facts["waits"].items() if one["count"]]  # fmt: skip
    if rows:
        yield Section("Launches", [], ("wait", "count", "p50", "p90", "p99", "largest"), rows)
    yield from _copies(facts)
    for one in facts["memory"]:
        yield _memory(one, top)
    yield from bandwidth.sections(facts, top)
    yield from origins.sections(facts, top)
    yield from phases.sections(facts, top)
    yield from layers.sections(facts, top)
    yield from energy.sections(facts, top)
    yield from acelyzer.sections(facts, top)
    yield from hta.sections(facts)


def _named(facts: dict[str, Any], top: int) -> Iterator[Section]:
    for title, key in (("Kernels", "kernels"), ("Ops, by device time", "ops")):
        if rows := [one for one in facts[key] if one["total"]][:top]:
            heads: tuple[str, ...] = ("name", "count", "total", "mean", "spread", "share")
            yield Section(title, [], (*heads, "bound by") if key == "kernels" else heads, [
                (one["name"], f"{one['count']:,}", duration(one["total"]), duration(one["mean"]),
                 duration(one["spread"]), f"{one['share']:.1%}", *([one["bound"]] if key == "kernels" else []))
                for one in rows])  # fmt: skip
    if shapes := facts["shapes"][:top]:
        yield Section("Kernels by shape", [], ("name", "shape", "count", "total", "mean", "spread"), [
            (one["name"], one["shape"], f"{one['count']:,}", duration(one["total"]), duration(one["mean"]),
             duration(one["spread"])) for one in shapes])  # fmt: skip


def _copies(facts: dict[str, Any]) -> Iterator[Section]:
    link = facts["link"]
    told = [f"The link's rate is taken to be {link['rate']:.3g} GB/s ({link['source']})."] if link else []
    if facts["copies"]:
        yield Section("Copies", told, ("name", "count", "bytes", "total", "GB/s", "best GB/s", "of the link"), [
            (one["name"], f"{one['count']:,}", f"{one['bytes']:,}", duration(one["total"]),
             f"{one['bandwidth']:.3g}", f"{one['best']:.3g}",
             "" if one["of_link"] is None else f"{one['of_link']:.0%}") for one in facts["copies"]])  # fmt: skip


def _memory(one: dict[str, Any], top: int) -> Section:
    peak = one["peak"]
    sentences = [f"At the peak {size(peak['allocated'])} were allocated."]
    if one["before"]:
        sentences.append(f"Of that, {size(one['before'])} were allocated before the trace began.")
    columns = ("alive at the peak, by op", "module", "range", "bytes", "blocks")
    return Section(f"Memory of {one['device']}", sentences, columns, [
        (alive["op"] or "no op", alive["module"], alive["range"], size(alive["bytes"]), f"{alive['count']:,}")
        for alive in one["alive"][:top]])  # fmt: skip


def place(cause: dict[str, Any]) -> str:
    """Where the host was for the longest part of it."""
    if not cause["where"]:
        return ""
    one = cause["where"][0]
    name = one["op"] or ("outside any op" if not one["range"] else f"range {one['range']}")
    return f"{name} ({duration(one['duration'])})"


def _titled(title: str) -> str:
    return title[:1].upper() + title[1:]


def _of(part: int, whole: int) -> str:
    return f"{duration(part)} ({part / max(whole, 1):.1%})"


def show(found: Iterator[Section]) -> None:
    """Prints sections."""
    if sys.stdout.isatty():
        try:
            _rich(found)
            return
        except ImportError:
            pass
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in plain(found):
        print(line.encode(encoding, "backslashreplace").decode(encoding))


def _rich(found: Iterator[Section]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for section in found:
        console.print(Text(section.title, style="bold"))
        for sentence in section.sentences:
            console.print(Text(sentence))
        if section.rows:
            table = Table(box=None, header_style="dim")
            for number, column in enumerate(section.columns):
                table.add_column(column, justify="right" if number else "left", overflow="fold")
            for row in section.rows:
                table.add_row(*(Text(printable(cell)) for cell in row))
            console.print(table)
        console.print()


def printable(text: str) -> str:
    """Without what would move a terminal's cursor."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def plain(found: Iterator[Section]) -> Iterator[str]:
    """Lines of text."""
    for section in found:
        yield section.title
        yield "-" * len(section.title)
        yield from map(printable, section.sentences)
        rows = [section.columns, *(tuple(map(printable, row)) for row in section.rows)] if section.rows else []
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            cells = [cell.rjust(width) if place else cell.ljust(width)
                     for place, (cell, width) in enumerate(zip(row, widths))]  # fmt: skip
            yield "  ".join(cells).rstrip()
        yield ""
