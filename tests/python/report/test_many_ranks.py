"""Many ranks: who keeps the others waiting, when and why, with the right values, whoever reads the traces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import many_ranks
import pytest
from many_ranks import HOST, KERNEL, TRANSFER

import kineto_spyre
from kineto_spyre.report import NotComparable, compare, make, many

OWN = 1000 * (HOST + KERNEL + TRANSFER)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """8 ranks on 2 hosts: rank 5's kernels take 100 us longer, in step 3 rank 2's host takes 300 us longer."""
    directory = tmp_path_factory.mktemp("run") / "traces"
    many_ranks.write(directory, 8, 6, {(5, None): (0, 100), (2, 3): (300, 0)}, "node{rank}_77.1.pt.trace.json")
    for rank in range(8):
        path = directory / f"node{rank}_77.1.pt.trace.json"
        path.rename(directory / f"node{rank // 4}_{rank}.1.pt.trace.json")
    return directory


@pytest.fixture(scope="module")
def facts(traces):
    return many(traces).facts


def of(facts, rank):
    return next(one for one in facts["ranks"] if one["rank"] == rank)


def test_the_slowest_rank_of_each_step_and_why(facts):
    assert [one["title"] for one in facts["steps"]] == [f"step {n}" for n in range(1, 7)]
    for one in facts["steps"]:
        late = one["title"] == "step 3"
        assert one["slowest"] == (2 if late else 5) and one["stands_out"]
        assert one["own"] - one["median"] == (300_000 if late else 100_000)
        assert (one["part"], one["name"]) == (("host", "load") if late else ("kernels", "matmul"))
        assert one["part_excess"] == one["name_excess"] == one["own"] - one["median"]
    # Of the others, 6 waited 300 us and rank 5 waited 200.
    assert facts["steps"][2]["waiting"] == pytest.approx((6 * 300_000 + 200_000) / 7)


def test_the_straggler_and_a_rank_against_the_rest(facts):
    assert [one["rank"] for one in facts["ranks"] if one["straggler"]] == [5]
    slow, usual = of(facts, 5), of(facts, 0)
    assert slow["own"] == OWN + 100_000 and slow["excess"] == 100_000
    assert slow["parts"]["kernels"] == 100_000 and slow["part"] == "kernels"
    assert usual["own"] == OWN and usual["waiting"] == (5 * 100_000 + 300_000) / 6
    assert usual["step"] == usual["own"] + usual["waiting"]
    assert slow["waiting"] == 200_000 / 6
    assert "rank 5 on node1" in facts["verdict"] and "1 rank is a straggler" in facts["verdict"]


def test_the_spread_by_host(facts):
    hosts = {one["host"]: one for one in facts["hosts"]["hosts"]}
    assert {host: one["ranks"] for host, one in hosts.items()} == {"node0": 4, "node1": 4}
    assert hosts["node1"]["slowest"] == 5 and hosts["node1"]["own"] == OWN + 25_000
    assert hosts["node0"]["own"] == OWN + 300_000 / 6 / 4
    assert facts["hosts"]["between"] == pytest.approx(6_250)


def test_what_differs_between_ranks(facts):
    worst = next(one for one in facts["kernels"] if one["name"] == "matmul")
    assert (worst["rank"], worst["median"], worst["largest"]) == (5, 1000 * KERNEL, 1000 * KERNEL + 100_000)


def test_alike_ranks_have_no_straggler(tmp_path):
    many_ranks.write(tmp_path / "run", 6, 4)
    found = many(tmp_path / "run").facts
    assert not any(one["straggler"] for one in found["ranks"]) and not any(one["stands_out"] for one in found["steps"])
    assert "No rank is slower" in found["verdict"] and "No rank was seen to wait" in found["verdict"]


def test_two_ranks_are_enough(tmp_path):
    many_ranks.write(tmp_path / "run", 2, 4, {(1, None): (200, 0)})
    found = many(tmp_path / "run").facts
    assert [one["rank"] for one in found["ranks"] if one["straggler"]] == [1]


def test_several_processes_find_the_same(traces, facts):
    command = [sys.executable, "-m", "kineto_spyre", "report", str(traces), "--jobs", "2", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == facts


def test_the_command_shows_it(traces, tmp_path):
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "kineto_spyre", "report", str(traces), "--jobs", "1", "--rank", "5"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Rank 5 against the rest" in text and "straggler" in text and "node1" in text
    assert "In step 3 rank 2 was the slowest" in text and "the device waited 300 us more for the host (in load)" in text
    assert subprocess.run([*command, "--html", str(page)]).returncode == 0
    assert page.read_text().count("<svg") == 2
    assert subprocess.run([*command[:-1], "99"], capture_output=True).returncode == 2


def test_ranks_of_a_later_version_are_said_once(tmp_path):
    directory = tmp_path / "traces"
    many_ranks.write(directory, 3, 2)
    for rank in (1, 2):
        path = directory / f"rank{rank}.json"
        path.write_text(json.dumps({"schemaVersion": 99} | json.loads(path.read_text())))
    command = [sys.executable, "-P", "-m", "kineto_spyre", "report", str(directory), "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert f"2 traces are of a later version. The first, {directory}/rank1.json, has schemaVersion 99 and" in said


def test_strangers_and_ranks_that_do_not_match_are_said(tmp_path):
    run = tmp_path / "run"
    many_ranks.write(run, 3, 4)
    (run / "notes.txt").write_text("mine")
    (run / "config.json").write_text('{"a": 1}')
    (run / "idle.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1, "dur": 1}]}')
    many_ranks.write(tmp_path / "more", 1, 2, first_step=5)
    (tmp_path / "more" / "rank0.json").rename(run / "rank0-later.json")
    report = many(run)
    found = report.facts
    assert found["other_files"] == 1 and found["traces"] == 4
    assert sorted(os.path.basename(one["trace"]) for one in found["left_out"]) == ["config.json", "idle.json"]
    assert {one["title"]: one["ranks"] for one in found["unmatched"]} == {"step 5": 1, "step 6": 1}
    assert "The ranks don't match: 2 steps are not in all traces" in str(report) and "2 files were left out" in str(
        report
    )


@pytest.mark.parametrize(
    "make, code, words",
    [
        (lambda run: None, 2, "holds no trace"),
        (lambda run: [(run / name).write_text("{}") for name in ("a.json", "b.json")], 2,
         "holds no trace with device work; a.json"),
        (lambda run: (many_ranks.write(run, 1, 3), many_ranks.write(run, 1, 3, name="later.json", first_step=4)), 1,
         "of rank 0 only"),
        (lambda run: (many_ranks.write(run, 2, 3), many_ranks.write(run, 1, 3, name="again.json")), 1,
         "step 1 of rank 0 twice"),
        (lambda run: (many_ranks.write(run, 1, 3), many_ranks.write(run / "b", 2, 3, name="b{rank}.json", first_step=9),
                      (run / "b" / "b0.json").unlink()), 1, "no step in common"),
    ],
)  # fmt: skip
def test_what_can_not_be_compared_is_one_sentence(tmp_path, make, code, words):
    run = tmp_path / "run"
    run.mkdir()
    make(run)
    with pytest.raises(NotComparable, match=words):
        many(run)
    command = [sys.executable, "-m", "kineto_spyre", "report", str(run), "--jobs", "1"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert len(ended.stderr.splitlines()) == 1 and words in ended.stderr and str(run) in ended.stderr


def test_a_directory_with_one_trace_is_that_trace(tmp_path):
    many_ranks.write(tmp_path / "before", 1, 4)
    many_ranks.write(tmp_path / "after", 1, 4, {(0, None): (0, 100)})
    (tmp_path / "before" / "notes.txt").write_text("mine")
    paths = [str(tmp_path / name / "rank0.json") for name in ("before", "after")]
    assert kineto_spyre.report(tmp_path / "before").facts == make(paths[0]).facts
    changed = kineto_spyre.report(tmp_path / "before", tmp_path / "after").facts
    assert changed == compare(*paths).facts
    command = [sys.executable, "-m", "kineto_spyre", "report", str(tmp_path / "before"), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["trace"] == paths[0]


def test_ranks_by_name_and_by_order(tmp_path):
    many_ranks.write(tmp_path / "named", 3, 2, name="rank_{rank}/trace.json", info=False)
    assert [(one["rank"], one["host"]) for one in many(tmp_path / "named").facts["ranks"]] == [
        (0, "rank_0"), (1, "rank_1"), (2, "rank_2")]  # fmt: skip
    many_ranks.write(tmp_path / "plain", 3, 2, name="{rank}.json", info=False)
    assert [one["rank"] for one in many(tmp_path / "plain").facts["ranks"]] == [0, 1, 2]


CLUSTER = """
import json, os, sys
from distributed import Client, LocalCluster
from kineto_spyre.report import many

