"""torch.compile with Inductor: its C++ kernels on the device's memory, each launched as a kernel of the device.

Compiling takes seconds, so there are few programs here, and each shows several things.
"""

from __future__ import annotations

import json
import re
import runpy
import uuid

import pytest
import torch
from torch import nn

import kineto_spyre
from kineto_spyre import provenance


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def events(f, tmp_path, category: str) -> list[dict]:
    with kineto_spyre.profile_spyre() as prof:
        f()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    found = json.loads(path.read_text())["traceEvents"]
    return sorted((e for e in found if e.get("cat") == category), key=lambda e: e["ts"])


def fused(x, y):
    """A product, then what becomes one kernel: a division and a variance that round otherwise on other devices."""
    product = x @ y
    normed = nn.functional.layer_norm(torch.relu(product + 1) / 3.0, (8,))
    return torch.softmax(normed, -1), normed.argmax(0), product.sum(-1)


def test_results_equal_those_of_the_cpus_compiled_program() -> None:
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    expected = torch.compile(fused)(x, y)
    got = torch.compile(fused)(x.to("spyre"), y.to("spyre"))
    assert all(b.is_spyre and torch.equal(a, b.cpu()) for a, b in zip(expected, got))


def test_a_fused_kernel_is_launched_under_the_name_of_its_ops_on_the_current_stream(tmp_path) -> None:
    x, y = torch.randn(8, 8, device="spyre:1"), torch.randn(8, 8, device="spyre:1")
    compiled = torch.compile(fused)
    compiled(x, y)
    stream = torch.Stream(device="spyre:1")

    def run():
        with stream:
            compiled(x, y)

    product, kernel = events(run, tmp_path, "kernel")
    assert re.fullmatch(r"spyre_kernel_v1_mm_[a-z2-7]{16}#0", product["name"])
    assert re.fullmatch(r"spyre_kernel_v1_\w*add_\w*native_layer_norm\w*_[a-z2-7]{16}#0", kernel["name"])
    for one in (product, kernel):
        assert (one["pid"], one["args"]["stream"]) == (1, stream.stream_id + 1)
    assert kernel["ts"] >= product["ts"] + product["dur"], "it runs after the work before it on its stream"
    ops = {e["args"]["External id"]: e["name"] for e in events(run, tmp_path, "cpu_op")}
    assert sum(name.startswith("cpp_fused_") for name in ops.values()) == 1


def test_shapes_may_change_and_a_kernels_time_follows_them(tmp_path) -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1).relu(), dynamic=True)
    small, large = torch.ones(2**18, device="spyre"), torch.ones(2**20, device="spyre")
    assert torch.equal(compiled(small).cpu(), torch.full((2**18,), 3.0))
    a, b = events(lambda: (compiled(small), compiled(large)), tmp_path, "kernel")
    assert a["name"] == b["name"], "one kernel serves both"
    assert 3 < b["dur"] / a["dur"] < 4.5


def test_mutations_the_cpu_two_devices_graph_breaks_and_recompilations() -> None:
    def f(x, other, host):
        x.view(-1)[1:].add_(host)
        torch._dynamo.graph_break()
        return x * 2, other + 1, x.to(other.device) + other, x.cpu() + host

    def program(first, second):
        results = []
        for rows in (2, 3):  # the second time with other sizes
            x = torch.arange(rows * 3.0).view(rows, 3).to(first)
            results += [x, *compiled(x, torch.ones(rows, 3, device=second), torch.tensor(5.0))]
        return [one.cpu() for one in results]

    compiled = f
    expected = program("cpu", "cpu")
    compiled = torch.compile(f)
    got = program("spyre:0", "spyre:1")
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


class SmallResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.inner, self.head = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        x = torch.relu(x + self.inner(x))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def test_a_resnet_trains_and_then_infers() -> None:
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = SmallResNet().to(device)
        forward = model if device == "cpu" else torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, 2 * 3 * 64).view(2, 3, 8, 8).to(device)
        for _ in range(2):
            forward(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            results.append([forward(x).cpu(), *(p.detach().cpu() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


PROGRAM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x + 1)

def program():
    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        torch.compile(Model())(torch.ones(4, 4, device="spyre"))
"""


def test_the_sidecar_has_a_kernels_ops_lines_and_key_which_is_the_same_in_each_process(run_python, tmp_path) -> None:
    from kineto_spyre.emulator.inductor import provenance as made

    script, sidecar = tmp_path / "program.py", tmp_path / "spyre_provenance.json"
    script.write_text(PROGRAM)
    run_python(
        """
        import runpy, sys, torch, kineto_spyre
        kineto_spyre.emulator.enable()
        runpy.run_path(sys.argv[1])["program"]()
        """,
        str(script),
        env={"TORCH_SPYRE_PROVENANCE_PATH": str(sidecar)},
    )
    known = provenance.load(sidecar)
    ((key, origin),) = known.by_key.items()
    assert re.fullmatch("[a-z2-7]{16}", key)
    assert origin.aten_ops == ("aten.add.Tensor", "aten.relu.default")
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if "return torch.relu" in text)
    assert origin.lines == (f"{script}:{line}",)
    assert known.origin(f"spyre_kernel_v1_add_relu_{key}#0") == origin

    runpy.run_path(str(script))["program"]()  # in this process
    assert key in made.document()["kernelIdentities"]


def test_enable_imports_no_compiler(run_python) -> None:
    done = run_python(
        """
        import sys, torch, kineto_spyre
        kineto_spyre.emulator.enable()
        names = "torch._inductor.codegen.common", "torch._inductor.codecache", "kineto_spyre.marks"
        print([name for name in names if name in sys.modules])
        """
    )
    assert done.stdout.strip() == "[]"


def test_a_program_in_cpp_is_refused_in_a_sentence() -> None:
    compiled = torch.compile(lambda x: x + 1, options={"cpp_wrapper": True})
    with pytest.raises(Exception, match="generates its program in Python only"):
        compiled(torch.ones(3, device="spyre"))


def test_a_graph_that_another_release_compiled_is_not_taken_from_the_cache(monkeypatch) -> None:
    from torch._dynamo.utils import counters

    from kineto_spyre.emulator import _compile_cache

    def misses() -> int:
        torch._dynamo.reset()
        counters.clear()
        torch.compile(lambda x: x @ x)(torch.ones(3, 3, device="spyre"))  # needs no C++ compiler
        return counters["aot_autograd"]["autograd_cache_miss"] + counters["inductor"]["fxgraph_cache_miss"]

    misses()
    assert misses() == 0
    another = uuid.uuid4().hex  # a fixed one would be in the cache from the second run of this test on
    monkeypatch.setattr(_compile_cache, "_code_generator", lambda: another)
    assert misses() > 0
