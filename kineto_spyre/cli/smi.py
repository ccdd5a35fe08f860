"""`kineto-spyre smi`: power, temperature and traffic of each card, live, in aiu-smi's columns."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..telemetry.smi_columns import Column, Interval

SUMMARY = "show power, temperature and traffic of each card, live, in aiu-smi's columns"
DESCRIPTION = (
    "Reads the metrics file of each card about every 10 ms and shows one line a card and interval: as a live table on "
    "a terminal, else as aiu-smi's text. Real and emulated cards. The columns pt_act, peakmem and actmem are not "
    "captured correctly by today's software. Exit code: 0 it was shown; 1 there is no metrics file; 2 the usage was "
    "wrong; 130 Ctrl-C."
)
_POLL = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="metrics files (default: found as aiu-smi finds them)")
    parser.add_argument("-s", "--csv", action="store_true", help="lines exactly as aiu-smi --csv prints them")
    parser.add_argument("-t", "--text", action="store_true", help="lines as aiu-smi prints them, also on a terminal")
    parser.add_argument("-d", "--delay", type=float, default=1.0, metavar="SECONDS", help="interval (default: 1)")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="end after N intervals")
    parser.add_argument(
        "-g", "--metric-groups", default="DP", metavar="GROUPS",
        help="D data rates, U memory use, P pt_act, A all (default: DP)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from ..telemetry import find_files, smi_columns

    try:
        columns = smi_columns.chosen(options.metric_groups)
    except ValueError as error:
        return _say(f"{error}.", 2)
    if not 0.01 <= options.delay <= 3600:
        return _say(f"the delay {options.delay:g} is not from 0.01 to 3600 seconds.", 2)
    files = options.files or find_files()
    if not files:
        return _say(
            "no metrics file was found. Name one, or set AIUSMI_METRIC_FILE; an emulated Spyre writes one after "
            "kineto_spyre.emulator.enable(metrics=True).",
            1,
        )
    live = sys.stdout.isatty() and not options.csv and not options.text
    if live:
        try:
            from rich.live import Live
        except ImportError:
            live = False
    if live:
        with Live(auto_refresh=False) as screen:
            _watch(
                files, columns, options, lambda when, lines: screen.update(_table(columns, when, lines), refresh=True)
            )
        return 0
    for text in [*smi_columns.files(files, options.csv), *smi_columns.heading(columns, options.csv)]:
        print(text, flush=True)

    def show(when: datetime.datetime, lines: list[tuple[Any, dict[str, float]]]) -> None:
        for card, (values, host) in enumerate(lines):
            print(smi_columns.line(card, when, columns, values, host, options.csv), flush=True)

    _watch(files, columns, options, show)
    return 0


def _say(sentence: str, code: int) -> int:
    print(f"kineto-spyre smi: {sentence}", file=sys.stderr)
    return code


def _watch(
    files: list[str],
    columns: list[Column],
    options: argparse.Namespace,
    show: Callable[[datetime.datetime, list[tuple[Any, dict[str, float]]]], None],
) -> None:
    """Reads, and shows each interval, until the count is reached."""
    from ..telemetry import MetricsFile
    from ..telemetry.smi_columns import Host, Interval

    readers = [MetricsFile(path) for path in files]
    intervals = [Interval() for _ in files]
    host = Host()
    last = time.monotonic()
    due = last + options.delay
    left = options.count
    while left is None or left > 0:
        now = time.monotonic()
        for reader, interval in zip(readers, intervals):
            _read(reader, interval, now - last)
        last = now
        if now >= due:
            use = host.read()
            show(datetime.datetime.now(), [(one.close(card), use) for card, one in enumerate(intervals)])
            due = max(due + options.delay, now)
            left = None if left is None else left - 1
        time.sleep(_POLL)


def _read(reader: Any, interval: Interval, seconds: float) -> None:
    from ..telemetry import MetricsError
    from ..telemetry.sampler import STALE_NS

    try:
        sample = reader.read()
    except MetricsError as error:
        if not error.torn:
            interval.put(None, seconds)
        return
    interval.put(sample.values if time.time_ns() - sample.time_ns < STALE_NS else None, seconds)


def _table(columns: list[Column], when: datetime.datetime, lines: list[tuple[Any, dict[str, float]]]) -> Any:
    from rich.table import Table

    from ..telemetry.smi_columns import CAVEATS, rounded

    notes = [CAVEATS[one.name] for one in columns if one.name in CAVEATS]
    table = Table(title=f"{when:%Y-%m-%d %H:%M:%S}", caption=" ".join(notes) or None, box=None)
    table.add_column("ID", justify="right")
    for one in columns:
        table.add_column(f"{one.name}\n{one.unit}", justify="right")
    for card, (values, host) in enumerate(lines):
        sources = [host if one.group == "h" else values for one in columns]
        table.add_row(str(card), *(
            "-" if source is None else f"{rounded(source.get(one.name, 0.0), one.decimals):.{one.decimals}f}"
            for one, source in zip(columns, sources)))  # fmt: skip
    return table