def die_at_the_first_trace():
    import os, signal
    from kineto_spyre.report.ranks import summary

    def dies(path):
        os.kill(os.getpid(), signal.SIGKILL)
    dies.__module__, dies.__qualname__ = summary.__name__, "summarise"
    summary.summarise = dies
    return os.getpid()

if __name__ == "__main__":
    found, killed = [], 0
    for workers in map(int, sys.argv[2].split(",")):
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
            if sys.argv[3] == "kill":
                with Client(cluster.scheduler_address, set_as_default=False) as client:
                    first = list(client.scheduler_info()["workers"])[0]
                    (pid,) = client.run(die_at_the_first_trace, workers=[first]).values()
            found.append(many(sys.argv[1], scheduler=cluster.scheduler_address).facts)
            if sys.argv[3] == "kill":
                killed = not os.path.exists(f"/proc/{pid}") or "zombie" in open(f"/proc/{pid}/status").read()
    print(json.dumps({"facts": found, "killed": killed}))
"""


def on_cluster(directory, workers, what, tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    command = [sys.executable, str(script), str(directory), workers, what]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_cluster_of_one_and_of_two_workers_finds_the_same(traces, facts, tmp_path):
    assert on_cluster(traces, "1,2", "live", tmp_path)["facts"] == [facts, facts]


def test_a_killed_worker_costs_its_retry_only(traces, facts, tmp_path):
    ended = on_cluster(traces, "2", "kill", tmp_path)
    assert ended["killed"]
    assert ended["facts"] == [facts]


def test_a_killed_process_costs_its_retry_only(tmp_path):
    """The first process that reads is killed while it does."""
    many_ranks.write(tmp_path / "run", 6, 6, {(5, None): (0, 100)}, filler=2_000)
    command = [sys.executable, "-m", "kineto_spyre", "report", str(tmp_path / "run"), "--jobs", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        child, until = None, time.monotonic() + 60
        while child is None and time.monotonic() < until:
            child = reading(running.pid)
            time.sleep(0.005)
        assert child is not None
        os.kill(child, signal.SIGKILL)
        found = json.loads(running.stdout.read())
    assert running.returncode == 0 and found == many(tmp_path / "run").facts


def reading(parent):
    """A child that has a trace open, or None."""
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        children = file.read().split()
    for child in children:
        try:
            opened = [os.readlink(f"/proc/{child}/fd/{number}") for number in os.listdir(f"/proc/{child}/fd")]
        except OSError:
            continue
        if any(one.endswith(".json") for one in opened):
            return int(child)
    return None


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://here"])
def test_a_cluster_that_is_not_there_is_said(traces, address):
    pytest.importorskip("distributed")
    command = [sys.executable, "-m", "kineto_spyre", "report", str(traces), "--scheduler", address]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"{address} can't be reached" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
