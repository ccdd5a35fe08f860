"""What an op leaves in the trace: one kernel, under its name."""

from __future__ import annotations

import json
import re

import pytest
import torch
from torch import nn

import kineto_spyre


def trace(f, tmp_path, **options) -> list[dict]:
    with kineto_spyre.profile_spyre(**options) as prof:
        f()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def kernels(events: list[dict]) -> list[str]:
    found = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    return [re.fullmatch(r"spyre_kernel_v1_(\w+?)_[a-z2-7]{16}#0", e["name"]).group(1) for e in found]


CASES = {
    "add": (lambda x: x + x, ["add"]),
    "in place": (lambda x: x.add_(1), ["add"]),
    "out=": (lambda x: torch.mul(x, x, out=torch.empty(0, device="spyre")), ["mul"]),
    "mm": (lambda x: x @ x, ["mm"]),
    "softmax": (lambda x: torch.softmax(x, -1), ["softmax"]),
    "linear": (lambda x: nn.functional.linear(x, x, x[0]), ["addmm"]),
    "layer norm": (lambda x: nn.functional.layer_norm(x, (8,)), ["layer_norm"]),
    "convolution": (lambda x: nn.functional.conv2d(x[None, None], x[None, None, :3, :3]), ["convolution"]),
    "attention": (
        lambda x: nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
        ["scaled_dot_product_attention"],
    ),
    "a composite's leaves": (lambda x: torch.std_mean(x) and nn.functional.mse_loss(x, x), ["std_mean", "mse_loss"]),
    "foreach": (lambda x: torch._foreach_add([x, x], 1), ["add", "add"]),
    "clone": (lambda x: x.t().contiguous(), ["copy"]),
    "fill": (lambda x: torch.ones(3, device="spyre"), ["fill"]),
    "random": (lambda x: torch.randn(3, device="spyre"), ["normal"]),
    "sort": (lambda x: x.sort(), ["sort"]),
    "a mask": (lambda x: x[x > 0], ["gt", "index"]),
    "lstm": (lambda x: nn.LSTM(8, 4).spyre()(x), ["lstm"]),
    "a view": (lambda x: x.view(-1)[3:].unsqueeze(0).expand(2, 61).transpose(0, 1), []),
    "metadata": (lambda x: (torch.empty(3, device="spyre").resize_(5).set_(x), x.is_contiguous()), []),
    "nothing to do": (lambda x: x[:0] + 1, []),
    "a memset": (lambda x: torch.zeros(3, device="spyre"), []),
    "a copy": (lambda x: x.cpu(), []),
    "a value": (lambda x: x[0, 0].item(), []),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_of(case: str, tmp_path) -> None:
    f, expected = CASES[case]
    x = torch.randn(8, 8, device="spyre")
    with torch.no_grad():
        assert kernels(trace(lambda: f(x), tmp_path)) == expected


def test_backward_kernels(tmp_path) -> None:
    x = torch.randn(4, 4, device="spyre", requires_grad=True)
    y = torch.softmax(x, -1).sum()
    assert kernels(trace(lambda: y.backward(), tmp_path)) == ["fill", "softmax_backward_data"]


def test_the_cpu_kernel_within_is_not_an_op_of_its_own(tmp_path) -> None:
    """On the CPU, convolution and addmm call other ops, which a profile of the CPU shows."""
    x = torch.randn(1, 3, 8, 8, device="spyre")
    w = torch.randn(4, 3, 3, 3, device="spyre")
    ops = [e["name"] for e in trace(lambda: nn.functional.conv2d(x, w), tmp_path) if e.get("cat") == "cpu_op"]
    assert ops == ["aten::conv2d", "aten::convolution"]
    y = torch.randn(20, 20, device="spyre")
    ops = [e["name"] for e in trace(lambda: torch.linalg.inv(y), tmp_path) if e.get("cat") == "cpu_op"]
    assert "aten::linalg_inv_ex" in ops and "aten::eye" not in ops and "aten::copy_" not in ops


def test_memcpy_memset_and_waiting(tmp_path) -> None:
    x = torch.randn(8, 8, device="spyre")

    def f():
        torch.zeros(4, device="spyre")
        x.sum().item()
        torch.nonzero(x)

    names = sorted(e["name"] for e in trace(f, tmp_path) if e.get("cat") in ("gpu_memcpy", "gpu_memset"))
    assert names == ["Memcpy (DtoH)", "Memcpy (DtoH)", "Memset (Device)"]


def test_the_same_work_has_the_same_name_and_other_work_another(tmp_path) -> None:
    def names(f):
        return [e["name"] for e in trace(f, tmp_path) if e.get("cat") == "kernel"]

    a, b = torch.ones(3, 4, device="spyre"), torch.ones(4, 3, device="spyre")
    assert names(lambda: a + a) == names(lambda: a + a)
    assert names(lambda: a + a) != names(lambda: b + b)
    assert names(lambda: a + a) != names(lambda: a.half() + a.half())[-1:]
    assert names(lambda: a + a) != names(lambda: b.t() + b.t())
    # A name is a promise across processes: this one was written down once.
    assert names(lambda: a + a) == ["spyre_kernel_v1_add_fhldm24zog3vugs3#0"]


def test_the_cost_model_is_given_what_the_op_does(tmp_path) -> None:
    """Twice the work of a large product takes about twice as long."""

    def length(n: int) -> float:
        x = torch.empty(512, n, device="spyre")
        y = torch.empty(n, 512, device="spyre")
        (event,) = (e for e in trace(lambda: x @ y, tmp_path) if e.get("cat") == "kernel")
        return event["dur"]

    assert 1.5 < length(8192) / length(4096) < 2.5


def test_work_goes_to_the_current_stream(tmp_path) -> None:
    s = torch.Stream(device="spyre:1")

    def f():
        torch.ones(3, device="spyre") + 1
        with s:
            torch.ones(3, device="spyre") + 1

    places = {(e["pid"], e["args"]["stream"]) for e in trace(f, tmp_path) if e.get("cat") == "kernel"}
    assert places == {(0, 1), (1, s.stream_id + 1)}


def test_measured_kernels_last_what_their_execution_took(run_python) -> None:
    """Measured, a kernel's time follows the CPU, not the cost model."""
    done = run_python(
        """
        import json, sys, torch, kineto_spyre
        kineto_spyre.emulator.enable(time="measured")
        torch.set_num_threads(1)
        x = torch.ones(256, 256, device="spyre", dtype=torch.float64)
        y = torch.ones(4, device="spyre")
        with kineto_spyre.profile_spyre() as prof:
            for _ in range(5):
                torch.linalg.svd(x)
                y + y
        prof.export_chrome_trace("trace.json")
        events = [e for e in json.load(open("trace.json"))["traceEvents"] if e.get("cat") in ("kernel", "cpu_op")]
        def total(cat, part):
            return sum(e["dur"] for e in events if e["cat"] == cat and part in e["name"])
        # The kernel's time is measured within the op's, so it can't be longer.
        print(0 < total("kernel", "linalg_svd") <= total("cpu_op", "aten::_linalg_svd"))
        print(0 < total("kernel", "_add_") <= total("cpu_op", "aten::add"))
        """
    )
    assert done.stdout.split() == ["True", "True"]


def test_another_backend_is_refused(run_python) -> None:
    done = run_python(
        """
        import torch, kineto_spyre
        from kineto_spyre.emulator import _torch
        torch.utils.rename_privateuse1_backend("other")
        try:
            _torch.install()
        except RuntimeError as e:
            print(e)
        try:
            _torch.install(time="guessed")
        except ValueError as e:
            print(e)
        """
    )
    assert "PrivateUse1 device is 'other' in this process" in done.stdout
    assert "time='guessed': expected 'modelled' or 'measured'" in done.stdout
