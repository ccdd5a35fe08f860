"""Dumps over HTTP, on 127.0.0.1 alone, for whoever has the token.

    POST /dump?reason=slow&seconds=10   writes a dump: {"path": ..., "kernels": ..., "complete": ..., ...}
    GET  /status                        what the recorder keeps

Both with the header `Authorization: Bearer <token>`.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from .._notices import SpyreProfilerError
from ._dumps import RateLimited

if TYPE_CHECKING:
    from ._recorder import Recorder

_LONGEST_REASON = 40


class Server:
    """The server that runs.

    Attributes:
        url: where it listens.
        token: who has it may ask.
    """

    def __init__(self, recorder: Recorder, port: int, token: str | None) -> None:
        self.token = token or secrets.token_urlsafe(24)
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(recorder, self.token))
        except OSError as error:
            raise SpyreProfilerError(
                f"127.0.0.1:{port} can't be listened on: {error.strerror}. Choose another port."
            ) from None
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="kineto_spyre http", daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def _handler(recorder: Recorder, token: str) -> type[BaseHTTPRequestHandler]:
    expected = f"Bearer {token}".encode()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def log_message(self, format: str, *args: Any) -> None:
            pass  # the program's output is its own

        def answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def is_allowed(self) -> bool:
            given = self.headers.get("Authorization", "").encode("utf-8", "replace")
            if hmac.compare_digest(given, expected):
                return True
            self.answer(HTTPStatus.UNAUTHORIZED, {"error": "The token is missing or wrong."})
            return False

        def do_GET(self) -> None:
            if not self.is_allowed():
                return
            if urlsplit(self.path).path == "/status":
                self.answer(HTTPStatus.OK, dataclasses.asdict(recorder.status()))
            else:
                self.answer(HTTPStatus.NOT_FOUND, {"error": "There are GET /status and POST /dump."})

        def do_POST(self) -> None:
            if not self.is_allowed():
                return
            asked = urlsplit(self.path)
            if asked.path != "/dump":
                self.answer(HTTPStatus.NOT_FOUND, {"error": "There are GET /status and POST /dump."})
                return
            query = parse_qs(asked.query)
            reason = query.get("reason", ["http"])[0][:_LONGEST_REASON]
            try:
                seconds = float(query["seconds"][0]) if "seconds" in query else None
                if seconds is not None and not 0 < seconds < float("inf"):
                    raise ValueError
            except ValueError:
                self.answer(HTTPStatus.BAD_REQUEST, {"error": "seconds is no positive number."})
                return
            try:
                dump = recorder.dumps.ask(reason, seconds=seconds).result()
            except RateLimited as error:
                self.answer(HTTPStatus.TOO_MANY_REQUESTS, {"error": str(error)})
            except Exception as error:
                self.answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
            else:
                body = dataclasses.asdict(dump)
                body["diagnostics"] = [one.sentence for one in dump.diagnostics]
                self.answer(HTTPStatus.OK, body)

    return Handler
