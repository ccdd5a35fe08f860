"""What asks for dumps, and their limits: one in a while, a budget on disk, never half a file, never in the way."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import urllib.error
import urllib.request

import pytest
from dumps import events_of

import kineto_spyre
from kineto_spyre import SpyreProfilerError, emulator
from kineto_spyre.recorder import RateLimited

torch = pytest.importorskip("torch")


@pytest.fixture
def make_recorder(two_devices, tmp_path):
    """Makes a recorder that writes into the test's folder; `every` is 0 unless told."""
    made = []

    def make(**options):
        made.append(kineto_spyre.record(seconds=60, folder=tmp_path, **{"every": 0, **options}))
        return made[-1]

    yield make
    for recorder in made:
        recorder.stop()


def stacks_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.stacks.txt"))


def recordings_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("recording_*.json"))


def written(recorder, count: int) -> kineto_spyre.recorder.Status:
    """The recorder's status once it has answered so many requests."""
    done = threading.Event()
    for _ in range(6000):
        status = recorder.status()
        if status.dumps + status.dumps_skipped + status.dumps_failed >= count:
            return status
        done.wait(0.01)
    raise AssertionError(f"{recorder.status()}: {count} requests were not answered")


def test_an_exception_that_leaves_a_watched_block_is_dumped_with_stacks_and_goes_on(make_recorder, work, tmp_path):
    recorder = make_recorder()
    with pytest.raises(KeyError, match="gone"), recorder.watch("request"):
        work("the request that failed")
        raise KeyError("gone")
    assert written(recorder, 1).dumps == 1
    (path,) = recordings_in(tmp_path)
    assert "KeyError" in path.name
    assert json.loads(path.read_text())["kineto_spyre"]["recording"]["reason"] == "KeyError"
    assert "the request that failed" in [event["name"] for event in events_of(path, "user_annotation")]
    (stacks,) = stacks_in(tmp_path)
    assert "test_triggers.py" in stacks.read_text()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("Spyre out of memory."), "out-of-memory"),
        (RuntimeError("The device is lost."), "device-lost"),
        (ValueError("x"), "ValueError"),
    ],
)
def test_an_exception_is_known_by_its_kind(make_recorder, tmp_path, error, reason):
    recorder = make_recorder()
    with pytest.raises(type(error)), recorder.watch():
        raise error
    written(recorder, 1)
    assert [reason in path.name for path in recordings_in(tmp_path)] == [True]


def test_a_lost_device_and_full_memory_of_the_emulated_spyre_are_known(make_recorder, work, tmp_path):
    recorder = make_recorder()
    with pytest.raises(RuntimeError), recorder.watch():
        torch.empty(2**45, dtype=torch.uint8, device="spyre")
    written(recorder, 1)
    work()
    with emulator.faults(device_lost="0:0"), pytest.raises(RuntimeError, match="is lost"), recorder.watch():
        work()
    written(recorder, 2)
    reasons = sorted(path.stem.split("_", 3)[3] for path in recordings_in(tmp_path))
    assert reasons == ["device-lost", "out-of-memory"]


def test_a_step_that_is_slow_against_the_median_is_dumped(make_recorder, work, tmp_path, monkeypatch):
    """By a clock of the test's own."""
    now = [0.0]
    monkeypatch.setattr("kineto_spyre.recorder._triggers.time.monotonic", lambda: now[0])
    recorder = make_recorder(slow=3)
    for number in range(20):
        with recorder.watch("request"):
            work(f"request {number}")
            now[0] += 0.5 if number == 15 else 0.1
    monkeypatch.undo()
    assert written(recorder, 1).dumps == 1
    assert ["slow-request" in path.name for path in recordings_in(tmp_path)] == [True]


def test_a_signal_asks_for_a_dump_and_the_handler_before_runs_too(make_recorder, work, tmp_path):
    seen = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    try:
        recorder = make_recorder()
        recorder.on_signal(signal.SIGUSR2)
        work("before the signal")
        os.kill(os.getpid(), signal.SIGUSR2)
        assert written(recorder, 1).dumps == 1
        assert seen == [signal.SIGUSR2]
        assert "SIGUSR2" in recordings_in(tmp_path)[0].name
        recorder.stop()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert seen == [signal.SIGUSR2] * 2
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_thousand_signals_are_one_dump_and_all_are_counted(make_recorder, work, tmp_path):
    before = signal.getsignal(signal.SIGUSR2)
    recorder = make_recorder(every=3600)
    recorder.on_signal(signal.SIGUSR2)
    for _ in range(1000):
        os.kill(os.getpid(), signal.SIGUSR2)
        work()
    status = written(recorder, 1000)
    assert (status.dumps, status.dumps_skipped, status.dumps_failed) == (1, 999, 0)
    assert len(recordings_in(tmp_path)) == 1
    recorder.stop()
    assert signal.getsignal(signal.SIGUSR2) == before


