"""Utilization of the PT array and the roofline: right against the emulator's cost model, from its own figures."""

from __future__ import annotations

import json
import re

import pytest
import torch
from hand_made_work import as_bytes, launch, slice_
from hand_made_work import kernel as kernel_event

import kineto_spyre
from kineto_spyre import _emulator
from kineto_spyre.report import IdealError, utilization
from kineto_spyre.report.arithmetic import arithmetic

N = 1024


def figure(name: str) -> float:
    """A number of the emulator's cost model, as it prints it."""
    found = re.search(rf"^{re.escape(name)} +([0-9.e+]+) ", _emulator.describe_model(), re.MULTILINE)
    assert found, name
    return float(found[1])


@pytest.fixture(scope="module")
def trace(two_devices, tmp_path_factory):
    """A large product in float32 (compute), a large sum in float16 (device memory), a tiny sum (launch)."""
    x, y, z = (torch.ones(*shape, device="spyre") for shape in ((N, N), (N, N), (4, 4)))
    h = torch.ones(2048, 1024, device="spyre", dtype=torch.float16)
    torch.spyre.synchronize()
    with kineto_spyre.profile_spyre() as prof:
        torch.mm(x, y)
        torch.add(h, h)
        torch.spyre.synchronize()
        torch.add(z, z)
    path = tmp_path_factory.mktemp("utilization") / "trace.json"
    prof.export_chrome_trace(str(path))
    return path


def kernel(report, op: str, flops: float):
    (found,) = [one for one in report.facts["utilization"]["kernels"] if f"_{op}_" in one["name"]
                and one["flops"] == flops]  # fmt: skip
    return found


def test_the_cards_figures_are_those_of_the_cost_model():
    assert utilization.PEAKS["c10::Half"] == pytest.approx(figure("peak fp16"), rel=1e-4)
    assert utilization.PEAKS["float"] == pytest.approx(figure("peak fp32"), rel=1e-4)
    assert utilization.PEAKS["signed char"] == pytest.approx(figure("peak int8"), rel=1e-4)
    assert pytest.approx(figure("device memory bandwidth"), rel=1e-4) == utilization.MEMORY_BYTES
    assert pytest.approx(32 * figure("ring bandwidth of a core"), rel=1e-4) == utilization.SCRATCHPAD_BYTES
    assert pytest.approx(figure("core clock"), rel=1e-4) == utilization.CORE_HZ
    assert pytest.approx(figure("cycle stamp clock"), rel=1e-4) == utilization.STAMP_HZ


def test_a_product_is_bound_by_compute_and_its_utilization_is_the_cost_models(trace):
    one = kernel(kineto_spyre.report(trace), "mm", 2.0 * N**3)
    compute, overhead = 2 * N**3 / figure("peak fp32") * 1e9, figure("kernel overhead")
    moved = 3 * N * N * 4
    moving = moved / figure("device memory bandwidth") * 1e9
    assert one["bytes"] == moved and one["intensity"] == pytest.approx(2 * N**3 / moved)
    assert one["by_flops"] == pytest.approx(compute / (compute + overhead), rel=0.021)  # durations vary by 2 %
    # the cost model gives its stamps the parts of a kernel in proportion to computing and moving
    assert one["by_cycles"] == pytest.approx(compute / (compute + moving), rel=0.01)
    assert one["bound"] == "compute" and "its operations take" in one["because"]


def test_a_sum_is_bound_by_device_memory_and_a_tiny_one_by_its_launch(trace):
    report = kineto_spyre.report(trace)
    one = kernel(report, "add", 2048 * 1024)
    moving = 3 * 2048 * 1024 * 2 / figure("device memory bandwidth") * 1e9
    assert one["total"] == pytest.approx(moving + figure("kernel overhead"), rel=0.021)
    assert one["bound"] == "device memory" and one["by_flops"] < 0.01 and one["by_cycles"] < 0.01
    assert kernel(report, "add", 16)["bound"] == "launch"
    page = report.text()
    assert 'aria-label="roofline"' in page and page.count("<circle") >= 3
    assert "Roofline" in str(report) and "a launch with the gap after it" in str(report)


