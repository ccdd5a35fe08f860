"""Which PyTorch a build uses: the one that is installed, found without importing it.

An isolated build (pip's default) hides the environment's packages from the interpreter, but sysconfig still tells
where they are. So the wheel is built against the torch beside which it will be installed. KINETO_SPYRE_TORCH_DIR, a
torch package folder, comes before both.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
import sysconfig


def torch_dir() -> pathlib.Path | None:
    """The folder of the torch package to build against, or None."""
    candidates = []
    if named := os.environ.get("KINETO_SPYRE_TORCH_DIR"):
        candidates.append(pathlib.Path(named))
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        candidates.append(pathlib.Path(spec.origin).parent)
    candidates += [pathlib.Path(sysconfig.get_path(p)) / "torch" for p in ("platlib", "purelib")]
    return next((d for d in candidates if (d / "version.py").is_file()), None)


def torch_version(directory: pathlib.Path) -> str:
    """The full version, for example "2.13.0"."""
    text = (directory / "version.py").read_text()
    match = re.search(r"^__version__\s*=\s*['\"](\d+\.\d+\.\d+)", text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"{directory}/version.py holds no version of the form X.Y.Z")
    return match.group(1)


if __name__ == "__main__":
    found = torch_dir()
    if found is None:
        raise SystemExit("no torch is installed; install the release to build for, such as torch==2.13.0")
    print(found if "--dir" in sys.argv else torch_version(found))
