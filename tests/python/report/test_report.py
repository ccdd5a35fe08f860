"""The report of a trace made by hand, whose every figure is known, and what it says of bad input."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hand_made_work import as_bytes, kernel, launch, slice_

from kineto_spyre.report import NoDeviceWork, make

# Times in us. Launched at 10, 120 and 130: starts 2 after the launch, and 1 after the kernel before.
EVENTS = [
    slice_("cpu_op", "aten::slow", 0, 130, **{"External id": 7}),
    launch(10, 1, 7), kernel(12, 20, 1, 7, "a"),
    launch(120, 2, 7), kernel(122, 50, 2, 7, "b"),
    launch(130, 3, 7), kernel(173, 27, 3, 7, "a"),
    slice_("gpu_memcpy", "Memcpy (HtoD)", 300, 10, 0, 200, device=0, stream=200, bytes=100_000, correlation=9),
]  # fmt: skip


@pytest.fixture
def facts():
    return make(as_bytes(EVENTS)).facts


def test_busy_and_idle_add_up_to_the_window(facts):
    device = facts["devices"][0]
    assert device["busy"] == 107_000
    assert device["busy"] + device["idle"] == facts["window"]["duration"] == 310_000
    assert sum(one["duration"] for one in device["causes"]) == device["idle"]


def test_idle_time_has_its_cause_and_its_op(facts):
    causes = {one["cause"]: one for one in facts["devices"][0]["causes"]}
    # 0 to 10 and 32 to 120; the launching calls of 2 are within the op and deeper than it, but before no launch of 122.
    assert causes["host"]["duration"] == 98_000
    assert causes["host"]["where"][0]["op"] == "aten::slow"
    assert causes["launch latency"]["duration"] == 4_000
    assert causes["queue wait"]["duration"] == 1_000
    assert causes["unknown"]["duration"] == 100_000  # the copy's launch is not in the trace


def test_kernels_and_ops_have_their_sums(facts):
    assert [(one["name"], one["count"], one["total"]) for one in facts["kernels"]] == [
        ("b", 1, 50_000),
        ("a", 2, 47_000),
    ]
    assert facts["ops"][0]["total"] == 97_000 and facts["ops"][0]["host"] == 130_000
    assert facts["copies"][0]["bandwidth"] == pytest.approx(10.0)


def test_the_parts_of_a_step_add_up_to_it():
    marks = [slice_("user_annotation", f"ProfilerStep#{n}", at, 100) for n, at in ((1, 0), (2, 110))]
    steps = make(as_bytes(EVENTS + marks)).facts["steps"]
    assert [one["title"] for one in steps] == ["step 1", "step 2"]
    assert [one["duration"] for one in steps] == [110_000, 200_000]
    for step in steps:
        assert sum(step["parts"].values()) == step["duration"]
    assert steps[0]["bound_by"] == "host" and steps[0]["saving"] == 88_000
    assert "aten::slow" in steps[0]["verdict"]


def test_the_page_asks_for_nothing_and_escapes_names(tmp_path):
    page = tmp_path / "page.html"
    make(as_bytes([*EVENTS, kernel(320, 5, 11, 7, "<script>alert(1)</script>")])).html(page)
    text = page.read_text()
    assert "<script" not in text and "http:" not in text and "https:" not in text and "url(" not in text
    assert "&lt;script&gt;" in text
    with pytest.raises(FileExistsError):
        make(as_bytes(EVENTS)).html(page)


def test_a_trace_without_device_work_says_so():
    with pytest.raises(NoDeviceWork, match="no device work"):
        make(as_bytes(EVENTS[:1]))


def test_a_cut_trace_says_where_it_ends(tmp_path):
    whole = as_bytes(EVENTS)
    assert "problem" in make(whole[:-40]).facts and make(whole[:-40]).facts["problem"]
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: whole.index(b"aiuLaunch")])
    ended = command(path)
    assert ended.returncode == 1 and "what came before" in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_the_verdict_names_the_largest_place_even_outside_any_op():
    late = [launch(5000, 1, 7), kernel(5002, 1, 1, 7), slice_("cpu_op", "aten::short", 0, 1)]
    assert "outside any op" in make(as_bytes(late)).facts["steps"][0]["verdict"]


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "kineto_spyre", "report", *map(str, arguments)],
                          capture_output=True, text=True)  # fmt: skip


@pytest.mark.parametrize(
    "content, code",
    [
        (b"", 2),
        (b"hello", 2),
        (b'{"a": 1}', 2),
        (b'{"nodes": [1, 2], "edges": []}', 2),
        (b"\x1f\x8b\x08", 2),
        (as_bytes(EVENTS[:1]), 1),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, content, code):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    ended = command(path)
    assert ended.returncode == code and ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1 and str(path) in ended.stderr


def test_nothing_is_overwritten_without_force(tmp_path):
    trace, page = tmp_path / "trace.json", tmp_path / "page.html"
    trace.write_bytes(as_bytes(EVENTS))
    page.write_text("mine")
    ended = command(trace, "--html", page)
    assert ended.returncode == 1 and "--force" in ended.stderr and page.read_text() == "mine"
    assert command(trace, "--html", page, "--force").returncode == 0
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(command(trace, "--json").stdout)["schema"] == 1
