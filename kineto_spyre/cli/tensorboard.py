"""`kineto-spyre tensorboard`: the stock TensorBoard on a log directory, and what to click in it."""

from __future__ import annotations

import argparse
import sys

from ._values import port

SUMMARY = "start TensorBoard on a log directory, and say what to click"
DESCRIPTION = (
    "Starts the stock TensorBoard on 127.0.0.1 and says which of its pages show what, and which of them need internet. "
    "Ctrl-C ends it. Exit code: 0 or 130 it was ended; 1 TensorBoard is not installed; 2 the usage was wrong, there is "
    "no such directory, it holds no trace, or the port is taken; else TensorBoard's own."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logdir", metavar="LOGDIR", help="a directory with traces (*.pt.trace.json, or .gz) in it")
    parser.add_argument("--port", type=port, default=0, help="listen on this port (default: 6006, or the next free)")


def run(options: argparse.Namespace) -> int:
    import os

    from ..traces.json_text import shown
    from ..viewers.tensorboard_command import command, free_port, guide

    named = shown(options.logdir)[1:-1]
    if not os.path.isdir(options.logdir):
        what = "is a file" if os.path.exists(options.logdir) else "does not exist"
        return _say(f"{named} {what}; name the directory that the traces were written to.")
    try:
        chosen = free_port(options.port)
    except OSError as error:
        return _say(f"port {options.port} can't be used ({error.strerror or error}); choose another with --port.")
    lines = guide(options.logdir, chosen)
    if not lines:
        return _say(
            f"{named} holds no trace (*.pt.trace.json, *.pt.trace.json.gz) and no *.xplane.pb. Profile with "
            "on_trace_ready=torch.profiler.tensorboard_trace_handler(directory), or run kineto-spyre demo."
        )
    start = command(options.logdir, chosen)
    print("\n".join(lines), flush=True)
    os.execv(start[0], start)


def _say(sentence: str) -> int:
    print(f"kineto-spyre tensorboard: {sentence}", file=sys.stderr)
    return 2
