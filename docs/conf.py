"""Sphinx builds these pages as a site: `make docs`, then open build/docs/index.html."""

from __future__ import annotations

import pathlib
import re

_ROOT = pathlib.Path(__file__).parents[1]

project = "kineto-spyre"
_pyproject = (_ROOT / "pyproject.toml").read_text()
release = version = re.findall(r'^version = "(.*)"$', _pyproject, re.MULTILINE)[0]
copyright = "the kineto-spyre authors"

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "kineto-spyre"
exclude_patterns = ["images"]
