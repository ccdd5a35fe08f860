"""Unpacks an sdist over an earlier one, and touches only what changed: unpack_sdist.py SDIST FOLDER.

A build in a folder that stays compiles only what changed, though the wheel still comes from what the sdist holds.
"""

from __future__ import annotations

import pathlib
import sys
import tarfile


def unpack(sdist: pathlib.Path, folder: pathlib.Path) -> None:
    held = set()
    with tarfile.open(sdist) as archive:
        for member in archive:
            reader = archive.extractfile(member)
            if reader is None:
                continue
            target = folder.joinpath(*pathlib.PurePosixPath(member.name).parts[1:])
            held.add(target)
            content = reader.read()
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    for path in folder.rglob("*"):
        if path.is_file() and path not in held:
            path.unlink()


if __name__ == "__main__":
    unpack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
