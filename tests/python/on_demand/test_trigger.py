"""`kineto-spyre trigger` with a program that has no profiler in its code, and with all that may go wrong."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from kineto_spyre import SpyreProfilerError
from kineto_spyre.cli import main, trigger
from kineto_spyre.on_demand import Answered, Daemon, Request, processes, protocol
from kineto_spyre.on_demand.processes import Listener

SERVER = """
import pathlib, sys, time
import torch

x, w = torch.full((64, 64), 0.5).to("spyre"), torch.full((64, 64), 0.25).to("spyre")
optimizer = torch.optim.SGD([torch.zeros(4, requires_grad=True)])
requests, stop = 0, pathlib.Path(sys.argv[1])
print("ready", flush=True)
while not stop.exists():
    with torch.profiler.record_function("request"):
        assert (x @ w).relu().sum().item() == 64 * 64 * 8.0
    optimizer.step()
    requests += 1
    time.sleep(0.002)
print(requests)
"""


@pytest.fixture(scope="module")
def sockets():
    """A folder for Kineto's sockets: Kineto overruns its address where the folder has over 55 characters."""
    with tempfile.TemporaryDirectory(prefix="ks-") as folder:
        yield pathlib.Path(folder)


class Server:
    """A program that answers requests until it is told to stop, and has no profiler in its code."""

    def __init__(self, folder: pathlib.Path, **environment: str) -> None:
        self.folder = folder
        self.stop_file = folder / "stop"
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(self.stop_file)],
            cwd=folder,
            env={**os.environ, "KINETO_SPYRE_EMULATE": "1", "KINETO_IPC_SOCKET_DIR": str(folder), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def wait_until_it_asks(self) -> None:
        end = time.monotonic() + 60
        while not any(listener.pid == self.pid for listener in processes.listeners()):
            assert time.monotonic() < end
            time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        """The number of requests that it served, and what it wrote to stderr."""
        self.stop_file.touch()
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return int(out), err


@pytest.fixture(scope="module")
def server(sockets):
    """One program for all tests: what they do to it, it survives."""
    running = Server(sockets, KINETO_USE_DAEMON="1", KINETO_SPYRE_CLOCK_ALIGN="sideways")
    running.wait_until_it_asks()
    yield running
    requests, said = running.end()
    assert requests > 20
    # What a session of Kineto's own thread has to say comes as a Python warning of the main thread.
    assert "SpyreProfilerWarning" in said
    assert "KINETO_SPYRE_CLOCK_ALIGN is 'sideways'" in said


def spyre_work(path: str) -> tuple[list[dict], list[dict]]:
    """The kernels that ran between the first op of a trace and its last one, and those that are linked to an op.

    Kineto's thread starts recorders one after the other, in the middle of whatever the program does.
    """
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    ops = [e["ts"] for e in events if e.get("cat") == "cpu_op"]
    kernels = [e for e in events if e.get("cat") == "kernel" and min(ops) < e["ts"] < max(ops)]
    return kernels, [e for e in kernels if "External id" in e["args"]]


def test_a_program_without_a_profiler_is_profiled_twice(server, tmp_path, capfd, monkeypatch):
    out = tmp_path / "traces"
    out.mkdir()
    made, mkdtemp = [], tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **how: made.append(mkdtemp(**how)) or made[-1])
    for target in (server.pid, os.getpid()):  # by itself, and as the child of this process
        assert main(["trigger", str(target), "--duration", "1s", "--output", str(out)]) == 0
    assert len(made) == 2
    assert not any(pathlib.Path(folder).exists() for folder in made)
    said = capfd.readouterr().out
    paths = re.findall(r"^(\S+\.json): [\d,]+ events; no faults\.$", said, re.MULTILINE)
    assert len(set(paths)) == 2
    for path in paths:
        kernels, linked = spyre_work(path)
        assert linked
        assert len(linked) >= len(kernels) - 3  # the launches of a request whose ops began before the window
        assert any(e.get("name") == "request" for e in json.loads(pathlib.Path(path).read_text())["traceEvents"])


def test_steps_are_counted_where_they_are_asked_for(server, tmp_path, capfd):
    assert main(["trigger", str(server.pid), "--iterations", "5", "--output", str(tmp_path)]) == 0
    (path,) = re.findall(r"^(\S+\.json):", capfd.readouterr().out, re.MULTILINE)
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    assert 4 <= sum(e.get("name") == "Optimizer.step#SGD.step" for e in events) <= 6


