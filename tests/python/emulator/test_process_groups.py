"""torch.distributed where no backend is named: the device's default is gloo. Two processes each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")

HEAD = """
import os, sys, warnings
import torch
import torch.distributed as dist
from kineto_spyre import emulator

warnings.simplefilter("error")
emulator.enable(devices=2)
rank = int(os.environ["RANK"])
device = torch.device("spyre", rank)


def works(group=None):
    x = torch.full((3,), rank + 1.0, device=device)
    dist.all_reduce(x, group=group)
    assert x.device == device and x.tolist() == [3, 3, 3], x
    names = [None, None]
    dist.all_gather_object(names, f"rank {rank}", group=group)
    assert names == ["rank 0", "rank 1"]


"""

PROGRAMS = {
    "nothing named": """
dist.init_process_group()
works()
dist.barrier()
on_cpu = torch.tensor([rank + 1.0])
dist.all_reduce(on_cpu)
assert on_cpu.item() == 3, "after a collective of the device, the group serves the CPU too"
""",
    "a device_id": """
dist.init_process_group(device_id=device)
works()
works(dist.new_group([0, 1]))
dist.barrier()
""",
    "gloo and a device_id": """
dist.init_process_group("gloo", device_id=device)
works()
on_cpu = torch.tensor([rank + 1.0])
dist.all_reduce(on_cpu)
assert on_cpu.item() == 3
""",
    "a mesh alone": """
from torch.distributed.device_mesh import init_device_mesh
torch.spyre.set_device(rank)
mesh = init_device_mesh("spyre", (2,))
works(mesh.get_group())
from torch.distributed.tensor import distribute_tensor, Shard
whole = torch.arange(8.0).view(4, 2)
shards = distribute_tensor(whole.to(device), mesh, [Shard(0)])
assert torch.equal(shards.to_local().cpu(), whole[2 * rank : 2 * rank + 2])
assert torch.equal((shards @ shards.T).full_tensor().cpu(), whole @ whole.T)
""",
    "a mesh after a device_id": """
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group(device_id=device)
mesh = init_device_mesh("spyre", (1, 2), mesh_dim_names=("replicas", "shards"))
works(mesh["shards"].get_group())
""",
    "DDP, with its times": """
dist.init_process_group()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2).to(device)
parallel = torch.nn.parallel.DistributedDataParallel(model)
for _ in range(2):
    parallel(torch.full((3, 4), rank + 1.0, device=device)).sum().backward()
assert torch.equal(model.bias.grad.cpu(), torch.full((2,), 6.0))
assert torch.equal(model.weight.grad.cpu(), torch.full((2, 4), 9.0))
times = parallel._get_ddp_logging_data()
assert times["backend_name"] == "gloo"
assert times["avg_forward_compute_time"] > 0 and times["avg_backward_compute_time"] > 0, times
""",
    "accelerate, as the how-to page says": """
import accelerate
warnings.simplefilter("ignore")
os.environ["ACCELERATE_TORCH_DEVICE"] = "spyre"
torch.spyre.set_device(rank)
accelerator = accelerate.Accelerator(cpu=True)
assert accelerator.num_processes == 2 and accelerator.device.type == "spyre"
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
whole = torch.nn.Linear(4, 2)
whole.load_state_dict(model.state_dict())
xs = torch.arange(16.0).view(4, 4)
model, loader = accelerator.prepare(model, torch.utils.data.DataLoader(xs, batch_size=2))
(batch,) = list(loader)
assert batch.device == device, "each rank has half of the data, on its own device"
accelerator.backward(model(batch).mean())
whole(xs).mean().backward()
torch.testing.assert_close(model.module.weight.grad.cpu(), whole.weight.grad)
""",
    "accelerate, without what the page says": """
import accelerate
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert accelerate.Accelerator().num_processes == 1
    accelerate.PartialState()
(said,) = [str(w.message) for w in caught if "ranks" in str(w.message)]
assert said.startswith("Each of the 2 ranks trains alone") and "ACCELERATE_TORCH_DEVICE=spyre" in said
""",
    "FSDP2": """
from torch.distributed.fsdp import fully_shard
torch.spyre.set_device(rank)
dist.init_process_group(device_id=device)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
import copy
whole = copy.deepcopy(model)
model.to(device)
for layer in model:
    fully_shard(layer)
fully_shard(model)
xs = [torch.full((3, 4), r + 1.0) for r in range(2)]
(model(xs[rank].to(device)).sum()).backward()
for x in xs:
    (whole(x).sum() / 2).backward()
for (name, p), q in zip(model.named_parameters(), whole.parameters()):
    torch.testing.assert_close(p.grad.full_tensor().cpu(), q.grad)
""",
}

# A rank that ended while the other one still connects to it would make that one fail. And PyTorch keeps gloo's threads
# where DTensor's caches keep a mesh; one that still has a tensor to release while the interpreter ends aborts the
# process (PyTorch's issue 190489). So a rank that has such threads ends without finalizing the interpreter.
TAIL = """
import gc, pathlib, time
pathlib.Path(f"done{rank}").touch()
until = time.monotonic() + 60
while not pathlib.Path(f"done{1 - rank}").exists() and time.monotonic() < until:
    time.sleep(0.01)
mesh = None
gc.collect()
dist.destroy_process_group()
if any(f.read_text() == "pt_gloo_runloop\\n" for f in pathlib.Path("/proc/self/task").glob("*/comm")):
    torch.spyre.synchronize()
    os._exit(0)
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_ranks(tmp_path, name) -> None:
    if name.startswith("accelerate"):
        pytest.importorskip("accelerate", reason="this program needs accelerate (pip install accelerate)")
    script = tmp_path / "rank.py"
    script.write_text(HEAD + PROGRAMS[name] + TAIL)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, script],
        cwd=tmp_path,
        env=clean | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
