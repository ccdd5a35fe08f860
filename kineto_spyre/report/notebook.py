"""`kineto_spyre.show`: a report where you are. In a notebook it is a page in the cell, elsewhere text."""

from __future__ import annotations

import sys

from kineto_spyre.report.shown import Shown
from kineto_spyre.report.terminal import show as show_text


def in_a_notebook() -> bool:
    """Whether a kernel of Jupyter's runs this program."""
    if "IPython" not in sys.modules:  # a notebook's kernel has imported it
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def display(report: Shown) -> None:
    """Shows a report."""
    if in_a_notebook():
        from IPython.display import display as display_cell

        display_cell(report)
    else:
        show_text(report.sections())
