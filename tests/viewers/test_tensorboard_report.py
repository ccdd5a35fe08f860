"""SPYRE REPORT, our page in TensorBoard, over HTTP and in a browser without internet; `kineto-spyre tensorboard`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest

pytest.importorskip("tensorboard")
werkzeug_test = pytest.importorskip("werkzeug.test")

PLUGIN = "/data/plugin/spyre_report"


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_tensorboard_has_the_page_and_its_only_script(tensorboard):
    page = json.loads(get(f"{tensorboard.url}/data/plugins_listing"))["spyre_report"]
    assert page["enabled"] and page["tab_name"] == "Spyre report"
    path = page["loading_mechanism"]["module_path"]
    assert path == f"{PLUGIN}/index.js"
    script = get(tensorboard.url + path)
    assert "export async function render" in script and "import" not in script and "//cdn" not in script


def test_the_report_is_of_the_trace_that_was_asked_for(tensorboard, trace):
    (name,) = json.loads(get(f"{tensorboard.url}{PLUGIN}/traces"))
    report = get(f"{tensorboard.url}{PLUGIN}/report?trace={urllib.parse.quote(name)}")
    assert "<h2>Verdict</h2>" in report and name in report
    longest = max(trace.by_name(trace.kernels).items(), key=lambda item: item[1][1])[0]
    assert longest in report
    assert not re.search(r"(src|href|url\()\s*=?\s*[\"']?https?:", report), "the report asks another server"


def test_in_a_browser_without_internet_the_reason_and_the_longest_kernel_are_shown(viewer, tensorboard, trace):
    viewer.page.goto(f"{tensorboard.url}/#spyre_report")
    page = viewer.page.frame_locator("iframe").first
    page.locator("#trace").wait_for()
    report = page.frame_locator("iframe")
    report.get_by_role("heading", name="Verdict").wait_for()
    text = report.locator("body").inner_text()
    step = max(trace.steps, key=lambda event: event["dur"])["name"].split("#")[1]
    assert f"Step {step}: " in text
    longest = max(trace.by_name(trace.kernels).items(), key=lambda item: item[1][1])[0]
    assert longest in text
    assert viewer.refused == [] and viewer.errors == []
    with viewer.page.context.expect_page() as alone:
        page.get_by_text("Open on a page of its own").click()
    alone.value.get_by_role("heading", name="Verdict").wait_for()
    assert viewer.refused == []


def start(*arguments):
    command = [sys.executable, "-P", "-m", "kineto_spyre", "tensorboard", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what runs in the background with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_the_command_starts_tensorboard_where_it_says(log_directory):
    pytest.importorskip("torch_tb_profiler")
    with start(str(log_directory)) as process:
        try:
            lines = [process.stdout.readline() for _ in range(6)]
            address = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)#spyre_report\n", lines[1])[1]
            assert lines[3] == f"{address}#pytorch_profiler\n"
            assert "SPYRE REPORT" in lines[2] and "no internet" in lines[2]
            assert "PYTORCH_PROFILER" in lines[4] and "Needs internet" in lines[5]
            for line in process.stderr:
                if line.startswith("TensorBoard ") and "Press CTRL+C" in line:
                    break
            assert address in line
            assert json.loads(get(f"{address}{PLUGIN[1:]}/traces"))
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.touch(), "is a file; name the directory"),
        (lambda path: path.mkdir(), "holds no trace"),
    ],
)
def test_what_is_no_log_directory_is_said_in_a_sentence(tmp_path, make, words):
    path = tmp_path / "log"
    make(path)
    with start(str(path)) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1) and words in err


class Context:
    def __init__(self, logdir):
        self.logdir = str(logdir)


@pytest.fixture
def asked(tmp_path):
    """Asks the plugin, without a TensorBoard around it."""
    from kineto_spyre.viewers.tensorboard import report_page

    def ask(address, **query):
        plugin.__dict__["_listed"] = (float("-inf"), {})  # as if some seconds had gone by
        app = plugin.get_plugin_apps()[address]
        return werkzeug_test.Client(app).get(address, query_string=query)

    plugin = report_page.ReportPlugin(Context(tmp_path))
    ask.plugin = plugin
    return ask


def test_traces_are_listed_newest_first_and_made_anew_when_they_change(asked, tmp_path, trace_path):
    assert not asked.plugin.is_active()
    assert asked("/traces").json == []
    (tmp_path / "run").mkdir()
    old, new = tmp_path / "run" / "a.pt.trace.json", tmp_path / "b.pt.trace.json"
    old.write_bytes(trace_path.read_bytes())
    new.write_text('{"traceEvents": []}')
    (tmp_path / "other.json").write_text("{}")
    os.utime(old, (1, 1))
    assert asked("/traces").json == ["b.pt.trace.json", "run/a.pt.trace.json"]
    assert asked.plugin.is_active()
    assert "<h2>Verdict</h2>" in asked("/report", trace="run/a.pt.trace.json").text
    assert "Verdict" not in asked("/report", trace="b.pt.trace.json").text
    old.write_text("no JSON")
    answer = asked("/report", trace="run/a.pt.trace.json")
    assert answer.status_code == 200 and "run/a.pt.trace.json" in answer.text and "Verdict" not in answer.text


@pytest.mark.parametrize("name", ["", "gone.pt.trace.json", "../outside.pt.trace.json", "/etc/passwd", "<script>"])
def test_only_traces_of_the_log_directory_are_answered(asked, tmp_path, name):
    (tmp_path.parent / "outside.pt.trace.json").write_text("{}")
    answer = asked("/report", trace=name)
    assert answer.status_code == 404 and "<script>" not in answer.text
