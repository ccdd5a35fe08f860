"""Several threads, several devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


def test_each_thread_has_its_own_current_device_and_stream() -> None:
    def work(i: int):
        index = i % 2
        torch.spyre.set_device(index)
        with torch.Stream(device=f"spyre:{index}"):
            for _ in range(50):
                x = torch.full((10, 10), float(i), device="spyre")
                y = (x @ x).sum()
                assert torch.spyre.current_device() == index == y.device.index
            return y.item()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [i * i * 1000.0 for i in range(8)]
    assert torch.spyre.current_device() == 0


def test_threads_share_weights() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    inputs = [torch.randn(5, 16) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:  # for the CPU too: MKL has other threads, and rounds otherwise, on the main one
        expected = list(pool.map(model, inputs))
        model.to("spyre")
        for _ in range(5):
            got = list(pool.map(lambda x: model(x.to("spyre")).detach().cpu(), inputs))
            assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_a_model_split_over_two_devices() -> None:
    def make():
        torch.manual_seed(0)
        return nn.Linear(4, 8), nn.Linear(8, 2)

    a, b = make()
    x = torch.randn(3, 4)
    b(torch.relu(a(x))).sum().backward()
    c, d = make()
    c.to("spyre:0")
    d.to("spyre:1")
    out = d(torch.relu(c(x.to("spyre:0"))).to("spyre:1"))
    out.sum().backward()
    assert out.device.index == 1 and c.weight.grad.device.index == 0
    for p, q in zip([*a.parameters(), *b.parameters()], [*c.parameters(), *d.parameters()]):
        assert torch.equal(p.grad, q.grad.cpu())


def test_data_parallel_replicas() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    replicas = [nn.Linear(4, 2).to(f"spyre:{i}") for i in range(2)]
    for r in replicas:
        r.load_state_dict(model.state_dict())
    x = torch.randn(6, 4)
    outs = torch.nn.parallel.parallel_apply(replicas, [(x[:3].to("spyre:0"),), (x[3:].to("spyre:1"),)], devices=None)
    assert torch.equal(torch.cat([o.cpu() for o in outs]), model(x))


def test_a_test_may_leave_another_device_stream_and_default_behind() -> None:
    torch.spyre.set_device(1)
    torch.spyre.set_stream(torch.Stream(device="spyre:0"))
    torch.spyre.set_stream(torch.Stream(device="spyre:1"))
    torch.set_default_device("spyre:1")
    assert torch.spyre.current_device() == 1 and torch.spyre.current_stream().stream_id != 0


def test_and_the_next_one_does_not_see_it() -> None:
    assert torch.spyre.current_device() == 0 and torch.empty(1).device.type == "cpu"
    assert [torch.spyre.current_stream(i).stream_id for i in range(2)] == [0, 0]
    assert torch.ones(1, device="spyre").device.index == 0


def test_memory_is_counted_for_each_device() -> None:
    before = torch.spyre.memory_allocated(0), torch.spyre.memory_allocated(1)
    x = torch.empty(512, dtype=torch.uint8, device="spyre:1")
    y = x + x
    assert torch.spyre.memory_allocated(0) == before[0]
    assert torch.spyre.memory_allocated(1) == before[1] + 1024
    assert y.device.index == 1


def test_device_generic_tests_of_pytorch_run_on_the_device() -> None:
    import pytest

    pytest.importorskip("expecttest")
    from torch.testing._internal.common_device_type import instantiate_device_type_tests
    from torch.testing._internal.common_utils import TestCase

    class TestAdding(TestCase):
        def test_add(self, device):
            x = torch.ones(2, device=device)
            self.assertEqual(x.device.type, "spyre")
            self.assertEqual(x + x, torch.full((2,), 2.0, device=device))

    scope: dict = {"TestAdding": TestAdding}
    instantiate_device_type_tests(TestAdding, scope, only_for="spyre")
    import unittest

    (case,) = scope.values()
    assert case.__name__ == "TestAddingPRIVATEUSE1"
    result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    assert result.testsRun == 1 and result.wasSuccessful()
