"""Runs the probes in a process of their own, and in another one for the rest if one of them ends it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

# Seconds. A card's first ops may have to be compiled, so the setup may take longer than a probe.
ALL_S = 55.0
SETUP_S = 40.0
PROBE_S = 8.0
DEATHS = 2  # in one and the same function, before the rest is left out


class Result:
    """What was found out, and how it ended."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.died: dict[str, dict[str, Any]] = {}  # by probe: how ("hung", "crashed", "ended"), call, signal
        # By probe: an exception's type and text; holds what a user may not want told.
        self.troubles: dict[str, str] = {}
        self.unusable = ""


def run_probes(
    library: str, emulated: bool, probes: list[str], progress: Callable[[str], None], all_s: float = ALL_S
) -> Result:
    """Never raises for what a library does; `unusable` holds a sentence if there is no device to test with."""
    result = Result()
    end = time.monotonic() + all_s
    left = list(probes)
    while left and time.monotonic() < end and not result.unusable:
        ended = _one_process(library, emulated, left, result, end, progress)
        if ended is None:
            break
        probe, how = ended
        if probe == "setup":
            how_long = "within its time" if how["how"] == "hung" else "and ended the process"
            result.unusable = f"The device was not ready {how_long}; check that a plain op runs on it."
            break
        result.died[probe] = how
        calls = [seen.get("call") for seen in result.died.values()]
        if calls.count(how.get("call")) >= DEATHS:
            break
        left = left[left.index(probe) + 1 :]
    return result


def _one_process(
    library: str, emulated: bool, probes: list[str], result: Result, end: float, progress: Callable[[str], None]
) -> tuple[str, dict[str, Any]] | None:
    """None if it did all; else the probe that ended it, and how."""
    reading, writing = os.pipe()
    request = {"library": library, "emulated": emulated, "probes": probes, "out": writing}
    child = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}._child", json.dumps(request)],
        pass_fds=[writing],
        env={**os.environ, "PYTHONSAFEPATH": "1"},  # no module of the folder that the user happens to be in
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(writing)
    step, call, done = "setup", None, False
    limit = [min(end, time.monotonic() + SETUP_S)]  # moved by each step
    try:
        for line in _lines(reading, limit):
            if "step" in line:
                step, call = line["step"], None
                progress(step)
                if step != "setup":
                    limit[0] = min(end, time.monotonic() + PROBE_S)
            call = line.get("call", call)
            if "facts" in line:
                result.facts[line["facts"]] = line["values"]
            if "trouble" in line:
                result.troubles[line["trouble"]] = line["error"]
            result.unusable = line.get("unusable", result.unusable)
            done = done or "done" in line or "unusable" in line
        hung = time.monotonic() >= limit[0]
        if not hung and not done:
            child.wait(timeout=2)
    except subprocess.TimeoutExpired:
        hung = True
    finally:
        os.close(reading)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
    if done:
        return None
    if hung:
        return step, {"how": "hung", "call": call}
    if code < 0:
        return step, {"how": "crashed", "call": call, "signal": -code}
    return step, {"how": "ended", "call": call}


def _lines(reading: int, limit: list[float]) -> Any:
    """The lines that come before limit[0], which the caller may move at each of them; ends at the end of the pipe."""
    kept = b""
    while (left := limit[0] - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            return
        data = os.read(reading, 1 << 16)
        if not data:
            return
        *whole, kept = (kept + data).split(b"\n")
        for line in whole:
            yield json.loads(line)
