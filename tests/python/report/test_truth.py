"""Idle time gets its true cause: random programs on the emulated Spyre, which knows why each gap was there."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

PROGRAMS = 100


def test_idle_time_of_random_programs_gets_its_true_cause():
    script = pathlib.Path(__file__).with_name("truth.py")
    ended = subprocess.run(
        [sys.executable, str(script), str(PROGRAMS), "1"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["programs"] == PROGRAMS and found["idle"] > 0
    assert found["classified"] >= 0.9 * found["idle"], found
    assert found["agreeing"] >= 0.99 * found["classified"], found
    # The host's idle time outweighs the rest by far: each cause must hold by itself, too.
    expected = {"host", "synchronisation", "launch latency", "queue wait", "copy", "other stream"}
    assert set(found["by_cause"]) == expected
    for cause, (true_ns, agreed) in found["by_cause"].items():
        assert agreed >= 0.9 * true_ns, (cause, found)
