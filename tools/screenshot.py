#!/usr/bin/env python3
"""Looks at a trace the way a user does, in headless Chromium and without internet; and takes the README's picture.

    tools/screenshot.py LOGDIR PICTURE.png     TensorBoard's Trace view of the log directory's newest run

`Viewer` is what the tests in tests/viewers drive too. It needs Debian's `chromium`, PyPI's `playwright` (its driver
only: no browser is downloaded), `torch-tb-profiler`, `tensorboard`, and npm for one script. The pages of
torch-tb-profiler load two scripts from elsewhere: a polyfill, which npm brings once (webcomponents.js 0.7.24), and
Google's charts, in whose place tools/screenshot_charts.js writes tables. Every other request that leaves this machine
is refused and remembered.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
CHROMIUM = "/usr/bin/chromium"
POLYFILL = "webcomponents.js@0.7.24"


class Missing(Exception):
    """A tool that is not here; the message says which, and how to get it."""


def cache() -> pathlib.Path:
    """Where fetched tools are kept: KINETO_SPYRE_VIEWERS_CACHE, or build/viewers of the checkout."""
    where = pathlib.Path(os.environ.get("KINETO_SPYRE_VIEWERS_CACHE") or HERE.parent / "build" / "viewers")
    where.mkdir(parents=True, exist_ok=True)
    return where


def polyfill() -> pathlib.Path:
    """The script webcomponents.min.js, fetched by npm the first time."""
    folder = cache() / "npm"
    script = folder / "node_modules" / "webcomponents.js" / "webcomponents.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if not npm:
            raise Missing("npm is not here; it brings a script that TensorBoard's Trace view needs")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), POLYFILL]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not script.exists():
            raise Missing(f"npm could not bring {POLYFILL}: {done.stderr.strip()[-300:]}")
    return script


def static_pages() -> pathlib.Path:
    """The folder of torch-tb-profiler's own pages."""
    found = importlib.util.find_spec("torch_tb_profiler")
    if not found or not found.origin:
        raise Missing("torch-tb-profiler is not installed")
    return pathlib.Path(found.origin).parent / "static"


