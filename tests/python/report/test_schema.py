"""Every key of the facts is in the schema's page (docs/reference/report.md), at any depth."""

from __future__ import annotations

import pathlib
import re

import many_ranks
import test_changes
import test_report
from hand_made_work import as_bytes

from kineto_spyre.report import compare, make, many

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "reference" / "report.md").read_text()
# Keys that are data: kinds of work, causes, names of parts.
DATA = {"by_kind", "parts", "bound", "explained"}


def keys(value, told=True):
    if isinstance(value, dict):
        for key, one in value.items():
            if told:
                yield key
            yield from keys(one, not (key in DATA and isinstance(one, dict)))
    elif isinstance(value, list):
        for one in value[:3]:
            yield from keys(one)


def undocumented(facts, heading):
    _, _, section = PAGE.partition(heading)
    section = section.partition("\n## ")[0] if heading != "# The report" else PAGE.partition("\n## Two traces")[0]
    known = set(re.findall(r"`([a-z_0-9]+)(?:\[\]\.[a-z]+)?`", section))
    return {key for key in keys(facts) if key not in known}


def test_the_facts_of_a_trace():
    marks = [test_report.slice_("user_annotation", f"ProfilerStep#{n}", 50 * n, 50) for n in range(6)]
    assert undocumented(make(as_bytes(test_report.EVENTS + marks)).facts, "# The report") == set()


def test_the_facts_of_two_traces():
    found = compare(test_changes.run_of(5), test_changes.run_of(5, b=60)).facts
    assert undocumented(found, "## Two traces") == set()


def test_the_facts_of_many_ranks(tmp_path):
    many_ranks.write(tmp_path / "run", 3, 2, {(1, None): (90, 0)})
    assert undocumented(many(tmp_path / "run").facts, "## Many ranks") == set()
