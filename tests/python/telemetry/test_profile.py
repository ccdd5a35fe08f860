"""Telemetry in a profile of the emulated Spyre: what joins the trace, and what happens when something fails."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
    import json, os, sys, time, warnings
    import kineto_spyre
    from kineto_spyre import emulator
    what, folder = sys.argv[1:]
    emulator.enable(devices=1, seed=1, metrics=None if what == "none" else folder)
    import torch
    x = torch.ones(4, device="spyre")
    device = emulator.Device(0)
    if what == "torn":
        path = emulator.metrics_files()[0]
        emulator.enable(devices=1, seed=1, metrics=False)
        open(path, "wb").write(b"!iuM" + bytes(60))
        import kineto_spyre.profiler._runtimes as runtimes
        emulator.metrics_files = lambda: [path]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with kineto_spyre.profile_spyre(telemetry=True) as prof:
            time.sleep(0.35)
            device.launch("load", ns=500_000_000, watts=25)
            device.synchronize()
            y = x + x
            time.sleep(0.25)
        prof.export_chrome_trace("trace.json")
    print(json.dumps({"warnings": [str(w.message) for w in caught],
                      "diagnostics": [d.code for d in kineto_spyre.last_session().diagnostics]}))
"""


def profile(run_python, tmp_path, what):
    told = json.loads(run_python(PROGRAM, what, str(tmp_path)).stdout)
    return json.loads((tmp_path / "trace.json").read_text()), told


def test_a_step_of_power_shows_within_one_sample_of_its_kernel(run_python, tmp_path):
    trace, told = profile(run_python, tmp_path, "files")
    events = trace["traceEvents"]
    kernel = next(e for e in events if e.get("cat") == "kernel" and e["name"] == "load")
    begin, end = kernel["ts"], kernel["ts"] + kernel["dur"]
    power = [(e["ts"], e["args"]["W"]) for e in events if e["ph"] == "C" and e["name"] == "pwr (W)"]
    about = trace["kineto_spyre_layers"]["telemetry"]["cards"][0]
    assert len(power) == about["samples"] >= 5
    for ts, watts in power:  # each is a mean over ten milliseconds from its time on
        if begin <= ts and ts + 10_000 <= end:
            assert watts == 45
        elif ts + 10_000 <= begin or ts >= end + 1_000:
            assert 20 <= watts <= 20.1
    inside = [ts for ts, watts in power if watts == 45]
    longest = max(b - a for (a, _), (b, _) in zip(power, power[1:]))
    assert inside[0] - begin <= longest + 10_000 and end - inside[-1] <= longest + 10_000
    names = {e["name"] for e in events if e["ph"] == "C"}
    assert {"temperature (C)", "device memory read (GiB/s)", "PCIe to device (GiB/s)"} <= names
    assert "Power" not in names and "RDMA read (GiB/s)" not in names
    assert not [code for code in told["diagnostics"] if code.startswith(("telemetry_un", "telemetry_no", "layer"))]
    check = subprocess.run(
        [sys.executable, "-m", "kineto_spyre", "check", "trace.json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_without_files_the_rest_is_whole_and_a_diagnostic_says_so(run_python, tmp_path):
    trace, told = profile(run_python, tmp_path, "none")
    assert any(e.get("cat") == "kernel" and e["name"] == "load" for e in trace["traceEvents"])
    assert not any(e["ph"] == "C" and e["name"] == "pwr (W)" for e in trace["traceEvents"])
    assert "telemetry_no_files" in told["diagnostics"]
    assert any("No metrics file of a card was found" in text for text in told["warnings"])


def test_a_file_that_stays_torn(run_python, tmp_path):
    trace, told = profile(run_python, tmp_path, "torn")
    assert any(e.get("cat") == "kernel" and e["name"] == "load" for e in trace["traceEvents"])
    assert "telemetry_unreadable" in told["diagnostics"]
    assert any("was being written each time" in text for text in told["warnings"])


THROTTLED = """
    import json, time
    import kineto_spyre
    from kineto_spyre import emulator
    emulator.enable(devices=1, seed=1, metrics=".")
    import torch
    x = torch.ones(4, device="spyre")
    device = emulator.Device(0)
    with emulator.faults(throttle=42.5):
        with kineto_spyre.profile_spyre(telemetry=True) as prof:
            with torch.profiler.record_function("ProfilerStep#0"):
                device.launch("modelled", flops=1e9, dtype="float16")
                device.synchronize()
                time.sleep(0.3)
            with torch.profiler.record_function("ProfilerStep#1"):
                device.launch("load", ns=1_000_000_000, watts=55)  # 42 C at first; 0.05 of the way to 75 C in a second
                device.synchronize()
                time.sleep(0.2)
                device.launch("modelled", flops=1e9, dtype="float16")
                device.synchronize()
        prof.export_chrome_trace("trace.json")
"""


def test_a_step_that_met_a_thermal_limit_is_named(run_python, tmp_path):
    import kineto_spyre.report

    run_python(THROTTLED)
    trace = json.loads((tmp_path / "trace.json").read_text())
    cold, hot = (e["dur"] for e in trace["traceEvents"] if e.get("cat") == "kernel" and e["name"] == "modelled")
    assert 1.9 < hot / cold < 2.1  # the card was throttled in the second step
    (energy,) = kineto_spyre.report.make(tmp_path / "trace.json", celsius=42.5).facts["energy"]
    thermal = [one for one in energy["limits"] if one["what"] == "temperature"]
    assert [one["title"] for one in thermal] == ["step 1"]
    assert thermal[0]["highest"] >= 42.5 and "met a limit: temperature" in thermal[0]["sentence"]
    (energy,) = kineto_spyre.report.make(tmp_path / "trace.json").facts["energy"]
    assert not [one for one in energy["limits"] if one["what"] == "temperature"]
