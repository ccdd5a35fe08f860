"""torch.save and torch.load, DataLoader, processes."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def saved(thing) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (lambda: None, "spyre:0"),
        (lambda: "spyre", "spyre:0"),
        (lambda: "spyre:1", "spyre:1"),
        (lambda: "cpu", "cpu"),
        (lambda: torch.device("spyre:1"), "spyre:1"),
        (lambda: {"spyre:0": "spyre:1"}, "spyre:1"),
    ],
)
def test_tensors_come_back_where_they_are_wanted(location, expected: str) -> None:
    x = torch.randn(3, 4, device="spyre")
    y = torch.load(saved({"x": x, "view": x[1:]}), map_location=location())
    assert str(y["x"].device) == expected
    assert torch.equal(y["x"].cpu(), x.cpu())
    assert y["view"].untyped_storage().data_ptr() == y["x"].untyped_storage().data_ptr()


def test_cpu_tensors_load_onto_the_device() -> None:
    x = torch.randn(4)
    assert torch.equal(torch.load(saved(x), map_location="spyre").cpu(), x)
    assert torch.load(saved(x), map_location="spyre").is_spyre


def test_modules_and_optimisers() -> None:
    model = torch.nn.Linear(3, 3).to("spyre")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="spyre")).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), map_location="spyre")
    other = torch.nn.Linear(3, 3).to("spyre")
    other.load_state_dict(state["model"])
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(model.parameters(), other.parameters()))
    twin = torch.optim.Adam(other.parameters())
    twin.load_state_dict(state["optimizer"])
    assert twin.state[other.weight]["exp_avg"].is_spyre


def test_a_device_that_is_not_there_is_named() -> None:
    file = saved(torch.ones(1))
    with pytest.raises(RuntimeError, match="spyre"):
        torch.load(file, map_location="spyre:5")


def test_storages_know_where_they_are() -> None:
    s = torch.UntypedStorage(4, device=torch.device("spyre:1"))
    assert torch.serialization.location_tag(s) == "spyre:1"
    assert torch.serialization.location_tag(torch.UntypedStorage(4, device="spyre")) == "spyre:0"
    restored = torch.serialization.default_restore_location(torch.empty(4).storage(), "spyre:0")
    assert restored.is_spyre
    assert torch.ones(3, device="spyre").storage().size() == 3
    assert torch._utils.get_tensor_metadata(torch.ones(1, device="spyre")) == {}
    assert pickle.loads(pickle.dumps(torch.ones(2, device="spyre"))).is_spyre


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_pins(workers: int) -> None:
    data = TensorDataset(torch.arange(20.0), torch.arange(20))
    loader = DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True)
    total = 0.0
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        total += x.to("spyre", non_blocking=True).sum().item()
    assert total == sum(range(20))


def _use_the_device(queue) -> None:
    try:
        assert torch.spyre._is_in_bad_fork() and not torch.spyre.is_initialized()
        assert torch.spyre.device_count() == 0 and not torch.spyre.is_available()
        torch.manual_seed(3)  # must not touch the device
        assert torch.randn(2).shape == (2,)
        torch.spyre.synchronize()  # there is nothing to wait for
        for use in (
            lambda: torch.ones(2, device="spyre"),
            lambda: torch.spyre.get_device_name(),
            lambda: torch.spyre.set_device(1),
            lambda: torch.spyre.memory_allocated(),
            lambda: torch.Stream(device="spyre"),
            lambda: torch.accelerator.set_device_index(1),
            lambda: torch.accelerator.synchronize(),
        ):
            try:
                use()
                queue.put("no error")
            except RuntimeError as e:
                queue.put(str(e))
        queue.put(None)
    except BaseException as e:
        queue.put(repr(e))
        queue.put(None)


def test_a_forked_process_is_told_that_it_can_not_use_the_device() -> None:
    x = torch.ones(3, device="spyre")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_use_the_device, args=(queue,))
    process.start()
    answers = list(iter(lambda: queue.get(timeout=60), None))
    process.join(60)
    assert len(answers) == 7 and all("spawn" in answer for answer in answers), answers
    assert process.exitcode == 0
    assert x.sum().item() == 3


def test_a_forked_process_ends_in_peace_with_inherited_tensors() -> None:
    keep = [torch.ones(1000, device="spyre") for _ in range(10)]
    pid = os.fork()
    if pid == 0:
        keep.clear()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(keep) == 10


def test_a_program_ends_in_peace(run_python) -> None:
    done = run_python(
        """
        import torch, threading, time, kineto_spyre
        kineto_spyre.emulator.enable(devices=2)
        KEPT = [torch.randn(100, 100, device="spyre", requires_grad=True) for _ in range(5)]
        GRAPH = sum(k @ k for k in KEPT).sum()
        GRAPH.backward()
        STREAM, EVENT = torch.Stream(device="spyre:1"), torch.Event(device="spyre")
        EVENT.record()
        threading.Thread(target=lambda: KEPT.append(torch.ones(5, device="spyre:1") + 1)).start()
        # PyTorch counts an autograd thread as started before it has taken the GIL for the first time. Where the program
        # ends in between, Python kills it and the process aborts: PyTorch's own race, on any device but the CPU.
        time.sleep(1)
        print("end")
        """
    )
    assert done.stdout.strip() == "end" and "rror" not in done.stderr
