"""`kineto-spyre selftest` on the emulated library, on one that hangs, on one that crashes; judging without any."""

from __future__ import annotations

import getpass
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from kineto_spyre import _library
from kineto_spyre.selftest import Outcome, _run, cache, selftest
from kineto_spyre.selftest._run import Result
from kineto_spyre.selftest.finding import Facts
from kineto_spyre.selftest.judge import COSTS, EXPECTED, HANDLED, judge, variations


def run_selftest(
    tmp_path: pathlib.Path, *arguments: str, faults: str = ""
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = tmp_path / "report.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONSAFEPATH": "1"}
    if faults:
        environment["KINETO_SPYRE_FAULTS"] = faults
    done = subprocess.run(
        [sys.executable, "-m", "kineto_spyre", "selftest", "--emulated", "--report", str(report), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert report.exists(), done.stderr
    return done, json.loads(report.read_text())


def finding(document: dict[str, Any], key: str) -> dict[str, Any]:
    return next(f for f in document["findings"] if f["key"] == key)


@pytest.fixture(scope="module")
def default_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, subprocess.CompletedProcess[str], Any]:
    """A run of the command without any fault, and without the cache: how many seconds, the process, its report."""
    folder = tmp_path_factory.mktemp("default")
    begin = time.monotonic()
    done, document = run_selftest(folder, "--no-cache")
    assert not (folder / "cache").exists()
    return time.monotonic() - begin, done, document


def test_it_finds_everything_out_in_under_a_minute_and_leaves_nothing_enabled(default_run: Any) -> None:
    seconds, done, document = default_run
    assert seconds < 60
    assert done.returncode == 0, done.stdout
    assert not document["died"] and not document["troubles"]
    assert document["facts"]["quiet"]["callbacks"] == 0
    assert document["variations"] == []
    assert {f["state"] for f in document["findings"]} == {EXPECTED}
    assert finding(document, "correlation.compute")["found"] == "40 of 40 do"
    assert document["facts"]["session"]["sizes"]["compute"] == {"232": 40}
    assert document["library"]["bytes"] == _library.EMULATED.stat().st_size  # the one that was tested


def test_the_report_holds_no_path_host_or_user(default_run: Any) -> None:
    text = json.dumps(default_run[2])
    for name in ("/", "site-packages", "spyre_kernel", socket.gethostname(), getpass.getuser()):
        assert name not in text, name


# What is asked for of each variation that the reference lists; it is named as it was asked for, or as here.
ASKED = {
    "discard_at_disable": ["discard_at_disable=1"],
    "flush_when_disabled": ["flush_when_disabled=nothing", "flush_when_disabled=fail"],
    "rotate_at_flush": ["rotate_at_flush=1"],
    "end_code": ["end_code=77"],
    "buffer_limit": ["buffer_limit=2", "buffer_limit=5"],
    "buffer_per_thread": ["buffer_per_thread=1"],
    "null_thread_ids": ["null_thread_ids=1"],
    "other_namespace": ["other_namespace=1"],
    "other_process": ["other_process=1"],
    "wrong_thread_ids": ["wrong_thread_ids=1"],
    "api_field_order": ["api_field_order=1"],
    "attributes": ["attributes=1"],
    "short_compute": ["short_compute=1"],
    "collectives": ["collectives=1"],
    "dmi_dmo": ["dmi_dmo=1"],
    "prepare": ["prepare=1"],
}
COSTLY = {"null_thread_ids", "other_namespace", "other_process", "wrong_thread_ids", "api_field_order", "buffer_limit"}
EACH = [asked for each in ASKED.values() for asked in each]


def listed_variations() -> list[str]:
    """The keys of the table of variations in docs/reference/faults.md."""
    page = (pathlib.Path(__file__).parents[3] / "docs" / "reference" / "faults.md").read_text()
    section = page.split("## What another release of libaiupti might do")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)=", section, re.MULTILINE)


def test_each_variation_of_the_reference_is_asked_for() -> None:
    assert sorted(listed_variations()) == sorted(ASKED)


@pytest.fixture(scope="module")
def facts_of() -> dict[str, Facts]:
    """What the probes see of each variation, and ("") without any; all in one process."""
    done = subprocess.run(
        [sys.executable, str(pathlib.Path(__file__).with_name("each_variation.py")), *EACH, ""],
        env={k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")} | {"PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, Facts] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize("faults", EACH)
def test_it_names_the_variation(facts_of: dict[str, Facts], faults: str) -> None:
    findings = judge(facts_of[faults])
    assert variations(findings) == [faults.removesuffix("=1")]
    assert any(f.state == COSTS for f in findings) == (faults.split("=")[0] in COSTLY)
    assert facts_of[faults]["quiet"]["callbacks"] == 0  # nothing stays enabled


def test_of_the_default_there_is_nothing_to_report(facts_of: dict[str, Facts]) -> None:
    findings = judge(facts_of[""])
    assert variations(findings) == []
    assert {f.state for f in findings} == {EXPECTED}


@pytest.mark.parametrize("faults", ["buffer_limit=5", "end_code=77"])
def test_the_command_names_the_variation(tmp_path: pathlib.Path, faults: str) -> None:
    done, document = run_selftest(tmp_path, faults=faults)
    assert document["variations"] == [faults]
    assert f"Variations: {faults}." in done.stdout
    assert done.returncode == (1 if faults.split("=")[0] in COSTLY else 0)


def test_a_clock_that_is_ahead_is_said(tmp_path: pathlib.Path) -> None:
    _, document = run_selftest(tmp_path, faults="clock_offset=5ms")
    clock = document["facts"]["session"]["clocks"]["device"]
    assert clock["least_ns"] <= 5_000_000 <= clock["most_ns"]
    assert finding(document, "clock.device")["state"] == HANDLED


def test_a_library_that_hangs_in_flush_costs_its_own_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "PROBE_S", 2.0)
    monkeypatch.setenv("KINETO_SPYRE_FAULTS", "hang_flush=600s")
    begin = time.monotonic()
    outcome = selftest(emulated=True)
    assert time.monotonic() - begin < 60
    assert not outcome.sound
    assert outcome.result.died["session"] == {"how": "hung", "call": "aiuptiFlushAllActivities"}
    assert outcome.result.facts["unopened"]["bytes"] > 0  # what was found before stays


