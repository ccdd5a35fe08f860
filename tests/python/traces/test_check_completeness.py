"""What `kineto-spyre check` says of a trace whose profiler missed something."""

from __future__ import annotations

import json
import re

import pytest
from hand_made import Trace

from kineto_spyre import diagnostics
from kineto_spyre.cli import main
from kineto_spyre.traces import check

MISSING = [code for code, row in diagnostics.definitions().items() if row.missing]
HARMLESS = [code for code, row in diagnostics.definitions().items() if not row.missing]


def checked(tmp_path, ours):
    t = Trace()
    t.head["kineto_spyre"] = ours
    path = tmp_path / "trace.json"
    path.write_text(t.text())
    return check(str(path))


def told(report):
    return [
        (found["rule"], found["severity"], found["count"], found["what"], found["do"]) for found in report["findings"]
    ]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("code", MISSING)
def test_each_diagnostic_that_means_missing_data_is_a_fault_in_its_own_words(tmp_path, code, count):
    details = {"result": 7, "kinds": "compute"}
    one = diagnostics.Diagnostic(code, count, details)
    entry = {"code": code, "count": count, "details": details}
    report = checked(tmp_path, {"complete": False, "diagnostics": [entry]})
    assert told(report) == [("incomplete", "fault", count, one.what, one.advice)]
    assert report["findings"][0]["code"] == code
    assert report["sound"] is False and report["complete"] is False


@pytest.mark.parametrize("code", HARMLESS)
def test_a_diagnostic_without_missing_data_is_no_finding(tmp_path, code):
    report = checked(tmp_path, {"complete": True, "diagnostics": [{"code": code, "count": 1, "details": {}}]})
    assert told(report) == [] and report["sound"] is True and report["complete"] is True


def test_all_of_several_are_told_and_a_count_of_0_is_not(tmp_path):
    listed = [{"code": code, "count": n, "details": {}} for code, n in [("records_dropped", 2), ("buffers_late", 0)]]
    report = checked(tmp_path, {"complete": False, "diagnostics": [*listed, {"code": "buffers_oversized", "count": 1}]})
    assert [(found["code"], found["count"]) for found in report["findings"]] == [
        ("records_dropped", 2),
        ("buffers_oversized", 1),
    ]


def test_incomplete_without_a_reason_is_never_sound(tmp_path):
    for ours in ({"complete": False}, {"complete": False, "diagnostics": []}, {"complete": False, "diagnostics": [7]}):
        report = checked(tmp_path, ours)
        assert [found["rule"] for found in report["findings"]] == ["incomplete"] and report["sound"] is False


def test_a_code_of_a_later_release_is_told_by_its_name(tmp_path):
    report = checked(tmp_path, {"complete": False, "diagnostics": [{"code": "sand_in_the_gears", "count": 2}]})
    [finding] = report["findings"]
    assert finding["what"] == "sand_in_the_gears was found 2 times." and "newer kineto-spyre" in finding["do"]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("dropped, invalid", [("dropped", "invalid"), ("lost", "refused")])
def test_counts_of_older_releases_are_understood(tmp_path, dropped, invalid, as_text):
    ours = {dropped: 3, invalid: {"start 0": 1}}
    report = checked(tmp_path, json.dumps(ours) if as_text else ours)
    assert [(found["count"], found["what"]) for found in report["findings"]] == [
        (3, "3 records were dropped because the buffers were full."),
        (1, "1 record was left out because what libaiupti wrote was invalid."),
    ]
    assert report["sound"] is False


def test_the_command_prints_the_sentence_and_fails(tmp_path, capsys):
    t = Trace()
    code = {"code": "library_not_found", "count": 1, "details": {"tried": "a\x1b[31m.so"}}
    t.head["kineto_spyre"] = {"complete": False, "diagnostics": [code]}
    path = tmp_path / "trace.json"
    path.write_text(t.text())
    assert main(["check", str(path)]) == 1
    out = capsys.readouterr().out
    assert "FAULT  incomplete: No usable libaiupti was found" in out and r"Tried: a\x1b[31m.so." in out
    assert "1 kind of fault, 1 in all." in out


FAULTS = """
import sys, warnings, torch, kineto_spyre
from kineto_spyre import emulator
warnings.simplefilter("ignore")
emulator.enable(devices=1)
x = torch.ones(8, 8).to("spyre")
with emulator.faults(**{sys.argv[1]: 0 if sys.argv[1] == "no_buffers" else "300ms"}):
    with kineto_spyre.profile_spyre() as prof:
        for _ in range(4):
            x + x
prof.export_chrome_trace(sys.argv[2])
"""


@pytest.mark.parametrize(
    "fault, codes",
    [
        ("complete_late", {"buffers_late", "buffers_not_returned"}),
        ("no_buffers", {"buffer_requests_refused", "records_dropped"}),
    ],
)
def test_a_session_that_missed_records_is_said_to_be_incomplete(tmp_path, fault, codes, run_python):
    path = tmp_path / "trace.json"
    run_python(FAULTS, fault, path)
    report = check(str(path))
    assert report["complete"] is False and report["sound"] is False
    incomplete = [found for found in report["findings"] if found["rule"] == "incomplete"]
    assert {found["code"] for found in incomplete} & codes
    for finding in report["findings"]:
        assert finding["count"] > 0 and not re.search(r"\b0\b", finding["what"])
