"""SPYRE REPORT, a page of TensorBoard: the report of the trace that is chosen.

It needs no internet: its one script comes from this package, and the report is one page without scripts
(`kineto_spyre.report.page`). A report is made when it is asked for, one at a time, and kept until its file changes.

    data/plugin/spyre_report/index.js        the page
    data/plugin/spyre_report/traces          the traces of the log directory, newest first, as JSON
    data/plugin/spyre_report/report?trace=T  the report of one of these, as HTML

A trace is a file that torch-tb-profiler takes for one, too: *.pt.trace.json or *.pt.trace.json.gz.
"""

from __future__ import annotations

import logging
import os
import pathlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import werkzeug
from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin

logger = logging.getLogger(__name__)

NAME = "spyre_report"
TAB = "Spyre report"
ENDINGS = (".pt.trace.json", ".pt.trace.json.gz")
_SCRIPT = pathlib.Path(__file__).with_name("static") / "index.js"
_KEPT = 8  # reports
_FRESH = 3.0  # seconds for which a list of traces is good: TensorBoard asks often


def traces(log_directory: str) -> Iterator[str]:
    """The paths of the traces below a directory."""
    for folder, _, names in os.walk(log_directory, followlinks=True):
        for name in names:
            if name.endswith(ENDINGS):
                yield os.path.join(folder, name)


class ReportPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """The page, and what it asks for."""

    plugin_name = NAME

    def __init__(self, context: Any) -> None:
        self._log_directory: str = context.logdir or ""
        self._lock = threading.Lock()
        self._listed: tuple[float, dict[str, str]] = (float("-inf"), {})
        self._made: OrderedDict[tuple[str, int, int], str] = OrderedDict()

    def is_active(self) -> bool:
        """Whether there is a trace: without one TensorBoard lists the page as inactive."""
        return bool(self._traces())

    def frontend_metadata(self) -> Any:
        """Where the page's script is, and what the tab is called."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name=TAB, disable_reload=False)

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        """What answers each address."""
        answers = {"/index.js": self._script, "/traces": self._list, "/report": self._report}
        return {address: werkzeug.Request.application(answer) for address, answer in answers.items()}

    def _traces(self) -> dict[str, str]:
        """What the page calls each trace, and its path; the newest first."""
        with self._lock:
            when, found = self._listed
            if time.monotonic() - when > _FRESH:
                paths = sorted(traces(self._log_directory), key=_changed, reverse=True) if self._log_directory else []
                found = {os.path.relpath(path, self._log_directory): path for path in paths}
                self._listed = time.monotonic(), found
            return found

    def _script(self, request: werkzeug.Request) -> Any:
        return http_util.Respond(request, _SCRIPT.read_bytes(), "application/javascript")

    def _list(self, request: werkzeug.Request) -> Any:
        return http_util.Respond(request, list(self._traces()), "application/json")

    def _report(self, request: werkzeug.Request) -> Any:
        name = request.args.get("trace", "")
        path = self._traces().get(name)
        if path is None:
            text = f"{name} is no longer in the log directory. Choose another trace, or reload the page."
            return http_util.Respond(request, _sentence(text), "text/html", code=404)
        return http_util.Respond(request, self._page(name, path), "text/html")

    def _page(self, name: str, path: str) -> str:
        try:
            state = os.stat(path)
        except OSError as error:
            return _sentence(f"{name} can't be read ({error.strerror}).")
        key = (path, state.st_mtime_ns, state.st_size)
        with self._lock:
            if key not in self._made:
                self._made[key] = _make(name, path)
            self._made.move_to_end(key)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
            return self._made[key]


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _make(name: str, path: str) -> str:
    try:
        from kineto_spyre.report import NoDeviceWork, Unreadable, make

        return make(path).text()
    except (NoDeviceWork, Unreadable) as error:
        return _sentence(f"{name} {error}")
    except Exception as error:
        logger.warning("no report of %s", path, exc_info=True)
        return _sentence(f"No report of {name} could be made: {error!r}. TensorBoard's log says more.")


def _sentence(text: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Report of a trace</title>'
        "<style>:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem }</style>"
        f"</head><body><p>{escape(text)}</p></body></html>\n"
    )
