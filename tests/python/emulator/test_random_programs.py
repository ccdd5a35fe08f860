"""Random programs with no hang and no surprise: random_programs.py for a few seconds.

RANDOM_PROGRAM_SECONDS=600 for longer.
"""

from __future__ import annotations

import os
import pathlib


def test_random_programs(run_python):
    seconds = os.environ.get("RANDOM_PROGRAM_SECONDS", "10")
    source = pathlib.Path(__file__).with_name("random_programs.py")
    done = run_python(
        "import runpy, sys; sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')",
        str(source),
        seconds,
        timeout=float(seconds) + 240,
    )
    assert int(done.stdout.split()[-2]) > 5, done.stdout
