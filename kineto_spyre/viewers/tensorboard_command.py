"""How the stock TensorBoard is started on a log directory, and what to click in it.

It is a program of its own, which needs nothing of this package: what keeps our page from it keeps nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys

from kineto_spyre._notices import SpyreProfilerError

_USUAL = 6006
_TRIES = 100
_HOST = "127.0.0.1"


def free_port(wanted: int = 0) -> int:
    """The port, if it is free; for 0 TensorBoard's usual one, or the next that is free.

    Raises:
        OSError: it is taken.
    """
    last = wanted or _USUAL + _TRIES
    for port in range(wanted or _USUAL, last + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                if port == last:
                    raise
            else:
                break
    return port


def command(log_directory: str | os.PathLike[str], port: int) -> list[str]:
    """The command line of TensorBoard.

    Raises:
        SpyreProfilerError: it is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise SpyreProfilerError("TensorBoard is not installed. Install it with pip install 'kineto-spyre[viewers]'.")
    safe = ["-P"] if sys.version_info >= (3, 11) else []  # a folder named tensorboard here is not the package
    start = [sys.executable, *safe, "-c", "from tensorboard.main import run_main; run_main()"]
    return [*start, "--logdir", os.fspath(log_directory), "--host", _HOST, "--port", str(port)]


def guide(log_directory: str | os.PathLike[str], port: int) -> list[str]:
    """Lines that say what to click; none if the directory holds nothing to show."""
    at = f"http://{_HOST}:{port}/"
    lines = []
    if _holds(log_directory, ".pt.trace.json", ".pt.trace.json.gz"):
        lines += [
            f"{at}#spyre_report",
            "  SPYRE REPORT: why each step took as long as it did, and the longest kernels. Needs no internet.",
            f"{at}#pytorch_profiler",
            "  PYTORCH_PROFILER: under Views, choose Overview, Operator, GPU Kernel, Trace or Memory.",
        ]
        if importlib.util.find_spec("torch_tb_profiler") is None:
            lines.append("  Missing, because torch-tb-profiler is not installed: pip install 'kineto-spyre[viewers]'.")
        else:
            lines.append("  Needs internet (www.gstatic.com, cdnjs.cloudflare.com); without it the pages keep loading.")
    if _holds(log_directory, ".xplane.pb"):
        lines += [f"{at}#profile", "  PROFILE: under Tools, choose Trace Viewer. Needs no internet."]
        if importlib.util.find_spec("xprof") is None:
            lines.append("  Missing, because XProf is not installed: pip install xprof.")
    if lines:
        lines.insert(0, "When TensorBoard says below that it runs, open one of these addresses. Ctrl-C ends it.")
    return lines


def _holds(folder: str | os.PathLike[str], *endings: str) -> bool:
    return any(name.endswith(endings) for _, _, names in os.walk(folder, followlinks=True) for name in names)
