"""A session on a libaiupti that behaves as another release might: it is whole, or it says what is missing."""

from __future__ import annotations

import collections
import json
import pathlib
import re
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kineto_spyre
from kineto_spyre import emulator

pytestmark = pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning")

STEPS = 8
WHOLE = {"kernel": 2 * STEPS, "gpu_memcpy": 1, "privateuse1_runtime": 2 * STEPS + 3}  # launches, one copy, two waits


def program(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(STEPS):
        y = torch.relu(y @ x)
    return y.cpu()


def run_session(path: pathlib.Path) -> dict[str, int]:
    """Profiles the program; how many events of each category its trace has."""
    x = torch.arange(256.0).view(16, 16).div(1000)
    on_device = x.to("spyre")
    torch.spyre.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        result = program(on_device)
    assert torch.equal(result, program(x))
    prof.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    counts = collections.Counter(e["cat"] for e in events if e["ph"] == "X" and "cat" in e)
    return {category: counts[category] for category in WHOLE}


def last() -> Any:
    session = kineto_spyre.last_session()
    assert session is not None
    return session


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"discard_at_disable": True}, ""),
        ({"flush_when_disabled": "nothing"}, ""),
        ({"flush_when_disabled": "fail"}, "flush_after_disable_failed"),
        ({"rotate_at_flush": True}, ""),
        ({"buffer_limit": 1}, ""),
        ({"buffer_per_thread": True}, ""),
        ({"null_thread_ids": True}, None),  # whether it is told depends on what was joined
        ({"attributes": True}, "records_longer_than_built"),
    ],
    ids=str,
)
def test_each_of_three_sessions_is_whole(fault: dict[str, Any], code: str | None, tmp_path: pathlib.Path) -> None:
    with emulator.faults(**fault):
        for _ in range(3):
            assert run_session(tmp_path / "trace.json") == WHOLE
            assert last().complete
            assert last().dropped == 0
            if code is not None:
                assert [d.code for d in last().diagnostics] == ([code] if code else [])
    assert run_session(tmp_path / "trace.json") == WHOLE  # mended
    assert last().complete


@pytest.mark.parametrize(
    ("fault", "missing"),
    [
        ({"api_field_order": True}, "privateuse1_runtime"),
        ({"short_compute": True}, "kernel"),
        ({"end_code": 1}, ""),
        ({"end_code": 77}, ""),
        ({"buffer_limit": 1, "no_buffers": 0}, "kernel"),
    ],
    ids=str,
)
def test_a_session_is_whole_or_says_what_is_missing(
    fault: dict[str, Any], missing: str, tmp_path: pathlib.Path
) -> None:
    with emulator.faults(**fault):
        for _ in range(2):
            seen = run_session(tmp_path / "trace.json")
            if seen == WHOLE and last().complete:
                continue
            if not missing:
                assert seen == WHOLE
            else:
                assert seen[missing] < WHOLE[missing]
            assert not last().complete
            assert any(d.missing for d in last().diagnostics)
            assert re.search(r"records? .*(left out|dropped|missing)", " ".join(last().warnings))
    assert run_session(tmp_path / "trace.json") == WHOLE


def test_a_key_alone_asks_for_what_takes_0_or_1(tmp_path: pathlib.Path) -> None:
    with emulator.faults("attributes"):
        run_session(tmp_path / "trace.json")
    assert [d.code for d in last().diagnostics] == ["records_longer_than_built"]
    with pytest.raises(ValueError, match="'drop' takes a value, written drop=value"), emulator.faults("drop"):
        pass


def test_dmi_and_dmo_are_recorded_beside_each_execution(tmp_path: pathlib.Path) -> None:
    """Of a kernel's three records none is lost, whatever the trace calls them."""
    with emulator.faults(dmi_dmo=True):
        seen = run_session(tmp_path / "trace.json")
        assert seen["kernel"] + seen["gpu_memcpy"] == 3 * WHOLE["kernel"] + 1
        assert seen["privateuse1_runtime"] == WHOLE["privateuse1_runtime"]
