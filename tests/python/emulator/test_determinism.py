"""With a seed, ten runs of one program have the same timeline."""

from __future__ import annotations

PROGRAM = """
import json, sys, torch, kineto_spyre
from torch.profiler import profile, ProfilerActivity
kineto_spyre.emulator.enable(devices=2, seed=int(sys.argv[1]))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)).to("spyre")
x = torch.randn(32, 64).to("spyre")
hold = [kineto_spyre.emulator.Device(i) for i in range(2)]
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
    for device in hold:                      # so that what follows is queued back to back, however slow the host
        device.launch("hold", ns=2_000_000_000)
        device.launch("hold", ns=2_000_000_000, stream=5)
    loss = model(x).square().mean()
    loss.backward()
    for i in range(50):
        hold[i % 2].launch(f"k{i}", stream=1 + 4 * (i % 2), flops=1e7 * i, bytes_read=1000 * i, bytes_written=100 * i)
        hold[i % 2].copy("HtoD", 10_000 * i)
prof.export_chrome_trace(sys.argv[2])
with open(sys.argv[2]) as file:
    events = json.load(file)["traceEvents"]
rows = {}
for e in events:
    if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
        a = e["args"]
        key = (e["pid"], a["stream"], e["cat"])
        start = round(e["ts"] * 1000)
        rows.setdefault(key, []).append((start, round(e["dur"] * 1000), e["name"], a.get("cycles_ts")))
out = []
for key in sorted(rows):
    before = None
    for start, duration, name, cycles in sorted(rows[key]):
        gap = None if before is None or key[2] != "kernel" else start - before
        before = start + duration
        out.append([*key, name, duration, cycles, gap])
print(json.dumps(out))
"""


def test_ten_runs_with_one_seed_and_one_with_another(run_python):
    first = run_python(PROGRAM, "7", "a.json").stdout.splitlines()[-1]
    assert first.count("HtoD") >= 50 and "spyre_kernel_v1" in first
    for _ in range(9):
        assert run_python(PROGRAM, "7", "a.json").stdout.splitlines()[-1] == first
    assert run_python(PROGRAM, "8", "a.json").stdout.splitlines()[-1] != first
