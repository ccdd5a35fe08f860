"""Perfetto's own parser, from Debian's chromium-shell (tests/viewers/perfetto.py)."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections import Counter

import pytest

SCRIPT = pathlib.Path(__file__).parent / "perfetto.py"
LIBRARY = "/usr/lib/chromium/libtest_trace_processor.so"


@pytest.fixture(scope="module")
def ask(trace_path, missing):
    """Rows of one query, as dicts."""
    if not os.path.exists(LIBRARY):
        missing("Perfetto's parser is not here (apt-get install chromium-shell)")

    def ask(sql):
        command = [sys.executable, str(SCRIPT), str(trace_path)]
        done = subprocess.run(command, input=json.dumps([sql]), capture_output=True, text=True, check=True)
        ((names, *rows),) = json.loads(done.stdout)
        return [dict(zip(names, row)) for row in rows]

    return ask


def test_each_row_is_one_track_with_all_its_slices(ask, trace):
    shown = ask(
        "select p.pid, t.tid, tt.id track, t.name, count(*) n from slice s join thread_track tt on s.track_id = tt.id"
        " join thread t using (utid) join process p using (upid) where s.category in"
        " ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation') group by tt.id"
    )
    device = trace.of("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
    rows = Counter((str(event["pid"]), str(event["tid"])) for event in device)
    assert len(shown) == len(rows), "a row was spilt over several tracks: its slices overlap"
    assert {(row["pid"], row["tid"]): int(row["n"]) for row in shown} == rows
    assert all(row["name"] not in ("", "[NULL]") for row in shown)


def test_each_piece_of_device_work_has_one_arrow_from_its_launch(ask, trace):
    joined = ask(
        "select work.category, count(*) n, count(distinct work.id) works from flow"
        " join slice work on flow.slice_in = work.id join slice launch on flow.slice_out = launch.id"
        " where launch.category in ('privateuse1_runtime', 'privateuse1_driver') group by 1"
    )
    for row in joined:
        count = len([e for e in trace.of(row["category"]) if not e["name"].startswith("Memory (")])
        assert (int(row["n"]), int(row["works"])) == (count, count)
    assert {row["category"] for row in joined} == {event["cat"] for event in trace.work}


def test_times_are_the_traces_to_the_nanosecond(ask, trace):
    (shown,) = ask("select count(*) n, sum(dur) ns from slice where category = 'kernel'")
    assert int(shown["n"]) == len(trace.kernels)
    assert int(shown["ns"]) == sum(round(event["dur"] * 1000) for event in trace.kernels)


def test_no_import_error(ask, trace):
    errors = ask("select name, severity, value from stats where value != 0 and severity != 'info'")
    if trace.of("python_function"):  # PyTorch guesses where some Python frames end, and they cross others
        errors = [error for error in errors if error["name"] != "slice_spill_overlapping_complete_event"]
    assert errors == []
