"""Every fault of the emulated Spyre, as who profiles a program sees it: the program's result is right, the CPU's part
of the trace whole, and what is missing or wrong of the device's part is counted and said in a warning."""

from __future__ import annotations

import dataclasses
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.profiler import profile

import kineto_spyre
from kineto_spyre import diagnostics, emulator

from .conftest import ACTIVITIES, Trace, session

pytestmark = [
    pytest.mark.usefixtures("next_session_is_well"),
    pytest.mark.filterwarnings("ignore::kineto_spyre.SpyreProfilerWarning"),
]

Export = Callable[[profile], Trace]
STEPS = 8
KERNELS = 2 * STEPS  # a product and a relu each; every second is a relu


def program(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(STEPS):
        y = torch.relu(y @ x)
    return y.cpu()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(256.0).view(16, 16).div(1000)


def run(x: torch.Tensor, export: Export, **faults: Any) -> Trace:
    """The program under a profile while things go wrong: what holds whatever they are."""
    on_device = x.to("spyre")
    torch.spyre.synchronize()
    with warnings.catch_warnings(record=True) as caught, emulator.faults(**faults):
        warnings.simplefilter("always")
        with profile(activities=ACTIVITIES) as prof:
            result = program(on_device)
    assert torch.equal(result, program(x))
    trace = export(prof)
    assert len(trace.named("aten::mm")) == STEPS
    told = [str(w.message) for w in caught if issubclass(w.category, kineto_spyre.SpyreProfilerWarning)]
    assert told == session().warnings
    assert session().diagnostics == diagnostics.parse(trace.metadata["diagnostics"])
    assert session().complete == trace.metadata["complete"]
    assert session().captured["kernel"] == len(trace.kernels)
    details = session().details
    assert details["records_read"] == (
        sum(details["captured"].values())
        + sum(details["invalid"].values())
        + details["out_of_window"]
        + details["not_requested"]
    )
    launches = {
        e["args"]["correlation"]: e["ts"] for e in trace.of("privateuse1_runtime") if "correlation" in e["args"]
    }
    for event in trace.device_work:
        assert launches.get(event["args"]["correlation"], 0) <= event["ts"] + 0.001
    assert trace.overlaps_by_row() == []
    return trace


@dataclasses.dataclass
class Seen:
    kernels: int = KERNELS
    copies: int = 1
    invalid: dict[str, int] = dataclasses.field(default_factory=dict)
    dropped: int = 0
    complete: bool = True
    says: str = ""  # what all warnings together match; empty: there is none
    also: Callable[[Trace], bool] = lambda trace: True


def names(trace: Trace) -> list[str]:
    return [k["name"] for k in sorted(trace.kernels, key=lambda k: k["ts"])]


def products_are_whole(trace: Trace) -> bool:
    """The records that the fault did not hit."""
    return all("mm" in name for name in names(trace)[::2])


def offset_ns() -> int:
    """What was found of device 0's clock."""
    return session().details["clock"]["0"]["offset_ns"]


FAULTS: dict[tuple[str, Any], Seen] = {
    # Launches bound the offset from above, to a launch's latency; waits from below, to how late the host woke up.
    ("clock_offset", "5ms"): Seen(says=r"clock of device 0 was off by \d", also=lambda t: 0 < offset_ns() < 5_020_000),
    ("clock_offset", "500ms"): Seen(
        says="clock of device 0 was off by [45]", also=lambda t: 400_000_000 < offset_ns() < 500_020_000
    ),
    ("clock_offset", "-5ms"): Seen(
        says="clock of device 0 was off by -[45]", also=lambda t: -5_000_000 <= offset_ns() < -4_980_000
    ),
    ("clock_offset", "1:-5ms"): Seen(),  # the other device's
    ("clock_drift", -10000): Seen(says="clock of device 0 was off by -"),
    ("late", "60s"): Seen(kernels=0, copies=0, says=r"\d+ launches join with no device work", complete=False),
    ("early", True): Seen(),
    ("shuffle", True): Seen(also=products_are_whole),
    ("duplicate", 1): Seen(invalid={"duplicate": KERNELS + 1}, says=f"{KERNELS + 1} records .* duplicates"),
    ("drop", 2): Seen(
        kernels=STEPS, dropped=STEPS, says=f"{STEPS} records were dropped", complete=False, also=products_are_whole
    ),
    ("torn", 2): Seen(also=products_are_whole),
    ("zero_start", 2): Seen(
        kernels=STEPS, invalid={"start_zero": STEPS}, says=f"{STEPS} records .* start is 0", complete=False
    ),
    ("backwards", 2): Seen(
        kernels=STEPS,
        invalid={"end_before_start": STEPS},
        says=f"{STEPS} records .* end before they start",
        complete=False,
    ),
    ("size", "+40"): Seen(
        says="writes compute records of 272 bytes.*only the fields that it knows were read", also=products_are_whole
    ),
    ("size", "-40"): Seen(
        says="writes compute records of 192 bytes", also=lambda t: not any("cycles_ts" in k["args"] for k in t.kernels)
    ),
    ("bad_name", 2): Seen(also=lambda t: names(t)[1::2] == ["bad_<0xFF><0xFE><0xC3>(_name"] * STEPS),
    ("unterminated", 2): Seen(also=lambda t: sum(len(name) == 128 for name in names(t)) == STEPS),
    ("unknown_kind", 2): Seen(
        invalid={"unknown_kind": STEPS}, says=f"{STEPS} records .* kinds are unknown", complete=False
    ),
    ("unknown_id", 2): Seen(
        also=lambda t: len(t.named("Unknown CBID 9999")) == session().details["unknown_calls"] > STEPS / 2
    ),
    ("no_buffers", 0): Seen(kernels=0, copies=0, dropped=-1, says="records were dropped", complete=False),
    # The one buffer's last record, a host call's: the thread that called first is staged last.
    ("truncate", 1): Seen(invalid={"shorter_record": 1}, says="1 record .* shorter than", complete=False),
    ("swap_buffers", True): Seen(),
    ("complete_twice", 1): Seen(says=r"gave back \d+ buffers? that this profiler did not lend", complete=False),
    ("complete_late", "300ms"): Seen(
        kernels=0, copies=0, says=r"did not give back \d+ buffers?; the records in", complete=False
    ),
    ("strange_thread", True): Seen(),
    ("null_record", 2): Seen(invalid={"malformed": -1}, says=r"\d+ records .* outside of the buffer", complete=False),
    ("prepare", True): Seen(also=lambda t: session().details["prepare_operations"] == KERNELS),
    ("fail", "register"): Seen(kernels=0, copies=0, says="aiuptiActivityRegisterCallbacks failed", complete=False),
    ("fail", "enable"): Seen(kernels=0, copies=0, says="aiuptiActivityEnable failed", complete=False),
    ("fail", "disable"): Seen(says="aiuptiActivityDisable failed"),
    ("fail", "next"): Seen(kernels=0, copies=0, says="did not reach the end of", complete=False),
    ("fail", "dropped"): Seen(says="aiuptiActivityGetNumDroppedRecords failed"),
}


@pytest.mark.parametrize(("fault", "value"), FAULTS, ids=lambda part: str(part))
def test_the_library_misbehaves(fault: str, value: Any, x: torch.Tensor, export: Export) -> None:
    seen = FAULTS[fault, value]
    trace = run(x, export, **{fault: value})
    assert len(trace.kernels) == seen.kernels
    assert len(trace.of("gpu_memcpy")) == seen.copies
    assert session().invalid.keys() == seen.invalid.keys()
    for reason, count in seen.invalid.items():
        assert session().invalid[reason] == count if count >= 0 else session().invalid[reason] > 0
    assert session().dropped == seen.dropped if seen.dropped >= 0 else session().dropped > KERNELS
    assert session().complete == seen.complete
    said = " ".join(session().warnings)
    assert re.search(seen.says, said) if seen.says else said == ""
    assert seen.also(trace)
    if fault == "complete_late":
        time.sleep(0.6)  # so that they come into no later session


def test_a_flush_that_fails(x: torch.Tensor, export: Export) -> None:
    """What was in buffers that are not full may be missing."""
    trace = run(x, export, fail="flush")
    assert len(trace.kernels) <= KERNELS
    assert "aiuptiFlushAllActivities failed" in " ".join(session().warnings)


def test_a_flush_that_hangs(x: torch.Tensor, export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_SPYRE_FLUSH_TIMEOUT_MS", "200")
    with emulator.faults(hang_flush="60s"):
        for says in ("did not return within 200 ms", "of an earlier session has not returned"):
            with profile(activities=ACTIVITIES) as prof:
                result = program(x.to("spyre"))
            assert torch.equal(result, program(x))
            assert len(export(prof).named("aten::mm")) == STEPS
            assert says in " ".join(session().warnings)

    def still_hangs() -> bool:
        with profile(activities=ACTIVITIES):
            pass
        return any("has not returned" in w for w in session().warnings)

    for _ in range(200):
        if not still_hangs():
            return
        time.sleep(0.05)
    pytest.fail("it still hangs 10 s later")


@pytest.mark.parametrize(
    ("faults", "says", "kernels"),
    [
        ({"device_lost": "0:5"}, "device 0 is lost", range(1, 6)),  # those of the five that had ended
        ({"hang": "0:3", "timeout": "100ms"}, "waits for a kernel that never ends", [KERNELS]),
    ],
    ids=["device_lost", "hang"],
)
def test_the_device_fails(faults: dict[str, Any], says: str, kernels: Any, x: torch.Tensor, export: Export) -> None:
    """The program's own call raises, and so does the profile's end, where PyTorch waits for the device. Once it is
    back, the profile can be stopped, and holds what was recorded."""
    on_device = x.to("spyre")
    torch.spyre.synchronize()
    prof = profile(activities=ACTIVITIES)
    with emulator.faults(**faults):
        prof.start()
        with pytest.raises(torch.AcceleratorError, match=says):
            program(on_device)
        with pytest.raises(torch.AcceleratorError, match=says):
            prof.stop()
        assert torch.equal(program(x), program(x))  # the CPU goes on
    torch.spyre.synchronize()
    prof.stop()
    trace = export(prof)
    assert len(trace.kernels) in kernels
    assert session().invalid == {}
    assert session().dropped == 0
    assert torch.equal(program(on_device), program(x))


# emulator/test_faults_other_releases.py
OTHER_RELEASES = (
    "discard_at_disable flush_when_disabled rotate_at_flush end_code buffer_limit buffer_per_thread null_thread_ids "
    "other_namespace other_process wrong_thread_ids api_field_order attributes short_compute collectives dmi_dmo"
).split()


def test_none_is_left_out() -> None:
    with pytest.raises(ValueError, match="there is no fault 'nonsense'") as error, emulator.faults(nonsense=1):
        pass
    all_faults = re.split(r", | and ", re.sub(r".*the faults are ", "", str(error.value)).rstrip("."))
    elsewhere = {"hang_flush", "device_lost", "hang", "timeout", "throttle"}
    elsewhere |= set(OTHER_RELEASES)
    assert {fault for fault, _ in FAULTS} | elsewhere == set(all_faults)
