"""The hand-made traces are a module beside these tests."""

import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))


@pytest.fixture
def run_python():
    """Runs a program in a process of its own, because these tests themselves load no torch."""

    def run(program, *arguments):
        command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return run
