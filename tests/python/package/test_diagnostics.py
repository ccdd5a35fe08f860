"""The table of diagnostics, and the sentences that are made of it."""

import re
import string

import pytest

from kineto_spyre import diagnostics
from kineto_spyre.diagnostics import Diagnostic

DEFINITIONS = list(diagnostics.definitions().values())


@pytest.mark.parametrize("row", DEFINITIONS, ids=lambda row: row.code)
def test_each_row_of_the_table_makes_whole_sentences(row):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", row.code)
    assert row.severity in ("error", "warning", "note")
    assert isinstance(row.missing, bool)
    names = {name for text in (row.one, row.many, row.do) for _, name, _, _ in string.Formatter().parse(text) if name}
    details = {name: f"<{name}>" for name in names if name != "count"}
    for count in (1, 2):
        sentence = Diagnostic(row.code, count, details).sentence
        assert "unknown" not in re.sub("kind is unknown|kinds are unknown", "", sentence)
    for text in (row.one, row.many, row.do):
        assert text[0].isupper() or text.startswith(("1 ", "{", "libaiupti", "aiupti", "kineto")), text
        assert text.endswith(".") and "..." not in text and "(s)" not in text and "  " not in text
    assert "{count}" not in row.one


@pytest.mark.parametrize("row", DEFINITIONS, ids=lambda row: row.code)
def test_an_error_means_missing_data(row):
    assert row.missing or row.severity != "error"


def test_one_and_many():
    assert Diagnostic("records_dropped").sentence == (
        "1 record was dropped because the buffers were full. Raise KINETO_SPYRE_BUFFER_MB."
    )
    assert Diagnostic("records_dropped", 476).sentence == (
        "476 records were dropped because the buffers were full. Raise KINETO_SPYRE_BUFFER_MB."
    )


def test_details_make_the_sentence_definite_and_a_lost_one_does_not_hide_it():
    assert Diagnostic("clock_corrected", 1, {"device": 1, "offset_ns": -700}).what == (
        "The clock of device 1 was off by -700 ns against the host's, so its times were corrected."
    )
    assert "device unknown was off by 5 ns" in Diagnostic("clock_corrected", 1, {"offset_ns": 5}).what


def test_the_code_of_a_newer_release_is_missing_data_until_it_is_known_better():
    found = Diagnostic("moon_phase", 2)
    assert found.missing and found.severity == "warning"
    assert found.what == "moon_phase was found 2 times."
    assert "newer kineto-spyre" in found.advice


def test_a_damaged_list_gives_what_can_be_read():
    found = diagnostics.parse(
        [{"code": "buffers_late", "count": 2}, 7, {"count": 1}, {"code": "x", "count": 0}, {"code": "y", "details": 3}]
    )
    assert found == [Diagnostic("buffers_late", 2, {})]
    assert not diagnostics.is_complete(found)
    assert diagnostics.is_complete([Diagnostic("long_kernels", 3)])
    assert diagnostics.is_complete([])
