"""Where the profiler runs: ranks under torchrun, server threads, spawned and forked workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

WORK = """
import torch
import kineto_spyre
def work(device="spyre"):
    a = torch.randn(64, 64, dtype=torch.float16).to(device)
    return (a @ a).cpu()
"""

RANK = (
    """
import json, os, pathlib, sys
"""
    + WORK
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
kineto_spyre.emulator.enable(devices=world)
device = f"spyre:{os.environ['LOCAL_RANK']}"
with kineto_spyre.profile_spyre() as prof:
    work(device)
    t = torch.ones(4)
    dist.all_reduce(t)
assert t[0] == world
prof.export_chrome_trace(f"{sys.argv[1]}/rank{rank}.json")
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("ranks", [2, 4])
def test_torchrun_writes_one_trace_a_rank_with_its_own_card(tmp_path, ranks):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*command, script, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "AIU_WORLD_SIZE": str(ranks), "SPYRE_DEVICES": "0,1,2,3"},
    )
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        trace = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["world_size"] == ranks
        kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
        assert kernels
        labels = {e["pid"]: e["args"]["labels"] for e in trace["traceEvents"] if e["name"] == "process_labels"}
        assert {labels[k["pid"]] for k in kernels} == {f"AIU {rank}"}
        assert len(trace["deviceProperties"]) == 1


def test_a_server_thread_starts_runs_and_stops(run_python):
    """As vLLM's workers do: requests to start, run and stop come in on a thread that is not the main one."""
    run_python(
        WORK
        + """
import queue, threading
kineto_spyre.emulator.enable()
requests, answers = queue.Queue(), queue.Queue()
def serve():
    while (request := requests.get()) is not None:
        answers.put(request())
def ask(request):
    requests.put(request)
    return answers.get(timeout=120)
server = threading.Thread(target=serve)
server.start()
ask(work)
for turn in range(3):
    prof = ask(kineto_spyre.profile_spyre)
    ask(prof.start)
    ask(work)
    ask(prof.stop)
    session = kineto_spyre.last_session()
    assert session.captured["kernel"] >= 1, session
    assert session.captured["memcpy"] == 2, session
    assert kineto_spyre.status().sessions == turn + 1
requests.put(None)
server.join()
"""
    )


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_profile_on_their_own(run_python, tmp_path, method):
    (tmp_path / "worker.py").write_text(
        WORK
        + """
def worker(queue):
    kineto_spyre.emulator.enable()
    with kineto_spyre.profile_spyre():
        work()
    queue.put(kineto_spyre.last_session().captured["kernel"])
"""
    )
    run_python(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import multiprocessing
        import worker
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            queue = context.Queue()
            processes = [context.Process(target=worker.worker, args=(queue,)) for _ in range(2)]
            for p in processes:
                p.start()
            counts = [queue.get(timeout=120) for _ in processes]
            for p in processes:
                p.join()
                assert p.exitcode == 0
            assert counts[0] == counts[1] > 0, counts
            assert "aiupti" not in open("/proc/self/maps").read()
        """
    )


def test_a_cpu_only_profile_gets_no_session(run_python):
    run_python(
        WORK
        + """
from torch.profiler import ProfilerActivity, profile
kineto_spyre.emulator.enable()
with profile(activities=[ProfilerActivity.CPU]) as prof:
    work()
assert kineto_spyre.last_session() is None
assert kineto_spyre.status().sessions == 0
assert any(e.key == "aten::mm" for e in prof.key_averages())
"""
    )


def test_profile_spyre_waits_for_the_device_before_it_ends(run_python):
    run_python(
        """
        import torch
        import kineto_spyre
        kineto_spyre.emulator.enable()
        device = kineto_spyre.emulator.Device(0)
        for _ in range(2):
            with kineto_spyre.profile_spyre():
                device.launch("spyre_kernel_v1_long_aaaaaaaaaaaaaaaa#0", ns=50_000_000)
            session = kineto_spyre.last_session()
            assert session.captured["kernel"] == 1, session
            assert session.out_of_window == 0, session
        """
    )


def test_a_schedule_is_waited_for_at_the_end_of_each_cycle(run_python):
    run_python(
        """
        import torch
        import kineto_spyre
        from torch.profiler import schedule
        kineto_spyre.emulator.enable()
        device = kineto_spyre.emulator.Device(0)
        seen = []
        def ready(prof):
            seen.append(kineto_spyre.last_session().captured["kernel"])
        twice = schedule(wait=1, warmup=1, active=2, repeat=2)
        with kineto_spyre.profile_spyre(schedule=twice, on_trace_ready=ready) as p:
            for step in range(8):
                for _ in range(3):
                    device.launch("spyre_kernel_v1_step_aaaaaaaaaaaaaaaa#0", ns=5_000_000)
                p.step()
        assert seen == [6, 6], seen
        """
    )
