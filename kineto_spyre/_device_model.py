"""`kineto-spyre device`: the emulated Spyre's cost model, in the emulator's own words."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    argparse.ArgumentParser(
        prog="kineto-spyre device",
        description="Prints how the emulated Spyre decides how long a kernel or a copy lasts.",
    ).parse_args(argv)
    from . import _emulator

    print(_emulator.describe_model().rstrip())
    return 0
