"""A server with no profiler in its code: recorded, dumped after a request that was slow, profiled from outside.

Its variables are all that tells it to. Who notices that a request was slow is the client; the report on the dump says
why it was.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.request

import pytest

pytest.importorskip("torch")

SERVER = """
    import http.server, sys, torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).to("spyre").eval()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/long":  # somebody sorts before the model runs
                torch.sort(torch.rand(4_000_000))
            with torch.inference_mode():
                answer = model(torch.ones(1, 64).to("spyre")).relu().sum().item()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(answer).encode())

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Served:
    """The server in a process of its own, and what a client does with it."""

    def __init__(self, folder: pathlib.Path, **variables: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
        environment |= {"PYTHONSAFEPATH": "1", "KINETO_SPYRE_EMULATE": "1", **variables}
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SERVER)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def request(self, path: str = "/") -> float:
        """How long it took, in seconds."""
        begin = time.monotonic()
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            assert float(answer.read()) >= 0
        return time.monotonic() - begin

    def end(self) -> tuple[int, str]:
        """Interrupts it; its exit code and what it said."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60), self.process.stderr.read()


def until(path: pathlib.Path, pattern: str) -> pathlib.Path:
    for _ in range(6000):
        if found := sorted(path.glob(pattern)):
            return found[0]
        threading.Event().wait(0.01)
    raise AssertionError(f"no {pattern} in {list(path.iterdir())}")


def run_command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kineto_spyre", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def served(tmp_path):
    sockets = tempfile.TemporaryDirectory(prefix="ks-")  # a short path, as Kineto needs it
    server = Served(
        tmp_path,
        KINETO_SPYRE_RECORD="30",
        KINETO_SPYRE_RECORD_FOLDER=str(tmp_path),
        KINETO_SPYRE_RECORD_PORT=str(free_port()),
        KINETO_SPYRE_RECORD_SIGNAL="USR2",
        KINETO_USE_DAEMON="1",
        KINETO_IPC_SOCKET_DIR=sockets.name,
    )
    yield server
    server.process.kill()
    server.process.wait()
    sockets.cleanup()


def test_a_slow_request_is_dumped_afterwards_and_the_report_names_its_cause(served, tmp_path):
    served.request()
    told = json.loads(until(tmp_path, "recorder_*.json").read_text())
    assert os.stat(until(tmp_path, "recorder_*.json")).st_mode & 0o777 == 0o600
    usual = sorted(served.request() for _ in range(20))[10]
    slow = served.request("/long")
    assert slow > usual  # what the client sees; then it asks for what has just happened
    ask = urllib.request.Request(f"{told['url']}/dump?reason=slow%20request&seconds={slow + 0.1:.3f}", method="POST")
    ask.add_header("Authorization", f"Bearer {told['token']}")
    with urllib.request.urlopen(ask, timeout=60) as answer:
        dump = json.load(answer)
    assert dump["complete"]
    assert dump["kernels"] >= 6
    run_command("check", dump["path"])
    facts = json.loads(run_command("report", dump["path"], "--json"))
    (device,) = facts["devices"]
    host = max(device["causes"], key=lambda cause: cause["duration"])
    assert host["cause"] == "host"
    assert host["where"][0]["op"] == "aten::sort"
    assert "aten::sort" in run_command("report", dump["path"])

    # From outside as well, while the recorder runs; by the same token a signal is too soon now.
    over = threading.Event()

    def clients():
        while not over.is_set():
            served.request()

    client = threading.Thread(target=clients)
    client.start()
    (tmp_path / "asked").mkdir()
    try:
        said = run_command(
            "trigger", str(served.process.pid), "--duration", "300ms", "--output", str(tmp_path / "asked")
        )
    finally:
        over.set()
        client.join()
    assert "no faults" in said
    served.process.send_signal(signal.SIGUSR2)
    served.request()
    code, errors = served.end()
    assert code == -signal.SIGTERM
    assert "Traceback" not in errors


def test_a_signal_dumps_what_a_server_did(served, tmp_path):
    served.request()
    until(tmp_path, "recorder_*.json")
    for _ in range(5):
        served.request()
    served.process.send_signal(signal.SIGUSR2)
    path = until(tmp_path, "recording_*SIGUSR2.json")
    document = json.loads(path.read_text())  # whole as soon as it has its name
    assert sum(event.get("cat") == "kernel" for event in document["traceEvents"]) >= 5 * 6
    served.request()
