#!/usr/bin/env python3
"""Takes the pictures of docs/viewers: a trace in each viewer, in headless Chromium and without internet.

    tools/screenshots.py LOGDIR FOLDER     pictures of the log directory's newest trace, into the folder

Each viewer is started by the command that its page names. XProf's picture is left out where XProf is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

sys.path.append(str(pathlib.Path(__file__).parent))  # make sets PYTHONSAFEPATH

import screenshot


def kineto_spyre(*arguments: str | pathlib.Path) -> list[str]:
    return [sys.executable, "-P", "-m", "kineto_spyre", *map(str, arguments)]


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """The first line that the command prints, while it runs."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def perfetto(trace: pathlib.Path, folder: pathlib.Path) -> None:
    """The tracks of the card, pinned at the top."""
    command = kineto_spyre("view", "--tracks", "--no-browser", trace)
    with running(command) as address, screenshot.Viewer(1500, 700) as viewer:
        page = viewer.page
        page.goto(address)
        page.wait_for_function("() => globalThis.app && app.trace && app.trace.workspace.pinnedTracks.length > 0")
        page.wait_for_timeout(4000)
        page.screenshot(path=folder / "perfetto.png")


def tensorboard(log_directory: pathlib.Path, folder: pathlib.Path) -> None:
    """Our page in TensorBoard."""
    with screenshot.TensorBoard(log_directory) as board, screenshot.Viewer(1500, 900) as viewer:
        viewer.page.goto(f"{board.url}/#spyre_report")
        report = viewer.page.frame_locator("iframe").first.frame_locator("iframe")
        report.get_by_role("heading", name="Verdict").wait_for()
        viewer.page.wait_for_timeout(1000)
        viewer.page.screenshot(path=folder / "tensorboard_report.png")


def xprof(trace: pathlib.Path, folder: pathlib.Path) -> None:
    """XProf's Trace Viewer in TensorBoard."""
    with tempfile.TemporaryDirectory() as made:
        copy = pathlib.Path(made, "demo.pt.trace.json")
        shutil.copy(trace, copy)
        subprocess.run(kineto_spyre("export", copy, "--xplane"), check=True)
        with screenshot.TensorBoard(made) as board, screenshot.Viewer(1500, 700) as viewer:
            viewer.page.goto(f"{board.url}/?run=demo&tag=trace_viewer@&host=demo#profile")
            viewer.page.frame_locator("iframe").first.get_by_text("Trace Viewer").first.wait_for()
            viewer.page.wait_for_timeout(15000)
            viewer.page.screenshot(path=folder / "xprof.png")


def main() -> int:
    parser = argparse.ArgumentParser(description="A log directory's newest trace in each viewer, as pictures.")
    parser.add_argument("logdir", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    traces = sorted(options.logdir.glob("*.pt.trace.json"), key=lambda path: path.stat().st_mtime)
    if not traces:
        hint = f"run kineto-spyre demo --out {options.logdir}"
        print(f"screenshots: {options.logdir} holds no trace; {hint}", file=sys.stderr)
        return 1
    try:
        perfetto(traces[-1], options.folder)
        tensorboard(options.logdir, options.folder)
        if importlib.util.find_spec("xprof"):
            xprof(traces[-1], options.folder)
        else:
            print("screenshots: XProf is missing (pip install xprof); its picture stays as it is", file=sys.stderr)
    except (screenshot.Missing, RuntimeError) as error:
        print(f"screenshots: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
