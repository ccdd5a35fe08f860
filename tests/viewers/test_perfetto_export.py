"""`kineto-spyre export --perfetto`: Perfetto's parser finds in it what it finds in the JSON, at a fifth of the size."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections import Counter

import pytest

HERE = pathlib.Path(__file__).parent
LIBRARY = "/usr/lib/chromium/libtest_trace_processor.so"
SLICES = "select category, name, ts, dur from slice where category not in ('[NULL]', 'cpu_instant_event')"
FLOWS = (
    "select a.name, a.ts, a.dur, b.name, b.ts, b.dur from flow"
    " join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id"
)
ERRORS = "select name, value from stats where value != 0 and severity != 'info'"
ARGUMENTS = (
    "select slice.name, slice.ts, replace(replace(key, 'debug.', ''), 'args.', ''), display_value from slice"
    " join args using (arg_set_id) where category in ('kernel', 'gpu_memcpy') and replace(replace(key, 'debug.', ''),"
    " 'args.', '') in ('correlation', 'External id', 'stream', 'device', 'bytes')"
)
CARD = (
    "select row.name, count(*) from slice join track row on slice.track_id = row.id"
    " join track card on row.parent_id = card.id where card.name = 'AIU 0' group by row.id"
)
COUNTERS = (
    "select track.name, counter.ts, cast(counter.value as int) from counter join track on counter.track_id = track.id"
)


def rows_of(path, *queries):
    """The rows of each query."""
    command = [sys.executable, str(HERE / "perfetto.py"), str(path)]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[tuple(row) for row in rows[1:]] for rows in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def exported(trace_path, tmp_path_factory, missing):
    if not os.path.exists(LIBRARY):
        missing("Perfetto's parser is not here (apt-get install chromium-shell)")
    path = tmp_path_factory.mktemp("perfetto") / "trace.pftrace"
    command = [sys.executable, "-P", "-m", "kineto_spyre", "export", str(trace_path), "--perfetto", "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "needs the package perfetto" in done.stderr:
        missing("the package perfetto is not installed")
    assert (done.returncode, done.stderr) == (0, "")
    return path


def test_it_is_at_least_five_times_smaller(exported, trace_path):
    assert exported.stat().st_size * 5 <= trace_path.stat().st_size


def test_it_has_the_same_slices_at_the_same_times(exported, trace_path, trace):
    (ours,), (json_s,) = rows_of(exported, SLICES), rows_of(trace_path, SLICES)
    assert len(ours) == len(trace.slices)
    if trace.of("python_function"):  # of these the import of JSON drops some, where they cross
        ours, json_s = ([row for row in rows if row[0] != "python_function"] for rows in (ours, json_s))
    assert Counter(ours) == Counter(json_s)


def test_it_has_the_same_arrows_between_the_same_slices(exported, trace_path, trace):
    (ours,), (json_s,) = rows_of(exported, FLOWS), rows_of(trace_path, FLOWS)
    assert Counter(ours) == Counter(json_s)
    assert len(ours) >= len(trace.work)


def test_its_device_work_has_the_same_arguments(exported, trace_path):
    (ours,), (json_s,) = rows_of(exported, ARGUMENTS), rows_of(trace_path, ARGUMENTS)
    assert Counter(ours) == Counter(json_s)
    assert len(ours) > 0


def test_the_card_is_a_group_with_a_track_a_row(exported, trace):
    (shown,) = rows_of(exported, CARD)
    rows = Counter(event["tid"] for event in trace.of("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"))
    assert sorted(int(count) for _, count in shown) == sorted(rows.values())
    assert all(name not in ("", "[NULL]") for name, _ in shown)


def test_the_memory_of_the_card_is_a_curve(exported, trace):
    calls = [e for e in trace.events if e["name"] == "[memory]" and e["args"]["Device Type"] == 20]
    if not calls:
        pytest.skip("this trace was made without profile_memory")
    (rows,) = rows_of(exported, COUNTERS)
    curve = Counter((int(ts), int(value)) for name, ts, value in rows if name == "AIU 0 allocated")
    assert curve == Counter((round(e["ts"] * 1000), e["args"]["Total Allocated"]) for e in calls)


def test_no_import_error(exported):
    assert rows_of(exported, ERRORS) == [[]]