def test_a_daemon_that_answers_nonsense_does_not_harm_the_program(server):
    """Sizes that are not there, types that nobody knows, configurations that can't be read."""
    rubbish = [
        b"x" * 39,
        struct.pack("<Q32s", 1 << 20, b"req") + b"A=1",
        protocol.pack("nonsense", bytes(range(256))),
        protocol.pack("req", b"ACTIVITIES_DURATION_MSECS=minus\nACTIVITY_TYPES=no such type\n"),
        protocol.pack("req", b"\xff\xfe=\n==\n\0\0"),
        struct.pack("<Q32s", 0, b"\xff" * 32),
    ]
    asked = 0
    path = protocol.address(protocol.DAEMON, str(server.folder))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(path)
        while asked < 2:
            daemon.settimeout(60)
            _, sender = daemon.recvfrom(1 << 16)
            asked += 1
            daemon.settimeout(0)
            for datagram in rubbish:
                try:
                    daemon.sendto(datagram, sender)
                except BlockingIOError:  # Kineto reads one each time it asks
                    break
    os.unlink(path)
    assert server.process.poll() is None


class Client:
    """Kineto's side of the protocol, in this process."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / f"{protocol.CLIENT}-of-the-test"))
        self.socket.settimeout(10)
        self.daemon = str(folder / protocol.DAEMON)

    def ask(self, datagram: bytes, answered: bool = True) -> bytes:
        self.socket.sendto(datagram, self.daemon)
        return self.socket.recv(1 << 16) if answered else b""


def ask(kinds: int = 3) -> bytes:
    return protocol.pack("req", struct.pack("@iiqi", kinds, 1, 0, os.getpid()))


@pytest.fixture
def client(tmp_path):
    made = Client(tmp_path)
    yield made
    made.socket.close()


def test_each_process_gets_the_configuration_once_and_only_when_it_is_idle(client, tmp_path):
    trace = tmp_path / "trace.json"
    me = Listener(os.getpid(), (), 0, str(tmp_path))
    with Daemon(str(tmp_path)) as daemon:
        answers: list = []
        thread = threading.Thread(
            target=lambda: answers.extend(daemon.trigger([me], "A=1\n", lambda pid: trace, to_ask_s=20, to_write_s=20))
        )
        thread.start()
        assert client.ask(protocol.pack("ctxt", struct.pack("@iiq", 0, os.getpid(), 0))).startswith(
            struct.pack("@Q", 4) + b"ctxt"
        )
        client.ask(b"nonsense", answered=False)
        assert client.ask(ask(kinds=1)) == protocol.pack("req", b"")  # it profiles right now
        assert client.ask(ask()) == protocol.pack("req", b"A=1\n")
        assert client.ask(ask()) == protocol.pack("req", b"")
        trace.write_text("{}")
        thread.join()
    assert [(answer.pid, answer.trace, answer.trouble) for answer in answers] == [(os.getpid(), trace, None)]
    assert daemon.malformed == 1
    assert not (tmp_path / protocol.DAEMON).exists()


def test_a_process_that_does_not_ask_or_write_is_told(client, tmp_path):
    me = Listener(os.getpid(), (), 0, str(tmp_path))
    with Daemon(str(tmp_path)) as daemon:
        (answer,) = daemon.trigger([me], "", lambda pid: tmp_path / "none", to_ask_s=0.2, to_write_s=0.2)
        assert answer.trace is None
        assert "did not ask for work" in answer.trouble
        client.ask(ask(), answered=False)
        (answer,) = daemon.trigger([me], "", lambda pid: tmp_path / "none", to_ask_s=5, to_write_s=0.2)
        assert "no trace came" in answer.trouble
        assert answer.may_come


def test_the_folder_that_traces_are_written_to_is_removed_or_named(tmp_path, capsys):
    gone, kept = tmp_path / "gone", tmp_path / "kept"
    for folder in (gone, kept):
        folder.mkdir()
        (folder / "trace_1.json.tmp").write_text("{")  # half a trace
    trigger._leave(gone, [Answered(1, None, "It ended."), Answered(2, None, "It did not ask.")])
    trigger._leave(kept, [Answered(1, None, "No trace came.", may_come=True), Answered(2, None, "It did not ask.")])
    assert not gone.exists()
    assert kept.exists()
    assert f"process 1 should still write what was asked for, it will be in {kept}." in capsys.readouterr().err


def test_after_ctrl_c_the_folder_is_named(tmp_path, capsys, monkeypatch):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Daemon, "trigger", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trigger._trigger([Listener(1, (), 0, str(tmp_path))], str(tmp_path), Request(500), 1.0)
    (folder,) = re.findall(r"writes its trace to (\S+)\.$", capsys.readouterr().err, re.MULTILINE)
    pathlib.Path(folder).rmdir()


def test_a_process_that_ends_is_told(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with Daemon(str(tmp_path)) as daemon:
        gone = Listener(child.pid, (), 0, str(tmp_path))
        (answer,) = daemon.trigger([gone], "", lambda pid: tmp_path / "none", to_ask_s=5, to_write_s=5)
    assert answer.trouble == f"Process {child.pid} ended before its trace was written."


def test_the_second_of_two_triggers_names_the_first(tmp_path):
    with Daemon(str(tmp_path)), pytest.raises(SpyreProfilerError, match=f"Process {os.getpid()} .* Wait until it ends"):
        Daemon(str(tmp_path))


def test_a_socket_that_a_killed_trigger_left_is_taken_over(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(tmp_path / protocol.DAEMON))
    with Daemon(str(tmp_path)):
        assert (tmp_path / protocol.DAEMON).exists()


def test_other_users_get_no_answer(client, tmp_path, monkeypatch):
    with Daemon(str(tmp_path)) as daemon:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        client.ask(ask(), answered=False)
        me = Listener(os.getpid(), (), 0, str(tmp_path))
        (answer,) = daemon.trigger([me], "A=1\n", lambda pid: tmp_path / "none", to_ask_s=0.3, to_write_s=1)
    assert daemon.strangers == 1
    assert "did not ask" in answer.trouble
    client.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.socket.recv(1)


def test_processes_that_cannot_be_asked(tmp_path, capsys, monkeypatch):
    """A sentence each, and exit code 2: one that is gone, one without torch, one of another user."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert main(["trigger", str(child.pid)]) == 2
    assert capsys.readouterr().err == f"kineto-spyre trigger: There is no process {child.pid}.\n"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as idle:
        assert main(["trigger", str(idle.pid)]) == 2
        assert "has not imported torch" in capsys.readouterr().err
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert "belongs to another user" in processes.why_not(idle.pid)
        idle.kill()