def test_ideal_cycles_as_acelyzer_takes_them(trace, tmp_path):
    name = kernel(kineto_spyre.report(trace), "mm", 2.0 * N**3)["name"]
    folder = tmp_path / "inductor-spyre" / name.partition("#")[0] / "perf"
    folder.mkdir(parents=True)
    (folder / "ideal_cycles.json").write_text(json.dumps([
        {"ideal_cycles": 0, "op_category": "mm"}, {"ideal_cycles": 66_000, "op_category": "mm"}
    ]))  # fmt: skip
    report = kineto_spyre.report.make(trace, ideal=tmp_path)
    one = kernel(report, "mm", 2.0 * N**3)
    assert one["by_ideal"] == pytest.approx(60_000 / one["total"])  # 66,000 cycles at 1.1 GHz are 60 us
    assert kernel(report, "add", 16)["by_ideal"] is None
    (folder / "ideal_cycles.json").write_text('[{"cycles": 1}]')
    with pytest.raises(IdealError, match="no list of objects with ideal_cycles"):
        kineto_spyre.report.make(trace, ideal=tmp_path)
    with pytest.raises(IdealError, match="holds no inductor-spyre"):
        kineto_spyre.report.make(trace, ideal=tmp_path / "inductor-spyre" / "none")


@pytest.mark.parametrize(
    ("op", "dims", "types", "flops", "touched"),
    [
        ("aten::mm", "[[2, 3], [3, 5]]", '["float", "float"]', 60, 4 * (6 + 15 + 10)),
        ("aten::addmm", "[[5], [2, 3], [3, 5]]", '["float", "float", "float"]', 70, 4 * (5 + 6 + 15 + 10)),
        ("aten::bmm", "[[7, 2, 3], [7, 3, 5]]", '["c10::Half", "c10::Half"]', 420, 2 * 7 * (6 + 15 + 10)),
        ("aten::linear", "[[4, 2, 3], [5, 3], []]", '["float", "float", ""]', 240, 4 * (24 + 15 + 40)),
        ("aten::add", "[[4, 1], [3], []]", '["float", "float", "Scalar"]', 12, 4 * (4 + 3 + 12)),
        ("aten::_scaled_dot_product_flash_attention", "[[2, 8, 16], [2, 32, 16], [2, 32, 16]]",
         '["float", "float", "float"]', 2 * 2 * 8 * 32 * 32, 4 * (256 + 1024 + 1024 + 256)),
    ],
)  # fmt: skip
def test_operations_and_bytes_of_an_op(op, dims, types, flops, touched):
    told = arithmetic(op, dims, types)
    assert told is not None and (told.flops, told.bytes) == (flops, touched)


def test_what_shapes_do_not_tell_is_unknown():
    assert arithmetic("aten::sort", "[[4]]", '["float"]') is None
    assert arithmetic("aten::mm", "[[4], [4]]", '["float", "float"]') is None
    assert arithmetic("aten::mm", "no json", "[]") is None
    assert arithmetic("aten::add", "[[3], [4]]", '["float", "float"]') is None


def test_operations_a_joule_where_shapes_tell_them():
    shapes = {"Input Dims": [[N, N], [N, N]], "Input type": ["float", "float"], "External id": 7}
    events = [
        slice_("cpu_op", "aten::mm", 900_000, 100, **shapes),
        launch(900_010, 5, 7),
        kernel_event(1_000_000, 1_000_000, 5, 7),
    ]
    for at in range(0, 3_000_000, 100_000):
        watts = 45 if 1_000_000 <= at < 2_000_000 else 20
        events.append({"ph": "C", "name": "pwr (W)", "pid": 0, "tid": 0, "ts": at, "args": {"W": watts}})
    report = kineto_spyre.report(as_bytes(events))
    (energy,) = report.facts["energy"]
    for one in (energy["work"], energy["kernels"][0]):
        assert one["flops"] == 2 * N**3
        assert one["flops_per_joule"] == pytest.approx(2 * N**3 / 25, rel=0.05)  # 25 W above idle for a second
    assert "Gops/J" in str(report)
