"""What a user sees in TensorBoard, in headless Chromium without internet."""

from __future__ import annotations


def test_trace_view_shows_kernels_on_a_row_of_aiu_0(viewer, tensorboard, trace):
    viewer.open(tensorboard.url, tensorboard.runs[0], "Trace")
    model = viewer.trace_frame().evaluate(viewer.MODEL)
    (aiu,) = (process for process in model["processes"] if process["labels"] == ["AIU 0"])
    shown = [slice_ for thread in aiu["threads"] for slice_ in thread["slices"]]
    assert all(thread["name"] for thread in aiu["threads"])
    expected = [event for event in trace.kernels if event["pid"] == 0]
    assert expected and sum(name in {event["name"] for event in expected} for name in shown) == len(expected)
    assert model["flows"] >= len(trace.work)
    assert model["warnings"] == [] and viewer.errors == []
    assert viewer.refused == [], "a page asked for something that only the internet has"


def test_kernel_view_has_a_row_for_the_longest_kernel(viewer, tensorboard, trace):
    view = viewer.open(tensorboard.url, tensorboard.runs[0], "GPU Kernel")
    name, (count, _) = max(trace.by_name(trace.kernels).items(), key=lambda item: item[1][1])
    row = view.get_by_role("row").filter(has_text=name).first
    row.wait_for()
    assert str(count) in row.inner_text().split()
    assert viewer.errors == [] and viewer.refused == []


def test_overview_shows_the_card_and_the_steps(viewer, tensorboard, trace):
    view = viewer.open(tensorboard.url, tensorboard.runs[0], "Overview")
    view.get_by_text("GPU Summary").first.wait_for()
    text = view.locator("body").inner_text()
    assert trace.document["deviceProperties"][0]["name"] in text
    assert "Step Time Breakdown" in text
    assert viewer.errors == [] and viewer.refused == []
