"""The table of environment variables: doctor and the page in docs are made of one source."""

from __future__ import annotations

import pathlib

import pytest

from kineto_spyre import _environment, _known_variables
from kineto_spyre.cli import main

PAGE = pathlib.Path(__file__).parents[3] / "docs/reference/variables.md"


def test_the_page_shows_the_table():
    """To bring it up to date, put these rows into it."""
    expected = [
        f"| {row.tool} | `{row.setting}` | {row.effect} | {row.cost} |".replace("PF|VF", "PF\\|VF").replace(
            "VF|MOCK", "VF\\|MOCK"
        )
        for row in _known_variables.rows()
    ]
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert shown[0] == "| of | setting | effect | cost |" and shown[1:] == expected


def test_each_row_says_effect_and_cost_and_each_tool_has_some():
    rows = _known_variables.rows()
    assert all(row.effect and row.cost for row in rows)
    assert {row.tool for row in rows} >= {"PyTorch", "torch-spyre", "flex", "aiu-smi", "acelyzer", "kineto-spyre"}
    own = [row.setting for row in rows if row.tool == "kineto-spyre"]
    assert own == [variable.name for variable in _environment.VARIABLES]
    assert len({(row.tool, row.setting) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, []),
        ({"SENCORES": "8"}, ["SENCORES=N"]),
        ({"TORCH_LOGS": "+recompiles,graph_breaks"}, ["TORCH_LOGS=recompiles", "TORCH_LOGS=graph_breaks"]),
        ({"TORCH_LOGS": "aot"}, []),
        ({"KINETO_SPYRE_BUFFER_MB": "64"}, ["KINETO_SPYRE_BUFFER_MB"]),
    ],
)
def test_what_is_set_is_told_by_its_value(environment, settings):
    found = _known_variables.in_force(environment)
    assert [name for name, _, _ in found] == list(environment)
    assert [row.setting for _, _, about in found for row in about] == settings


def test_doctor_lists_them_all(capsys):
    assert main(["doctor", "--variables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for row in _known_variables.rows():
        place = lines.index(f"  {row.setting}")
        assert lines[place + 1] == f"      {row.effect}"