CRASHING = r"""
#include <cstdint>
#include <cstdlib>
#include <cstddef>
enum AIUpti_ResultTypes { OK };
enum AIUpti_ActivityKind { NONE };
struct AIUpti_Activity;
AIUpti_ResultTypes aiuptiActivityRegisterCallbacks(void (*)(uint8_t**, size_t*, size_t*),
                                                   void (*)(uint8_t*, size_t, size_t)) { return OK; }
AIUpti_ResultTypes aiuptiActivityEnable(AIUpti_ActivityKind) { return OK; }
AIUpti_ResultTypes aiuptiActivityDisable(AIUpti_ActivityKind) { return OK; }
AIUpti_ResultTypes aiuptiActivityGetNextRecord(uint8_t*, size_t, AIUpti_Activity**) { return OK; }
AIUpti_ResultTypes aiuptiActivityGetNumDroppedRecords(size_t* n) { *n = 0; return OK; }
AIUpti_ResultTypes aiuptiFlushAllActivities() { std::abort(); }
"""


def test_a_library_that_crashes_costs_its_own_process_only(tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "crashing.cpp", tmp_path / "libcrashing.so"
    source.write_text(CRASHING)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    done, document = run_selftest(tmp_path, "--library", str(library))
    assert done.returncode == 1
    assert document["died"]["session"] == {"how": "crashed", "call": "aiuptiFlushAllActivities", "signal": 6}


def outcome_of(library: pathlib.Path, findings: list[Any]) -> Outcome:
    return Outcome(str(library), True, 1.0, Result(), findings)


def test_what_was_found_is_kept_for_the_same_file_of_the_same_size(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = tmp_path / "libaiupti.so"
    library.write_bytes(b"x" * 100)
    assert cache.known([str(library)]) == {}
    findings = judge({"disable_first": disabled_first(flush_code=7)})
    assert cache.keep(outcome_of(library, findings)) is None
    assert cache.known([str(library)])["variations"] == ["flush_when_disabled=fail"]
    assert cache.known([str(library)])["final_flush"] is False
    library.write_bytes(b"x" * 101)
    assert cache.known([str(library)]) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"format": 1}', b"\xff\xfe"])
def test_a_corrupt_cache_is_as_if_it_were_not_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = tmp_path / "libaiupti.so"
    library.write_bytes(b"x")
    assert cache.keep(outcome_of(library, [])) is None
    cache.file_of(str(library)).write_bytes(content)
    assert cache.known([str(library)]) == {}


def disabled_first(**changed: Any) -> dict[str, Any]:
    return {"launches": 20, "at_disable": {}, "flush_code": 0, "at_flush": {}, "once_enabled_again": {}} | changed


@pytest.mark.parametrize(
    ("probe", "variation"),
    [
        (disabled_first(), "discard_at_disable"),
        (disabled_first(flush_code=5), "flush_when_disabled=fail"),
        (disabled_first(once_enabled_again={"compute": 20}), "flush_when_disabled=nothing"),
        (disabled_first(at_flush={"compute": 20}), ""),
    ],
)
def test_what_disabling_first_means(probe: dict[str, Any], variation: str) -> None:
    again = {"launches": 20, "sessions": [{"compute": 20}] * 2, "filled_from_before": 0}
    assert variations(judge({"disable_first": probe, "again": again})) == ([variation] if variation else [])


def test_a_limit_of_buffers_is_named_with_its_number() -> None:
    seen = {
        "launches": 2000,
        "buffers": 5,
        "records": {"compute": 90},
        "dropped": [0, 1910],
        "launches_after": 20,
        "records_after": {"compute": 20},
    }
    named = judge({"limit": seen})
    assert variations(named) == ["buffer_limit=5"]
    assert next(f for f in named if f.key == "limit").state == COSTS


def changed(facts: Facts, probe: str, **values: Any) -> Facts:
    return facts | {probe: facts[probe] | values}


def test_a_wait_that_returns_too_early_costs_and_a_foreign_queued_does_not(facts_of: dict[str, Facts]) -> None:
    facts = facts_of[""]
    assert facts["session"]["waits"]["waits"] > 0
    early = judge(changed(facts, "session", waits={"waits": 8, "early": 1}))
    assert [(f.key, f.state) for f in early if f.state != EXPECTED] == [("waits", COSTS)]
    foreign = judge(changed(facts, "session", queued={"records": 40, "of_the_host": 0}))
    assert [(f.key, f.state) for f in foreign if f.state != EXPECTED] == [("clock.queued", HANDLED)]


def test_a_file_that_is_missing_is_wrong_usage(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kineto_spyre", "selftest", "--library", str(tmp_path / "none.so")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "--library names" in done.stderr and "Traceback" not in done.stderr
