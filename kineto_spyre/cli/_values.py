"""Values that several commands' options take."""

from __future__ import annotations

import argparse


def port(text: str) -> int:
    """A port to listen on; 0 for any.

    Raises:
        ArgumentTypeError: it is none.
    """
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; pass a number from 0 to 65535")
    return number
