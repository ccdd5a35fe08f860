"""`kineto-spyre device`: the emulated Spyre's cost model, in the emulator's own words."""

from __future__ import annotations

import argparse

SUMMARY = "print the emulated Spyre's cost model"
DESCRIPTION = (
    "Prints how the emulated Spyre decides how long a kernel or a copy lasts, with the source of each figure. Exit "
    "code: 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace) -> int:
    from .. import _emulator

    print(_emulator.describe_model().rstrip())
    return 0
