"""Files that commands write."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def new_file(output: pathlib.Path, force: bool) -> Iterator[BinaryIO]:
    """A file that is there when it is whole, or not at all.

    Raises:
        FileExistsError: it is there already, and `force` is False.
        OSError: it can't be written.
    """
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with open(partial, "xb") as out:
            yield out
        if output.exists() and not force:
            raise FileExistsError
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