def ask(server, method: str, path: str, token: str | None = None) -> tuple[int, dict]:
    request = urllib.request.Request(server.url + path, method=method)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_over_http_who_has_the_token_gets_a_dump(make_recorder, work, tmp_path):
    recorder = make_recorder(every=3600)
    server = recorder.serve()
    work("served")
    assert ask(server, "POST", "/dump")[0] == 401
    assert ask(server, "POST", "/dump", server.token + "x")[0] == 401
    assert ask(server, "GET", "/status")[0] == 401
    assert recordings_in(tmp_path) == []
    assert ask(server, "POST", "/dump?seconds=nan", server.token)[0] == 400
    assert ask(server, "POST", "/nowhere", server.token)[0] == 404
    status, body = ask(server, "POST", "/dump?reason=slow%20request", server.token)
    assert status == 200
    assert body["complete"]
    assert "slow-request" in body["path"]
    assert "served" in [event["name"] for event in events_of(body["path"], "user_annotation")]
    status, body = ask(server, "POST", "/dump", server.token)
    assert status == 429
    assert "one in 3600 s at most" in body["error"]
    status, body = ask(server, "GET", "/status", server.token)
    assert (status, body["dumps"], body["dumps_skipped"]) == (200, 1, 1)
    with pytest.raises(SpyreProfilerError, match="can't be listened on"):
        recorder.serve(port=int(server.url.rsplit(":", 1)[1]))
    recorder.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url, timeout=5)


def test_a_watchdog_dumps_once_with_the_stacks_of_all_threads(make_recorder, work, tmp_path):
    recorder = make_recorder()
    stuck = threading.Event()

    def wait_for_ever():
        stuck.wait()

    thread = threading.Thread(target=wait_for_ever)
    thread.start()
    recorder.watchdog(0.05)
    written(recorder, 1)
    threading.Event().wait(0.3)
    stuck.set()
    thread.join()
    assert recorder.status().dumps == 1  # once for each time that it stops
    assert "wait_for_ever" in stacks_in(tmp_path)[0].read_text()
    recorder.alive()
    assert written(recorder, 2).dumps == 2


def test_the_oldest_dumps_make_room_for_the_newest(make_recorder, work, tmp_path):
    recorder = make_recorder(disk_mib=1)
    others = [tmp_path / name for name in ("another.json", "recording_of_mine.json")]
    for other in others:
        other.write_text("x" * 2**20)  # no dump: it stays, and counts for nothing
    work()
    paths = []
    for number in range(4):
        paths.append(pathlib.Path(recorder.dumps.ask(f"dump {number}").result(60).path))
        os.utime(paths[-1], ns=(number, number))
        with paths[-1].open("a") as file:
            file.write(" " * 400_000)
        os.utime(paths[-1], ns=(number, number))
    assert [path.exists() for path in paths] == [False, True, True, True]
    assert recorder.status().files_deleted == 1
    assert all(other.exists() for other in others)


def test_a_dump_that_can_not_be_written_is_told_once_and_counted(make_recorder, work, tmp_path):
    recorder = make_recorder()
    work()
    recorder.folder = tmp_path / "gone"
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="A dump \\(x\\) failed: .* can't be opened") as said:
        for _ in range(3):
            with pytest.raises(SpyreProfilerError):
                recorder.dumps.ask("x").result(60)
    assert len(said) == 1
    assert recorder.status().dumps_failed == 3
    recorder.folder = tmp_path
    assert recorder.dumps.ask("x").result(60).complete


def test_where_no_stacks_can_be_written_the_programs_own_error_goes_on(make_recorder, work, tmp_path, monkeypatch):
    recorder = make_recorder()
    work()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(KeyError, match="gone"), recorder.watch():
        raise KeyError("gone")
    assert written(recorder, 1).dumps == 1
    assert "could not be written" in stacks_in(tmp_path)[0].read_text()


def test_a_call_is_never_too_soon(make_recorder, work):
    recorder = make_recorder(every=3600)
    work()
    recorder.dumps.ask("first").result(60)
    with pytest.raises(RateLimited, match="one in 3600 s at most"):
        recorder.dumps.ask("second").result(60)
    assert recorder.dump().complete
    assert recorder.dumps.ask("third", forced=True).result(60).complete


def test_a_stopped_recorder_has_written_what_was_asked_for_and_takes_no_more(make_recorder, work, tmp_path):
    recorder = make_recorder()
    work()
    asked = [recorder.dumps.ask(f"dump {number}") for number in range(3)]
    recorder.stop()
    assert all(one.result(0).complete for one in asked)
    with pytest.raises(SpyreProfilerError, match="is not running"):
        recorder.dumps.ask("late").result(0)
    with recorder.watch():
        pass


def test_in_a_forked_child_watched_blocks_go_on(make_recorder, work):
    recorder = make_recorder()
    with recorder.watch():
        work()
    child = os.fork()
    if child == 0:
        try:
            with recorder.watch():
                recorder.step()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("options", [{"every": -1}, {"disk_mib": 0}, {"slow": 0.5}])
def test_limits_that_can_not_be(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is "):
        kineto_spyre.record(**options)
