"""`kineto-spyre selftest`: what the plugin assumes of libaiupti, asked of the one that is there."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

SUMMARY = "test whether this machine's libaiupti does what the profiler expects"
DESCRIPTION = (
    "Tests libaiupti in a process of its own while PyTorch works on the device. For each thing that the profiler "
    "expects, it reports what the library does and what that means for traces. It takes less than a minute, and keeps "
    "what it found in the cache folder. Exit code: 0 traces lack nothing; 1 traces lack something, or "
    "the program is slower; 2 the "
    "usage was wrong, or there is no library or no device to test."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--emulated", action="store_true", help="test the emulated library on the emulated device")
    parser.add_argument("--library", metavar="PATH", help="the libaiupti to test (default: the one a session opens)")
    parser.add_argument(
        "--report", metavar="FILE", help="write the findings as JSON, without names, paths or addresses of this machine"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON instead of a table")
    parser.add_argument("--no-cache", action="store_true", help="keep no findings in the cache folder")


def run(options: argparse.Namespace) -> int:
    from .._notices import SpyreProfilerError
    from ..selftest import cache, report, selftest

    if options.library is not None and not pathlib.Path(options.library).is_file():
        print(f"kineto-spyre selftest: --library names {options.library!r}, which is not a file.", file=sys.stderr)
        return 2
    watched = sys.stderr.isatty()

    def progress(step: str) -> None:
        if watched:
            print(f"\r\x1b[Kselftest: {step}", end="", file=sys.stderr, flush=True)

    try:
        outcome = selftest(options.library, options.emulated, progress)
    except SpyreProfilerError as error:
        print(f"kineto-spyre selftest: {error}", file=sys.stderr)
        return 2
    finally:
        if watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    document = report.document(outcome)
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        report.print_table(outcome, sys.stdout)
    for probe, trouble in outcome.result.troubles.items():
        print(f"kineto-spyre selftest: the probe {probe} failed ({trouble}).", file=sys.stderr)
    if options.report is not None:
        try:
            pathlib.Path(options.report).write_text(json.dumps(document, indent=1) + "\n")
        except OSError as error:
            print(f"kineto-spyre selftest: {options.report} can't be written ({error.strerror}).", file=sys.stderr)
            return 2
    if not options.no_cache and (unkept := cache.keep(outcome)):
        print(f"kineto-spyre selftest: {unkept}", file=sys.stderr)
    return 0 if outcome.sound else 1
