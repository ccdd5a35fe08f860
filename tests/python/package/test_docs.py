"""The Python code of the how-to pages runs, each page from top to bottom."""

from __future__ import annotations

import pathlib
import re

import pytest

CHECKOUT = pathlib.Path(__file__).parents[3]
DOCS = CHECKOUT / "docs"
PAGES = [CHECKOUT / "README.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]


def python_blocks(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs(run_python, page):
    run_python("\n".join(python_blocks(page)), env={"KINETO_LOG_LEVEL": "6"})


def test_the_pages_that_teach_python_have_code():
    with_code = {page.name for page in PAGES if python_blocks(page)}
    assert {"README.md", "first-profile.md", "profile-your-model.md", "emulated-spyre.md"} <= with_code


def test_pages_link_to_files_that_are_there():
    for page in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_name_files_that_are_there():
    """`csrc/...` in the text of a page: the reader who looks there finds it."""
    named = set()
    for page in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")]:
        if page.name == "peer-suites.md":  # names files of others
            continue
        named |= set(re.findall(r"`((?:csrc|kineto_spyre|tools|tests|benchmarks|docs)/[\w./-]+)`", page.read_text()))
    assert "csrc/trace/clock_alignment.h" in named  # it is looked for, and found
    assert sorted(name for name in named if not (CHECKOUT / name).exists()) == []


def test_the_readme_names_variables_that_there_are():
    from kineto_spyre import _environment

    named = set(re.findall(r"`(KINETO_SPYRE_\w+)", (CHECKOUT / "README.md").read_text()))
    assert "KINETO_SPYRE_BUFFER_MB" in named
    assert named <= {variable.name for variable in _environment.VARIABLES} | set(_environment.BUILD_TIME)
