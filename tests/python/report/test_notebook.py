"""A report shows itself in a notebook, and `show` finds out whether it is in one."""

from __future__ import annotations

import sys
import types
from html.parser import HTMLParser

import pytest
from hand_made_work import as_bytes, kernel, launch

import kineto_spyre
from kineto_spyre.report import compare, make

TRACE = as_bytes([launch(10, 1, 0), kernel(12, 20, 1, 0, "<b>bold</b>")])


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("report", [make(TRACE), compare(TRACE, TRACE)], ids=["one", "two"])
def test_a_report_is_one_element_that_styles_nothing_around_it(report):
    text = report._repr_html_()
    tags = Tags(text)
    assert tags.open == [] and tags.seen[:2] == ["div", "style"] and not {"script", "body", "b"} & set(tags.seen)
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    selectors = [
        one.strip() for rule in style.split("}") for one in rule.split("{")[:-1][-1:] for one in one.split(",")
    ]
    assert len(selectors) > 10
    # "body" is the page's own, where the report is all that it holds, and paper's.
    assert all(one.startswith((".kineto-spyre", "body:has(> .kineto-spyre:only-child)")) for one in selectors)


def test_show_prints_outside_a_notebook(capsys):
    kineto_spyre.show(TRACE)
    assert "Verdict" in capsys.readouterr().out
    kineto_spyre.show(TRACE, TRACE)
    assert "What changed" in capsys.readouterr().out


def test_show_displays_within_a_notebook(monkeypatch, capsys):
    shown = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    report = make(TRACE)
    kineto_spyre.show(report)
    assert shown == [report] and capsys.readouterr().out == ""
    ipython.get_ipython = lambda: types.SimpleNamespace()  # IPython in a terminal
    kineto_spyre.show(report)
    assert len(shown) == 1 and "Verdict" in capsys.readouterr().out