def test_a_program_that_was_started_without_the_variable(tmp_path):
    server = Server(tmp_path)
    assert "was started without KINETO_USE_DAEMON=1" in processes.why_not(server.pid)
    server.end()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["0"],
        ["-5"],
        ["abc"],
        ["1", "--all"],
        ["--all", "--duration", "0ms"],
        ["--all", "--duration", "500"],
        ["--all", "--iterations", "0"],
        ["--job", "x"],
    ],
)
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["trigger", *arguments])
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["trigger", "1", "--output", str(tmp_path / "none")]) == 2
    assert "is not a folder that can be written to" in capsys.readouterr().err


def test_nobody_asks_in_that_job(capsys):
    assert main(["trigger", "--job", "2147483647"]) == 2
    assert capsys.readouterr().err == (
        "kineto-spyre trigger: No process of yours in Slurm job 2147483647 asks Kineto's daemon. Start the program "
        "with KINETO_USE_DAEMON=1.\n"
    )


def test_nothing_is_mapped_before_a_request_and_the_backend_keeps_its_time(run_python, sockets):
    """In daemon mode Kineto has our profiler once the backend has its name, not before; libaiupti stays unmapped."""
    said = run_python(
        """
        import time, torch
        print(torch.profiler.ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities())
        from kineto_spyre import emulator
        emulator.enable(devices=1)
        end = time.monotonic() + 20
        while torch.profiler.ProfilerActivity.PrivateUse1 not in torch.profiler.supported_activities():
            assert time.monotonic() < end
            time.sleep(0.01)
        print("libaiupti" in open("/proc/self/maps").read())
        """,
        env={"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(sockets)},
    )
    assert said.stdout == "False\nFalse\n"
