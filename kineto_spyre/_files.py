"""Files that are there when they are complete, or not at all.

In: a path. Out: a file to write to, beside it; it takes the path's place when the block ends, and is gone if the block
fails. Mode: of the file that it replaces, else as the umask says.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def new_file(output: str | os.PathLike[str], force: bool) -> Iterator[BinaryIO]:
    """A file that takes the place of `output`, or is the first there.

    Raises:
        FileExistsError: it exists, and `force` is False.
        OSError: it can't be written.
    """
    output = pathlib.Path(output)
    partial = output.with_name(f".{output.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(partial, "xb") as out:
            yield out
        if output.exists():
            if not force:
                raise FileExistsError(os.fspath(output))
            shutil.copymode(output, partial)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
