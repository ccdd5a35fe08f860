"""Sphinx builds these pages as a site: `make docs`, then open build/docs/index.html.

A line `<!-- generated: NAME -->` of a page is replaced by what tools/reference.py makes of the sources. The Python
reference is made of the docstrings of this checkout; torch and numpy need not be installed.
"""

from __future__ import annotations

import pathlib
import re
import sys

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tools")]

import reference  # noqa: E402

project = "kineto-spyre"
_pyproject = (_ROOT / "pyproject.toml").read_text()
release = version = re.findall(r'^version = "(.*)"$', _pyproject, re.MULTILINE)[0]
copyright = "the kineto-spyre authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
_mocked = mock(["numpy", "orjson", "pyarrow", "torch"])
_mocked.__enter__()  # for good: names are also looked up outside of autodoc
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
default_role = "code"  # single backticks of the docstrings
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "kineto-spyre"
exclude_patterns = ["images"]


def setup(app: Sphinx) -> None:
    """Puts what is generated into the pages."""

    def filled(app: Sphinx, page: str, content: list[str]) -> None:
        content[0] = reference.fill(content[0])

    app.connect("source-read", filled)