class TensorBoard:
    """A TensorBoard on a log directory, at `url`, once it has parsed every run. `stock`: without kineto-spyre's."""

    STOCK = (
        "import tensorboard.default as plugins; every = plugins._iter_entry_points;"
        "plugins._iter_entry_points = lambda group: (e for e in every(group) if e.name != 'kineto_spyre');"
        "from tensorboard.main import run_main; run_main()"
    )

    def __init__(self, logdir: pathlib.Path | str, timeout: float = 180, stock: bool = False) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile("w+")
        command = [sys.executable, *(["-c", self.STOCK] if stock else ["-m", "tensorboard.main"])]
        command += ["--logdir", str(logdir), "--port", str(port), "--host", "127.0.0.1", "--load_fast=false"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + timeout
        while True:
            try:
                runs = self.json("runs")
                if runs["runs"] and not runs["loading"]:
                    self.runs: list[str] = runs["runs"]
                    return
            except OSError:
                pass
            if self._process.poll() is not None or time.monotonic() > end:
                self.close()
                raise RuntimeError(f"TensorBoard showed no run of {logdir}:\n{self.log()}")
            time.sleep(0.3)

    def log(self) -> str:
        """What it printed so far."""
        self._log.seek(0)
        return self._log.read()

    def get(self, page: str, **query: str) -> tuple[int, bytes]:
        """HTTP status and body of one of the plugin's pages."""
        address = f"{self.url}/data/plugin/pytorch_profiler/{page}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                body = answer.read()
                if answer.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                return answer.status, body
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def json(self, page: str, **query: str) -> Any:
        status, body = self.get(page, **query)
        if status != 200:
            raise RuntimeError(f"{page} answered {status}: {body[:300]!r}")
        return json.loads(body)

    def profile(self) -> dict[str, str]:
        """What the pages of a log directory with one profile are asked with: run, worker, span."""
        (run,) = self.runs
        worker = self.json("workers", run=run, view="Overview")[0]
        spans = self.json("spans", run=run, worker=worker)
        return {"run": run, "worker": worker, "span": spans[0] if spans else "default"}

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Viewer:
    """Headless Chromium without internet. `refused` lists the requests that left this machine and got no answer."""

    # What is asked of a loaded trace view (the code of chrome://tracing).
    MODEL = """() => {
      const model = document.querySelector('tr-ui-timeline-view').model;
      const processes = Object.values(model.processes).map(process => ({
        pid: process.pid, name: process.userFriendlyName, labels: process.labels,
        threads: Object.values(process.threads).map(thread => ({
          tid: thread.tid, name: thread.name, slices: thread.sliceGroup.slices.map(slice => slice.title)})),
        counters: Object.keys(process.counters)}));
      const warnings = model.importWarnings.map(warning => warning.message || String(warning));
      return {processes, flows: model.flowEvents.length, warnings};
    }"""
    LOADED = """() => { const view = document.querySelector('tr-ui-timeline-view');
      return view && view.model && Object.keys(view.model.processes).length > 0; }"""

    def __init__(self, width: int = 1600, height: int = 1000, scale: float = 1) -> None:
        if not os.path.exists(CHROMIUM):
            raise Missing("Debian's chromium is not here (apt-get install chromium)")
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            raise Missing("PyPI's playwright is not installed") from None
        self._polyfill, self._charts, self._static = polyfill(), HERE / "screenshot_charts.js", static_pages()
        self.refused: list[str] = []
        self.errors: list[str] = []
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
        )
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, device_scale_factor=scale, service_workers="block"
        )
        context.route("**/*", self._answer)
        context.set_default_timeout(90_000)  # for busy machines; milliseconds
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)[:300]))

    def _answer(self, route: Any) -> None:
        address = urllib.parse.urlsplit(route.request.url)
        if address.hostname == "127.0.0.1":
            route.continue_()
        elif "webcomponents" in address.path:
            route.fulfill(content_type="text/javascript", path=self._polyfill)
        elif address.path.endswith("/charts/loader.js"):
            route.fulfill(content_type="text/javascript", path=self._charts)
        elif address.hostname == "catapult.test" and (self._static / address.path.lstrip("/")).is_file():
            route.fulfill(content_type="text/html", path=self._static / address.path.lstrip("/"))
        else:
            self.refused.append(route.request.url)
            route.abort()

    def catapult(self, trace: pathlib.Path) -> dict[str, Any]:
        """The trace in catapult alone, with no TensorBoard: the viewer's model of it."""
        # The page tells its parent that it is ready; here it is its own parent, and would take that for a trace.
        self.page.add_init_script(
            "window.addEventListener('message', event => {"
            " if (event.data && event.data.msg === 'ready') event.stopImmediatePropagation(); }, true);"
        )
        self.page.goto("http://catapult.test/trace_embedding.html")
        self.page.wait_for_function("() => document.querySelector('tr-ui-timeline-view')")
        content = trace.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()
        self.page.evaluate("([name, data]) => window.postMessage({msg: 'data', name, data}, '*')", [trace.name, text])
        self.page.wait_for_function(self.LOADED)
        model: dict[str, Any] = self.page.evaluate(self.MODEL)
        return model

    def open(self, url: str, run: str, view: str) -> Any:
        """One view of torch-tb-profiler in TensorBoard: the frame in which it is, for locators."""
        self.page.goto(f"{url}/#pytorch_profiler")
        plugin = self.page.frame_locator("iframe").first
        for number, choice in enumerate((run, view)):
            box = plugin.locator("[role=button][aria-haspopup=listbox]").nth(number)
            box.wait_for()
            box.click()
            option = plugin.locator("[role=option]").get_by_text(choice, exact=True)
            option.click()
            option.wait_for(state="hidden")
        return plugin

    def trace_frame(self) -> Any:
        """The Trace view's inner frame, once the trace is loaded."""
        frame = None
        end = time.monotonic() + 90
        while frame is None and time.monotonic() < end:
            frame = next((f for f in self.page.frames if "trace_embedding" in f.url), None)
            self.page.wait_for_timeout(100)
        if frame is None:
            raise RuntimeError("the Trace view shows no trace")
        frame.wait_for_function(self.LOADED)
        return frame

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The densest stretch of device work of this many microseconds, put over the whole width, with the arrows from each
# launch, and one kernel selected, so that the panel below shows what is known of it.
STAGE = """([microseconds]) => {
  const view = document.querySelector('tr-ui-timeline-view');
  const model = view.model, width = microseconds / 1000;
  const kernels = [...model.getDescendantEvents()].filter(event => event.category === 'kernel');
  kernels.sort((a, b) => a.start - b.start);
  let best = 0, most = 0;
  for (let first = 0, last = 0; first < kernels.length; first++) {
    while (last < kernels.length && kernels[last].end < kernels[first].start + width) last++;
    if (last - first > most) { most = last - first; best = first; }
  }
  const start = kernels[best].start - width * 0.12;
  const viewport = view.trackView.viewport, transform = viewport.currentDisplayTransform.clone();
  transform.xSetWorldBounds(start, start + width, view.trackView.clientWidth - 256);
  viewport.setDisplayTransformImmediately(transform);
  view.selectedFlowEvents.add('ac2g');
  viewport.dispatchChangeEvent();
  const selection = new tr.model.EventSet();
  selection.push(kernels[best + Math.floor(most / 2)]);
  view.brushingStateController.changeSelectionFromRequestSelectionChangeEvent(selection);
  document.querySelector('tr-ui-b-mouse-mode-selector').style.display = 'none';
}"""


def take(logdir: pathlib.Path, picture: pathlib.Path) -> None:
    """The Trace view: the host's rows, the card's, and the arrows between them, over a stretch of one step."""
    with TensorBoard(logdir) as board, Viewer(1500, 800, scale=1.5) as viewer:
        viewer.open(board.url, board.runs[-1], "Trace")
        frame = viewer.trace_frame()
        viewer.page.wait_for_timeout(2000)  # it zooms out to the whole trace first
        frame.evaluate(STAGE, [160])
        viewer.page.wait_for_timeout(1500)
        viewer.page.screenshot(path=picture)


def main() -> int:
    parser = argparse.ArgumentParser(description="TensorBoard's Trace view of a log directory, as a picture.")
    parser.add_argument("logdir", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    try:
        take(options.logdir, options.picture)
    except (Missing, RuntimeError) as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 1
    print(options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
