"""What the allocator counts, keeps and says when there is no more."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

import kineto_spyre


@pytest.fixture(autouse=True)
def clean():
    gc.collect()
    torch.spyre.empty_cache()
    torch.spyre.reset_peak_memory_stats()


def test_tensors_are_counted() -> None:
    before = torch.spyre.memory_allocated()
    x = torch.empty(1000, device="spyre")
    assert torch.spyre.memory_allocated() == before + 4096  # 4000 bytes, in blocks of 512
    y = torch.empty(1 << 20, device="spyre")
    assert torch.spyre.memory_allocated() == before + 4096 + (4 << 20)
    assert torch.spyre.max_memory_allocated() == before + 4096 + (4 << 20)
    assert torch.spyre.memory_reserved() >= torch.spyre.memory_allocated()
    del x, y
    assert torch.spyre.memory_allocated() == before
    assert torch.spyre.max_memory_allocated() == before + 4096 + (4 << 20)
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == before
    assert torch.spyre.memory_allocated(1) == torch.spyre.memory.memory_allocated("spyre:1")


def test_an_ops_result_lies_in_device_memory_and_nothing_is_left_behind() -> None:
    x = torch.randn(256, 256, device="spyre")
    before = torch.spyre.memory_allocated()
    y = torch.softmax(x @ x, -1)
    assert torch.spyre.memory_allocated() == before + 256 * 256 * 4
    from kineto_spyre import _device

    assert _device.device_of_address(y.data_ptr()) == 0
    for f in (torch.sort, torch.cumsum, torch.log_softmax):
        z = f(x, 1)
        del z
    torch.nn.functional.conv2d(x.view(1, 1, 256, 256), torch.ones(4, 1, 3, 3, device="spyre"))
    assert torch.spyre.memory_allocated() == before + 256 * 256 * 4
    assert torch.spyre.max_memory_allocated() > before + 2 * 256 * 256 * 4  # temporaries are on the device


def test_the_cache_is_used_and_emptied() -> None:
    x = torch.empty(3 << 20, dtype=torch.uint8, device="spyre")
    address = x.data_ptr()
    del x
    held = torch.spyre.memory_reserved()
    x = torch.empty(3 << 20, dtype=torch.uint8, device="spyre")
    assert x.data_ptr() == address and torch.spyre.memory_reserved() == held
    del x
    torch.spyre.empty_cache()
    assert torch.spyre.memory_reserved() < held
    torch.accelerator.empty_cache()


def test_neighbours_that_are_free_become_one() -> None:
    held, unsplit = torch.spyre.memory_reserved(), torch.spyre.memory_stats()["inactive_split.all.current"]
    parts = [torch.empty(1 << 20, dtype=torch.uint8, device="spyre") for _ in range(4)]
    assert torch.spyre.memory_reserved() == held + (4 << 20)
    addresses = [part.data_ptr() for part in parts]
    assert [b - a for a, b in zip(addresses, addresses[1:])].count(1 << 20) >= 2  # in pairs: a segment holds two
    for i in (0, 2, 1, 3):
        parts[i] = None
    # Blocks of which nothing is in use are whole segments again, and so can be given back.
    assert torch.spyre.memory_stats()["inactive_split.all.current"] == unsplit
    torch.spyre.empty_cache()
    assert torch.spyre.memory_reserved() == held


def test_statistics_have_their_usual_names() -> None:
    stats = torch.spyre.memory_stats()
    for name in ("allocation", "segment", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for value in ("current", "peak", "allocated", "freed"):
                assert isinstance(stats[f"{name}.{pool}.{value}"], int)
    assert stats["num_ooms"] == torch.spyre.memory_stats()["num_ooms"]
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
    assert torch.accelerator.memory.memory_stats() == torch.spyre.memory_stats()
    torch.spyre.reset_accumulated_memory_stats()
    assert torch.spyre.memory_stats()["allocation.all.allocated"] == 0
    assert "allocated_bytes" in torch.spyre.memory_summary()
    free, total = torch.spyre.mem_get_info()
    assert 0 < free <= total and (free, total) == torch.accelerator.get_memory_info()


def test_out_of_memory_says_how_much_was_asked_and_free() -> None:
    _, total = torch.spyre.mem_get_info()
    gib = total / 2**30
    sentence = (
        rf"^spyre out of memory. Tried to allocate {2 * gib:.2f} GiB. Device spyre:0 has a total capacity of "
        rf"{gib:.2f} GiB of which \d+\.\d\d GiB is free; .*\.enable\(memory_bytes=\.\.\.\)"
    )
    with pytest.raises(torch.OutOfMemoryError, match=sentence):
        torch.empty(2 * total, dtype=torch.uint8, device="spyre")
    assert torch.spyre.memory_stats()["num_ooms"] >= 1
    assert torch.ones(3, device="spyre").sum().item() == 3


def test_cached_memory_is_given_up_before_running_out() -> None:
    free, _ = torch.spyre.mem_get_info()
    big = torch.empty(free // 3 * 2, dtype=torch.uint8, device="spyre")
    del big
    other = torch.empty(free // 4 * 3, dtype=torch.uint8, device="spyre")  # only fits if the first segment is freed
    del other


def test_memory_made_on_one_thread_may_die_on_another() -> None:
    before = torch.spyre.memory_allocated()
    made = [torch.empty(1000, device="spyre") for _ in range(100)]

    def drop(part):
        part.clear()

    halves = [made[:50], made[50:]]
    made.clear()
    threads = [threading.Thread(target=drop, args=(h,)) for h in halves]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    del threads
    halves.clear()
    gc.collect()
    assert torch.spyre.memory_allocated() == before


def test_no_leaks_over_many_ops() -> None:
    def step():
        x = torch.randn(50, 50, device="spyre", requires_grad=True)
        y = (x @ x).relu().view(-1)[10:].sum()
        y.backward()
        x.grad.cpu()

    step()
    before = torch.spyre.memory_allocated()
    for _ in range(200):
        step()
    gc.collect()
    assert torch.spyre.memory_allocated() == before


def test_the_profiler_sees_who_allocated() -> None:
    x = torch.randn(100, 100, device="spyre")
    with kineto_spyre.profile_spyre(profile_memory=True) as prof:
        y = x @ x
        del y
    rows = {r.key: r for r in prof.key_averages()}
    assert rows["aten::mm"].self_device_memory_usage == 40448  # 40000, rounded to 512
    assert rows["aten::mm"].self_cpu_memory_usage == 0
