"""kineto_spyre.instrument: marks of chosen ops in compiled programs, and the track "kernel phases".

One program is compiled plainly and with marks, for the card and for the CPU, and shared: each is seconds of compiling.
"""

from __future__ import annotations

import json
import math
import random
import re

import pytest
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

import kineto_spyre
from kineto_spyre import _emulator, traces
from kineto_spyre.cli import main
from kineto_spyre.emulator.inductor import phases
from kineto_spyre.marks import emitter, running

ALL = ["aten.mm", "aten.add", "aten.relu", "aten.sum"]


def program(x, y):
    hidden = torch.relu(x @ y + 1)
    return hidden, hidden.sum(-1)


class Compiled:
    """The program as compiled for a device with these ops marked, with its code and its results."""

    def __init__(self, device: str, ops: list[str] | None, dynamic: bool | None = None) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.inputs = torch.randn(48, 64).to(device), torch.randn(64, 80).to(device)
        options = kineto_spyre.instrument(ops=ops).options if ops else None
        self.run = torch.compile(program, options=options, dynamic=dynamic)
        with config.patch(force_disable_caches=True):
            self.results, (code,) = run_and_get_code(self.run, *self.inputs)
        self.code = re.sub(r"# AOT ID: .*", "", code)

    def profile(self, inputs=None):
        with kineto_spyre.profile_spyre() as prof:
            self.run(*(inputs or self.inputs))
        return prof

    def events(self, tmp_path, category: str, inputs=None) -> list[dict]:
        prof = self.profile(inputs)
        path = tmp_path / "trace.json"
        path.unlink(missing_ok=True)
        prof.export_chrome_trace(str(path))
        found = json.loads(path.read_text())["traceEvents"]
        return sorted((e for e in found if e.get("cat") in category.split()), key=lambda e: (e["ts"], e["cat"]))


@pytest.fixture(scope="module")
def compiled():
    made: dict[tuple, Compiled] = {}

    def get(device: str, *ops: str) -> Compiled:
        if (device, ops) not in made:
            made[device, ops] = Compiled(device, [*ops])
        return made[device, ops]

    yield get
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
@pytest.mark.parametrize("device", ["spyre", "cpu"])
def test_unmarked_code_is_the_same_after_marking_and_marked_results_are_the_same(compiled, device) -> None:
    plain, marked = compiled(device), compiled(device, *ALL)
    assert all(torch.equal(a, b) for a, b in zip(plain.results, marked.results, strict=True))
    assert "_spyre_mark" in marked.code and "_spyre_mark" not in plain.code
    assert Compiled(device, None).code == plain.code


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
@pytest.mark.parametrize("device", ["spyre", "cpu"])
def test_marking_one_op_marks_nothing_else(compiled, tmp_path, device) -> None:
    plain, marked = compiled(device), compiled(device, "aten.mm")
    without = [line for line in marked.code.splitlines() if "_spyre_mark" not in line]
    assert without == plain.code.splitlines(), "marks are added, and nothing else changes"
    assert plain.events(tmp_path, "kernel_phase") == []
    if device == "cpu":
        return
    product, phase, fused = marked.events(tmp_path, "kernel kernel_phase")
    assert (phase["name"], phase["ts"], phase["dur"]) == ("aten.mm", product["ts"], product["dur"])
    assert phase["args"]["kernel"] == product["name"] and fused["cat"] == "kernel"


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
def test_the_ops_of_a_fused_kernel_divide_its_time_in_their_order(compiled, tmp_path) -> None:
    found = compiled("spyre", *ALL).events(tmp_path, "kernel kernel_phase")
    kernel = next(e for e in found if e["cat"] == "kernel" and "relu" in e["name"])
    inside = [e for e in found if e["cat"] == "kernel_phase" and e["args"]["kernel"] == kernel["name"]]
    assert [e["name"] for e in inside] == ["aten.add", "aten.relu", "aten.sum"]
    assert inside[0]["ts"] > kernel["ts"], "the card is set up for the kernel first"
    for one, following in zip(inside, inside[1:]):
        assert one["ts"] + one["dur"] == pytest.approx(following["ts"], abs=0.0011)
    assert inside[-1]["ts"] + inside[-1]["dur"] == pytest.approx(kernel["ts"] + kernel["dur"], abs=0.0011)
    read, written = 48 * 80 * 4, 48 * 80 * 4 + 48 * 4
    assert sum(e["args"]["read bytes"] for e in inside) == read
    assert sum(e["args"]["written bytes"] for e in inside) == written
    assert inside[0]["args"]["read bytes"] == read and inside[0]["args"]["stall"] == "wait for input"
    assert inside[1]["args"]["stall"] == "wait for room downstream"
    assert inside[0]["args"]["file"] == __file__
    track = {(e["pid"], e["tid"]) for e in inside}
    assert len(track) == 1 and track != {(kernel["pid"], kernel["tid"])}


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
def test_the_report_has_a_table_of_the_ops_in_a_kernel(compiled, tmp_path, capsys) -> None:
    prof = compiled("spyre", *ALL).profile()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "kernel_phase"]
    within = {one["kernel"]: one for one in kineto_spyre.report(path).facts["phases"]}
    (fused,) = (one for name, one in within.items() if "relu" in name)
    assert len(within) == 2 and {op["op"] for op in fused["ops"]} == {"aten.add", "aten.relu", "aten.sum"}
    for op in fused["ops"]:
        (event,) = (e for e in events if e["name"] == op["op"])
        assert op["duration_ns"] == round(event["dur"] * 1000) and list(op["stalls"]) == [event["args"]["stall"]]
        assert op["share"] == op["duration_ns"] / fused["total"]
    assert {one["rule"] for one in traces.check(path)["findings"] if one["severity"] == "fault"} <= {"track-overlap"}
    prof.print_report(kernel="relu")
    printed = capsys.readouterr().out
    assert main(["report", str(path), "--kernel", "relu"]) == 0
    assert capsys.readouterr().out == printed
    assert "Within spyre_kernel_v1_add_relu_sum" in printed and "wait for input" in printed and "_mm_" not in printed
    assert main(["report", str(path), "--kernel", "nothing"]) == 0
    assert "no marked op within a kernel whose name holds 'nothing'" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
