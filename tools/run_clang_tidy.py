#!/usr/bin/env python3
"""clang-tidy over every source of csrc/ that the build compiles. Exit code 1 if it finds anything.

Configures the build once (nothing is compiled), for the flags of each file.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(sys.prefix) / "bin" if sys.prefix != sys.base_prefix else ROOT / ".venv" / "bin"


def main(arguments: list[str]) -> int:
    """Names in `arguments` (such as capture) keep it to those rooms."""
    build = ROOT / "build" / "tidy"
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    pybind11 = subprocess.run(
        [BIN / "python", "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-Dpybind11_DIR={pybind11}"],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    database = json.loads((build / "compile_commands.json").read_text())
    rooms = {ROOT / "csrc" / room for room in arguments} or {ROOT / "csrc"}
    files = sorted({e["file"] for e in database if rooms & set(pathlib.Path(e["file"]).parents)})

    def tidy(file: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        command = [BIN / "clang-tidy", "--quiet", "-p", build, file]
        return file, subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, done in pool.map(tidy, files):
            if done.returncode:
                failed += 1
                print(f"{pathlib.Path(file).relative_to(ROOT)}\n{done.stdout}")
    print(f"clang-tidy: {len(files)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
