"""torch.distributed with gloo on tensors of the device: the CPU's results, and the comms calls in the trace."""

from __future__ import annotations

import json
import pathlib

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")

WORKER = """
import json, os, sys, warnings
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

warnings.simplefilter("ignore")


def collectives(d, rank, world):
    from torch.distributed import _functional_collectives as functional

    def of(*values):
        return torch.tensor(values, device=d, dtype=torch.float32)

    seen = {}
    x = of(rank + 1.0, 2.0)
    dist.all_reduce(x)
    seen["all_reduce"] = x
    y = of(rank + 0.1, 0.3)
    work = dist.all_reduce(y, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    seen["async all_reduce"] = y
    b = of(float(rank))
    dist.broadcast(b, 1)
    seen["broadcast"] = b
    outs = [torch.empty(2, device=d) for _ in range(world)]
    dist.all_gather(outs, of(rank, rank + 0.5))
    seen["all_gather"] = torch.cat(outs)
    flat = torch.empty(2, device=d)
    dist.all_gather_into_tensor(flat, of(rank * 3.0))
    seen["all_gather_into_tensor"] = flat
    gathered = [torch.empty(1, device=d) for _ in range(world)] if rank == 0 else None
    dist.gather(of(rank * 7.0), gathered, dst=0)
    seen["gather"] = torch.cat(gathered) if rank == 0 else of()
    part = torch.empty(1, device=d)
    dist.scatter(part, [of(5.0), of(6.0)] if rank == 0 else None, src=0)
    seen["scatter"] = part
    scattered = torch.empty(1, device=d)
    dist.reduce_scatter_tensor(scattered, of(1.0 + rank, 10.0))
    seen["reduce_scatter"] = scattered
    r = of(rank + 2.0)
    dist.reduce(r, 0)
    seen["reduce"] = r if rank == 0 else of()
    swapped = torch.empty(2, device=d)
    dist.all_to_all_single(swapped, of(rank * 10.0, rank * 10.0 + 1))
    seen["all_to_all"] = swapped
    received, other = torch.empty(1, device=d), 1 - rank
    for work in [dist.irecv(received, other), dist.isend(of(rank + 0.5), other)]:
        work.wait()
    seen["send and receive"] = received
    seen["functional"] = functional.all_reduce(of(1.0, rank), "sum", dist.group.WORLD) + 0
    dist.barrier()  # no device takes part, and none records it
    dist.barrier(device_ids=[0])
    names = [None, None]
    dist.all_gather_object(names, f"rank {rank}")
    assert names == ["rank 0", "rank 1"]
    return {k: v.tolist() for k, v in seen.items()}


def training(d, rank):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).to(d)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(3):
        optimizer.zero_grad()
        parallel(torch.randn(2, 4).to(d)).square().sum().backward()
        optimizer.step()
    return model.weight.detach().tolist()


def worker(rank, world, port, folder):
    import kineto_spyre

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    kineto_spyre.emulator.enable(devices=1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    result = {d: [collectives(d, rank, world), training(d, rank)] for d in ("cpu", "spyre")}
    with kineto_spyre.profile_spyre() as prof:
        collectives("spyre", rank, world)
    result["events"] = sorted({e.name for e in prof.events()})
    dist.destroy_process_group()
    with open(os.path.join(folder, f"{rank}.json"), "w") as f:
        json.dump(result, f)


if __name__ == "__main__":
    mp.spawn(worker, (2, int(sys.argv[1]), sys.argv[2]), 2)
"""


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_two_ranks_agree_with_the_cpu(run_python, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "ranks.py"  # spawned processes import their main module, so it must be a file
    script.write_text(WORKER)
    run_python(
        f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {str(script)!r}, *sys.argv[1:]]))",
        str(free_port()),
        str(tmp_path),
    )
    for rank in range(2):
        result = json.loads((tmp_path / f"{rank}.json").read_text())
        assert result["spyre"] == result["cpu"]
        for name in (
            "Unknown CBID 41",  # an all-reduce, but releases of libaiupti disagree about that number's name
            "aiuCommsCollAllgather",
            "aiuCommsCollGather",
            "aiuCommsCollReduce",
            "aiuCommsCollBroadcast",
            "aiuCommsCollBarrier",
            "aiuCommsWorkSchedStart",
            "aiuCommsOpD2HXfer",
            "aiuCommsOpH2DXfer",
            "aiuCommsOpSendData",
            "aiuCommsOpRecvData",
            "gloo:all_reduce",
            "Memcpy (DtoH)",
            "Memcpy (HtoD)",
        ):
            assert name in result["events"], name
