"""The command `kineto-spyre`: errors are sentences, and exit codes can be relied on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest


def run(*arguments, env=None):
    return subprocess.run(
        [sys.executable, "-P", "-m", "kineto_spyre", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")} | (env or {}),
    )


def test_the_version_names_the_torch_it_serves():
    import torch

    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.strip().endswith("built for PyTorch " + ".".join(torch.__version__.split(".")[:2]))


def test_no_command_prints_the_help():
    done = run()
    assert done.returncode == 2
    assert "doctor" in done.stdout


@pytest.mark.parametrize("arguments", [["dance"], ["demo", "--steps", "0"], ["demo", "--devices", "9"]])
def test_wrong_usage_is_exit_code_2_and_a_sentence(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert arguments[-1] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_directory_that_can_not_be(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", str(tmp_path / "file" / "log"))
    assert done.returncode == 1
    assert "can't be made a log directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_finds_no_spyre_and_says_what_to_do():
    done = run("doctor")
    assert done.returncode == 1
    assert "kineto_spyre's; traces show what happens on a Spyre" in done.stdout
    assert re.search(r"backend name +not set", done.stdout)
    assert "kineto_spyre.emulator.enable()" in done.stdout.split("Problems")[1]


def test_doctor_with_an_emulated_spyre_has_no_trouble_and_shows_the_record_sizes():
    done = run("doctor", "--emulated")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problem was found." in done.stdout
    assert record_sizes(done.stdout)["compute"] == ["232", "232"]


def record_sizes(text):
    """doctor's table: by kind, the size that was built for, and the one that was seen."""
    rows = text.split("Sizes of libaiupti's records, in bytes")[1].split("Environment")[0].splitlines()[2:]
    return {kind: sizes for kind, *sizes in (row.split() for row in rows)}


def test_doctor_shows_the_sizes_that_a_library_writes_beside_those_that_were_built_for():
    done = run("doctor", "--emulated", env={"KINETO_SPYRE_FAULTS": "size=+40"})
    assert record_sizes(done.stdout)["compute"] == ["232", "272"]


def test_doctor_as_json_tells_the_same():
    done = run("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["factory"] == "ours"
    assert report["available"] is False
    assert report["problems"]


def test_doctor_says_that_autoload_is_off():
    done = run("doctor", env={"KINETO_SPYRE_AUTOLOAD": "0"})
    assert "no (KINETO_SPYRE_AUTOLOAD=0)" in done.stdout
    assert "The plugin is not registered. Call kineto_spyre.enable()." in done.stdout


def test_doctor_says_what_a_variable_that_is_set_does_and_costs():
    done = run("doctor", env={"TORCH_LOGS": "graph_breaks", "SENCORES": "16"})
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    place = lines.index("SENCORES 16")
    assert lines[place + 1] == "compiles for this many of the 32 cores; costs: slower kernels with fewer cores"
    assert lines[lines.index("TORCH_LOGS graph_breaks") + 1].startswith("prints each graph break")


def test_doctor_names_a_library_that_lacks_a_function(make_libaiupti):
    library = make_libaiupti(without="FlushAll")
    done = run("doctor", env={"KINETO_SPYRE_LIBAIUPTI": str(library)})
    assert f"{library} lacks aiuptiFlushAllActivities" in done.stdout


def test_device_prints_the_cost_model():
    done = run("device")
    assert done.returncode == 0, done.stderr
    assert "32 cores x 2 corelets x 8x8 elements" in done.stdout and "device memory bandwidth" in done.stdout
