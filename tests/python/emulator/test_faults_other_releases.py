"""A session on a libaiupti that behaves as another release might: it is whole, or it says what is missing."""

from __future__ import annotations

import collections
import json
import pathlib
import re
import threading
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kineto_spyre
from kineto_spyre import emulator
from kineto_spyre.traces.checking import check

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


# Each variation that the reference lists: the codes of the diagnostics, and which categories have other counts.
EXPECTED: dict[str, tuple[Any, list[str], dict[str, int]]] = {
    "discard_at_disable": (True, [], {}),
    "flush_when_disabled": ("nothing", [], {}),
    "rotate_at_flush": (True, [], {}),
    "end_code": (77, [], {}),
    "buffer_limit": (1, [], {}),
    "buffer_per_thread": (True, [], {}),
    "null_thread_ids": (True, ["no_thread_ids"], {}),
    "other_namespace": (True, ["other_process_id"], {}),
    "other_process": (True, ["records_of_other_processes"], dict.fromkeys(WHOLE, 0)),
    "wrong_thread_ids": (True, [], {}),  # one thread runs ops, so the time tells which
    "api_field_order": (True, ["invalid_start_zero", "invalid_unreasonable_time"], {"privateuse1_runtime": 0}),
    "attributes": (True, ["records_longer_than_built"], {}),
    "short_compute": (True, ["records_shorter_than_built"], {}),
    "collectives": (True, [], {}),
    "dmi_dmo": (True, [], {"gpu_memcpy": 2 * WHOLE["kernel"] + 1}),
    "prepare": (True, [], {}),
}
OTHER_VALUES: list[tuple[str, Any, list[str]]] = [
    ("flush_when_disabled", "fail", ["flush_after_disable_failed"]),
    ("end_code", 1, []),
    ("end_code", 1023, []),
    ("buffer_limit", 3, []),
]


def listed_variations() -> list[str]:
    """The keys of the table of variations in docs/reference/faults.md."""
    page = (pathlib.Path(__file__).parents[3] / "docs" / "reference" / "faults.md").read_text()
    section = page.split("## What another release of libaiupti might do")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)=", section, re.MULTILINE)


def test_each_variation_of_the_reference_has_an_expectation() -> None:
    assert sorted(listed_variations()) == sorted(EXPECTED)


def check_three_sessions(key: str, value: Any, codes: list[str], other: dict[str, int], path: pathlib.Path) -> None:
    with emulator.faults(**{key: value}):
        for _ in range(3):
            assert run_session(path) == WHOLE | other
            assert last().dropped == 0
            assert [d.code for d in last().diagnostics] == codes
            report = check(path)
            joined = other.get("privateuse1_runtime") != 0
            assert launched(path) == joined
            assert last().complete == report["complete"] == joined
            if joined:
                assert report["findings"] == []
            else:  # what the session says is found in the file, too
                assert set(codes) <= {finding["code"] for finding in report["findings"] if "code" in finding}
    assert run_session(path) == WHOLE  # mended
    assert last().complete


def launched(path: pathlib.Path) -> bool:
    """Whether each kernel has the op that launched it, and an arrow from its launch; False if none has either."""
    events = json.loads(path.read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    with_op = sum("External id" in e["args"] for e in kernels)
    arrows = sum(e.get("cat") == "ac2g" and e["ph"] == "f" for e in events)
    whole = with_op == len(kernels) and arrows >= len(kernels)
    assert whole or (with_op == 0 and arrows == 0)
    return whole and bool(kernels)


@pytest.mark.parametrize("key", listed_variations())
def test_each_of_three_sessions_is_whole_or_says_what_is_missing(key: str, tmp_path: pathlib.Path) -> None:
    value, codes, other = EXPECTED[key]
    check_three_sessions(key, value, codes, other, tmp_path / "trace.json")


@pytest.mark.parametrize(("key", "value", "codes"), OTHER_VALUES)
def test_other_values_of_a_variation_too(key: str, value: Any, codes: list[str], tmp_path: pathlib.Path) -> None:
    check_three_sessions(key, value, codes, {}, tmp_path / "trace.json")


def test_a_limit_of_buffers_that_loses_records_is_said(tmp_path: pathlib.Path) -> None:
    with emulator.faults(buffer_limit=1, no_buffers=0):
        for _ in range(3):
            assert run_session(tmp_path / "trace.json")["kernel"] < WHOLE["kernel"]
            assert not last().complete
            assert last().dropped > 0
            assert "records_dropped" in [d.code for d in last().diagnostics]
    assert run_session(tmp_path / "trace.json") == WHOLE


def test_five_small_buffers_hold_what_they_can_and_the_rest_is_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINETO_SPYRE_BUFFER_MB", "0.25")
    launches = 2000
    device = emulator.Device(0)
    path = tmp_path / "trace.json"
    with emulator.faults(buffer_limit=5):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            for _ in range(launches):
                device.launch("k", ns=1000)
            device.synchronize()
    prof.export_chrome_trace(str(path))
    session = last()
    assert 0 < session.captured["kernel"] < launches
    calls_and_kernels = session.captured["kernel"] + session.captured["runtime"]
    assert calls_and_kernels + session.dropped >= 2 * launches  # and waits
    assert not session.complete and not check(path)["complete"]
    assert f"{session.dropped} records" in next(d for d in session.diagnostics if d.code == "records_dropped").sentence


@torch.library.custom_op("kineto_spyre_test::meet", mutates_args=())
def meet(x: torch.Tensor) -> torch.Tensor:
    """An op in which two threads meet, and launch while both are in it."""
    _both.wait()
    y = x * 2
    _both.wait()
    return y


_both = threading.Barrier(2)


@pytest.mark.parametrize("fault", ["other_namespace", "wrong_thread_ids"])
def test_thread_ids_that_several_threads_ops_do_not_have_are_said(fault: str) -> None:
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    x = torch.ones(8, 8, device="spyre")
    with emulator.faults(fault):
        with profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], experimental_config=config
        ) as prof:
            threads = [threading.Thread(target=meet, args=(x,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            torch.spyre.synchronize()
        kernels = [e for e in prof.events() if "kernel" in e.name]
    assert len(kernels) == 2
    said = next(d for d in last().diagnostics if d.code == "launches_of_unknown_threads")
    assert said.sentence.startswith(
        "2 launches name threads that run no ops, while several other threads had an op open"
    )


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


def test_more_buffers_over_the_budget_than_can_be_counted_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many threads holds a buffer of its own until all have one, and the budget has room for few."""
    monkeypatch.setenv("KINETO_SPYRE_BUFFER_MB", "1")
    count = 40
    everybody = threading.Barrier(count + 1)
    x = torch.ones(8, 8, device="spyre")

    def work() -> None:
        torch.relu(x)
        everybody.wait()  # each has written
        everybody.wait()  # and ends after the session, so that none takes over another's buffer

    with emulator.faults(buffer_per_thread=True):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]):
            threads = [threading.Thread(target=work) for _ in range(count)]
            for thread in threads:
                thread.start()
            everybody.wait()
            torch.spyre.synchronize()
        everybody.wait()
        for thread in threads:
            thread.join()
    assert not last().complete
    said = next(d for d in last().diagnostics if d.code == "buffers_uncounted")
    assert "because too many buffers beyond the budget were in use at a time" in said.sentence