def test_on_the_cpu_the_hosts_clock_marks_the_same_ops(compiled, tmp_path) -> None:
    product, fused, reduction = compiled("cpu", *ALL).events(tmp_path, "kernel_phase")
    assert product["name"] == "aten.mm" and reduction["name"] == "aten.sum"
    assert fused["name"] == "aten.add + aten.relu", "ops that share their loops have one mark"
    assert product["ts"] + product["dur"] <= fused["ts"] <= fused["ts"] + fused["dur"] <= reduction["ts"]


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
def test_phases_follow_the_sizes_and_nothing_is_kept_without_a_profile(tmp_path) -> None:
    marked = Compiled("spyre", ["aten.relu"], dynamic=True)
    marked.run(*marked.inputs)
    assert running.listen(False) == []
    larger = tuple(torch.ones(512, 512, device="spyre") for _ in range(2))
    first, second = (
        marked.events(tmp_path, "kernel_phase", inputs)[0]["args"]["written bytes"] for inputs in (None, larger)
    )
    assert (first, second) == (48 * 80 * 4, 512 * 512 * 4)


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
def test_a_device_without_an_emitter_is_said_once_and_runs(monkeypatch) -> None:
    monkeypatch.delitem(emitter._emitters, "cpu")
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="no MarkEmitter for the device 'cpu'"):
        marked = Compiled("cpu", ["aten.mm"])
    assert "_spyre_mark" not in marked.code


def test_the_context_manager_marks_what_is_compiled_within_it() -> None:
    before = config._post_fusion_custom_pass
    with kineto_spyre.instrument(ops=["aten.mm"], metrics=["time"]):
        first = config._post_fusion_custom_pass
        with kineto_spyre.instrument(ops=["aten.add.Tensor"]):
            assert config._post_fusion_custom_pass.uuid() != first.uuid(), "the cache tells their programs apart"
        assert config._post_fusion_custom_pass is first
    assert config._post_fusion_custom_pass is before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"ops": []}, "nothing to mark"),
        ({"ops": "aten.mm"}, "lists of names"),
        ({"ops": ["aten.mn"]}, "has no op 'aten.mn'"),
        ({"ops": ["mm"]}, "has no op 'mm'"),
        ({"ops": ["aten.mm"], "metrics": ["speed"]}, "unknown metrics: speed"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, sentence) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        kineto_spyre.instrument(**arguments)


def test_shares_are_those_of_the_roofline_for_a_hundred_kernels() -> None:
    """By the model's public numbers, worked out here once more."""
    peak, memory, ring = 32 * 2 * 64 * 8 * 2 * 1.1e9 / 4, 200e9, 128 * 1.1e9
    chance = random.Random(0)
    for _ in range(100):
        ops = [f"aten.op{i}" for i in range(chance.randint(1, 10))]
        each = [
            (chance.randrange(1, 10**11), *(chance.choice([0, chance.randrange(10**8)]) for _ in range(2))) for _ in ops
        ]
        whole = tuple(sum(column) for column in zip(*each))
        cores = min(max(math.ceil(whole[2] / 128), 1), 32)
        rate = min(memory, cores * ring)
        took = [max(f / (peak * cores / 32), (r + w) / rate) for f, r, w in each]
        total = 1500e-9 + sum(took)
        marked = {i: {"metrics": ["stalls"]} for i in range(len(ops)) if chance.random() < 0.7}
        found = phases.of(ops, marked, whole, each, 1)
        assert [one.name for one in found] == [ops[i] for i in marked]
        for i, one in zip(marked, found):
            assert one.end - one.begin == pytest.approx(took[i] / total, rel=1e-9)
            flops, read, written = each[i]
            arithmetic, moving = flops / (peak * cores / 32), (read + written) / rate
            expected = (
                "none" if arithmetic >= moving else "wait for input" if read >= written else "wait for room downstream"
            )
            assert one.args["stall"] == expected and set(one.args) == {"cores", "stall", "stalled"}
    assert _emulator.KERNEL_OVERHEAD_NS == 1500
