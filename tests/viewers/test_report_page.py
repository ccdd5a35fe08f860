"""The report's page in a browser, from disk, without internet: plots, light and dark, on paper."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def report_page(trace_path, tmp_path_factory):
    page = tmp_path_factory.mktemp("report") / "report.html"
    command = [sys.executable, "-P", "-m", "kineto_spyre", "report", str(trace_path), "--html", str(page)]
    subprocess.run(command, check=True, capture_output=True)
    return page


@pytest.fixture
def opened(viewer, report_page):
    """The page in a browser that reaches this one file."""
    viewer.page.route(report_page.as_uri(), lambda route: route.continue_())
    viewer.page.goto(report_page.as_uri())
    return viewer


def colours(page):
    return page.evaluate(
        """() => {
          const style = getComputedStyle(document.querySelector('.kineto-spyre'));
          return [style.color, style.backgroundColor, getComputedStyle(document.body).backgroundColor];
        }"""
    )


def test_the_page_shows_verdicts_plots_and_kernels(opened, trace):
    page = opened.page
    assert page.locator(".verdict p").count() >= 1
    plots = page.locator("svg")
    assert plots.count() >= 3
    for number in range(plots.count()):
        box = plots.nth(number).bounding_box()
        assert box["width"] > 300 and box["height"] > 10
        # No label is cut off: each lies within its plot.
        assert plots.nth(number).evaluate(
            """svg => [...svg.querySelectorAll('text, rect')].every(one => {
              const [mine, whole] = [one.getBoundingClientRect(), svg.getBoundingClientRect()];
              return mine.left >= whole.left - 1 && mine.right <= whole.right + 1 && mine.bottom <= whole.bottom + 1;
            })"""
        )
    text = page.inner_text("body")
    longest = max({event["name"] for event in trace.kernels},
                  key=lambda name: sum(one["dur"] for one in trace.kernels if one["name"] == name))  # fmt: skip
    assert longest in text and "Why device 0 was idle" in text
    # Nothing to scroll to the side.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.errors == [] and opened.refused == []


def test_light_dark_and_paper(opened):
    page = opened.page
    seen = {}
    for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        page.emulate_media(color_scheme=scheme, media=media)
        seen[scheme, media] = colours(page)
    assert seen["light", "screen"] == ["rgb(28, 32, 36)", "rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    assert seen["dark", "screen"] == ["rgb(237, 238, 240)", "rgb(20, 22, 26)", "rgb(20, 22, 26)"]
    assert seen["dark", "print"] == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF") and len(paper) > 10_000
