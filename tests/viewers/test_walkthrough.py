"""The tutorial from a profile to the proof of a fix: its commands run, and what it says is what they print.

Milliseconds differ from run to run; what is counted, and what is concluded, must not.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
import walkthrough

PAGE = pathlib.Path(__file__).parents[2] / "docs/tutorial/why-is-a-step-slow.md"
COUNTERS = {"device memory allocated (bytes)", "device memory reserved (bytes)", "scratchpad (bytes)"}


@pytest.fixture(scope="module")
def folder(readers, tmp_path_factory):
    return tmp_path_factory.mktemp("walkthrough")


@pytest.fixture(scope="module")
def printed(folder, readers):
    """What each command printed, by its first words."""
    environment = walkthrough.environment(pathlib.Path(sys.executable).parent, readers.parent)
    found = walkthrough.run(PAGE, folder, environment)
    return list(zip(walkthrough.commands(PAGE.read_text()), found))


def test_what_is_counted_and_concluded_is_as_the_page_says(printed):
    steady = re.compile(
        r"last tokens: .*|.*No faults were found.*|.*verification: .*|Step \d: Bound by the host|.* was written\..*"
    )
    for (command, page), output in printed:
        said, seen = (sorted({one[0] for line in text.splitlines() if (one := steady.match(line))} if text else ())
                      for text in (page, output))  # fmt: skip
        steps = [[line for line in one if not line.startswith("Step")] for one in (said, seen)]
        assert steps[0] == steps[1] and (said or "Bound" not in output), command
    (before,) = (one for (command, _), one in printed if "report before.json --top" in command)
    assert before.count("Bound by the host") == 3
    pieces = [re.search(r"^stream 1 +([\d,]+) ", text, re.MULTILINE)[1] for text in (before, PAGE.read_text())]
    assert pieces == ["4,608", "4,608"]
    assert "768 kernels" in PAGE.read_text() and 6 * 768 == 4608 and 8 * 96 == 768


def test_the_fix_is_one(printed):
    tokens = [re.search("last tokens: (.*)", text)[1] for (command, _), text in printed if command.startswith("python")]
    assert len(tokens) == 2 and tokens[0] == tokens[1]
    (changed,) = (text for (command, _), text in printed if "report before.json after.json" in command)
    assert float(re.search(r"A step takes .* \((-?[\d.]+)%\)", changed)[1]) < -25
    assert re.search(r"^idle: host .*-[\d.]+ \w+ +real", changed, re.MULTILINE)


def test_the_trace_holds_the_counters_and_its_readers_take_it(printed, folder, readers):
    """check and acelyzer are among the commands; HTA reads it here."""
    events = json.loads((folder / "before.json").read_bytes())["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "C"} >= COUNTERS
    script = pathlib.Path(__file__).parent / "hta_breakdowns.py"
    command = [str(readers), str(script), str(folder / "before.json"), str(folder / "hta.json")]
    exact = os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=exact)
    assert done.returncode == 0, done.stderr[-3000:]
    hta = json.loads((folder / "hta.json").read_bytes())
    assert hta["steps"] == [3, 4, 5, 6, 7, 8]
    kernels = sum(event["dur"] for event in events if event.get("cat") == "kernel")
    assert hta["temporal"]["compute_time(us)"] == pytest.approx(kernels, rel=1e-3)


def test_the_bundle_holds_both_traces_and_the_program(printed, folder):
    with zipfile.ZipFile(folder / "kineto-spyre-bundle.zip") as archive:
        assert {"trace/before.json", "trace/after.json", "reproducer/decode.py", "doctor.txt"} <= set(
            archive.namelist()
        )
