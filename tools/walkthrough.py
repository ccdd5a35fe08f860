#!/usr/bin/env python3
"""Runs the commands of a page, in order and in one folder, and puts what they print into the page.

In: a page of docs/tutorial. A block ```sh holds commands, a line each, and a block ```text that follows it what they
printed. Programs beside the page are copied into the folder first. Out: the page with each such text replaced; the test
of the page uses `run` alone. Errors: RuntimeError with the output where a command fails.

    tools/walkthrough.py docs/tutorial/why-is-a-step-slow.md
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```sh\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, str | None]]:
    """The blocks of a page: commands, and what the page says that they print."""
    return [(found["commands"], found["printed"]) for found in BLOCK.finditer(page)]


def run(page: pathlib.Path, folder: pathlib.Path, environment: dict[str, str]) -> list[str]:
    """Runs the commands of a page; returns what each block printed.

    Raises:
        RuntimeError: a command failed.
    """
    for program in page.parent.glob("*.py"):
        shutil.copy(program, folder)
    printed = []
    for block, _ in commands(page.read_text()):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode not in (0, 141):  # 141: `| head` has seen enough
            raise RuntimeError(f"{block}ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
        printed.append(done.stdout)
    return printed


def environment(*folders: pathlib.Path) -> dict[str, str]:
    """This program's environment, with these folders before the others on the PATH."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONSAFEPATH": "1", "KINETO_LOG_LEVEL": "6", "PYTHONWARNINGS": "ignore"}


def filled(page: str, printed: list[str]) -> str:
    """The page with what its commands printed."""
    left = iter(printed)

    def put(found: re.Match[str]) -> str:
        text = next(left)
        return found[0] if found["printed"] is None else f"```sh\n{found['commands']}```\n\n```text\n{text}```\n"

    return BLOCK.sub(put, page)


if __name__ == "__main__":
    chosen = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        found = run(chosen, pathlib.Path(place), environment(pathlib.Path(sys.executable).parent, *sys.argv[2:]))
    chosen.write_text(filled(chosen.read_text(), found))
