"""Random programs on the emulated Spyre, whose idle time is known from the program; run by test_truth.py.

    python truth.py PROGRAMS SEED

Prints {"programs", "idle", "classified", "agreeing", "by_cause", "wrong"}, in ns; by_cause is the true cause with its
idle time and what of that the report agrees with. The truth is computed here from what the program did, and from the
rules that `kineto-spyre device` prints: work starts 2,000 ns after its launch, 400 ns after its stream's last work, and
after the events that its stream waits for.

Of the trace it takes two measured things, no cause: when each launch was made (from outside it is known to some
microseconds only), and how long each copy took, which is random. It uses no code of the report.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time

import torch

import kineto_spyre
from kineto_spyre import emulator, traces
from kineto_spyre.report.idle import CAUSES, Classifier, idle
from kineto_spyre.report.work import understood

LATENCY, GAP = 2000, 400


def program(rng: random.Random, device: emulator.Device, streams: list) -> list[tuple]:
    """Runs a program; returns what it did, with times: (what, begin, end, stream, ...)."""
    done: list[tuple] = []
    for index in range(len(streams)):
        done.append(launch(device, streams, index, 30_000, "first"))
    for _ in range(rng.randint(10, 30)):
        what = rng.choices(["launch", "burst", "sleep", "copy", "wait", "synchronize"], [5, 2, 4, 2, 3, 1])[0]
        index = rng.randrange(len(streams))
        begin = time.time_ns()
        if what == "launch":
            done.append(launch(device, streams, index, rng.randint(5_000, 800_000), "work"))
        elif what == "burst":
            done += [launch(device, streams, index, rng.randint(5_000, 100_000), "burst") for _ in range(5)]
        elif what == "sleep":
            time.sleep(rng.uniform(0, 0.001))
        elif what == "copy":
            device.copy("HtoD", rng.randint(1 << 20, 1 << 25), stream=streams[index].stream_id + 1)
            done.append((what, begin, time.time_ns(), index))
        elif what == "wait":
            other = rng.randrange(len(streams))
            event = torch.spyre.Event()
            event.record(streams[other])
            recorded = time.time_ns()
            streams[index].wait_event(event)
            done.append((what, recorded, recorded, index, other))
        else:
            device.synchronize()
            done.append((what, begin, time.time_ns()))
    for index in range(len(streams)):
        done.append(launch(device, streams, index, 10_000, "last"))
    device.synchronize()
    return done


def launch(device: emulator.Device, streams: list, index: int, ns: int, name: str) -> tuple:
    begin = time.time_ns()
    device.launch(name, ns=ns, stream=streams[index].stream_id + 1)
    return ("launch", begin, time.time_ns(), index, ns)


def truth(done: list[tuple], launches: list[int], copies: list[int], streams: int) -> list[list[tuple[int, int, str]]]:
    """By stream: (begin, end, cause) of the time between its kernels."""
    tail, ready = [0] * streams, [0] * streams
    last = ["" for _ in range(streams)]  # what the stream did last
    because = ["" for _ in range(streams)]  # what it waits for by an event
    kernel_end = [0] * streams
    syncs = [one[1:3] for one in done if one[0] == "synchronize"]
    pieces: list[list[tuple[int, int, str]]] = [[] for _ in range(streams)]
    lengths, times = iter(copies), iter(launches)
    for what, begin, end, *rest in done:
        if what == "wait":
            index, other = rest
            point = max(tail[other], ready[other], begin)
            if point > ready[index] and other != index:
                ready[index] = point
                of_other = tail[other] >= ready[other]
                because[index] = ("copy" if last[other] == "copy" else "other stream") if of_other else because[other]
        elif what in ("launch", "copy"):
            index = rest[0]
            queued = next(times)
            assert begin <= queued <= end, (begin, queued, end)
            bounds = {"launch latency": queued + LATENCY, "event": ready[index]}
            if tail[index]:
                bounds["copy" if last[index] == "copy" else "queue wait"] = tail[index] + GAP
            bound = max(bounds, key=bounds.__getitem__)
            start = bounds[bound]
            if what == "launch":
                if kernel_end[index]:
                    mine = waiting(kernel_end[index], min(queued, start), syncs)
                    launched = max(kernel_end[index], queued)
                    if start > launched:
                        mine.append((launched, start, because[index] if bound == "event" else bound))
                    pieces[index] += mine
                kernel_end[index] = start + rest[1]
            tail[index] = start + (rest[1] if what == "launch" else next(lengths))
            last[index] = what
    return pieces


def waiting(begin: int, end: int, syncs: list) -> list[tuple[int, int, str]]:
    """What the host did while nothing was launched."""
    found, at = [], begin
    for start, stop in syncs:
        start, stop = max(start, begin), min(stop, end)
        if stop > start:
            found += [(at, start, "host")] if start > at else []
            found.append((start, stop, "synchronisation"))
            at = stop
    return found + ([(at, end, "host")] if end > at else [])


def compare(said: list[tuple[int, int, str]], true: list[tuple[int, int, str]]) -> dict:
    sums = {
        "idle": sum(end - begin for begin, end, _ in true),
        "classified": 0,
        "agreeing": 0,
        "wrong": {},
        "by_cause": {},
    }
    for begin, end, cause in true:
        true_ns, agreed = sums["by_cause"].get(cause, (0, 0))
        for start, stop, claimed in said:
            both = min(end, stop) - max(begin, start)
            if both > 0 and claimed != "unknown":
                sums["classified"] += both
                sums["agreeing"] += both * (claimed == cause)
                agreed += both * (claimed == cause)
                if claimed != cause:
                    sums["wrong"][f"{cause} said {claimed}"] = sums["wrong"].get(f"{cause} said {claimed}", 0) + both
        sums["by_cause"][cause] = (true_ns + end - begin, agreed)
    return sums


def add(total: dict, found: dict) -> None:
    for key in ("idle", "classified", "agreeing"):
        total[key] += found[key]
    for key, ns in found["wrong"].items():
        total["wrong"][key] = total["wrong"].get(key, 0) + ns
    for key, (true_ns, agreed) in found["by_cause"].items():
        before = total["by_cause"].get(key, (0, 0))
        total["by_cause"][key] = (before[0] + true_ns, before[1] + agreed)


def one(seed: int, device: emulator.Device, streams: list) -> dict:
    with kineto_spyre.profile_spyre() as prof:
        done = program(random.Random(seed), device, streams)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        prof.export_chrome_trace(file.name)
        raw = json.load(open(file.name))
        trace = traces.read(file.name)
    base = raw.get("baseTimeNanoseconds", 0)
    events = [event for event in raw["traceEvents"] if event.get("cat") == "gpu_memcpy"]
    events.sort(key=lambda event: event["args"]["correlation"])
    calls = [
        event for event in raw["traceEvents"] if event.get("name") in ("aiuLaunchControlBlocks", "aiuDataTransferHtoD")
    ]
    calls.sort(key=lambda event: event["args"]["correlation"])
    launches = [round(event["ts"] * 1000) + base for event in calls]
    true = truth(done, launches, [round(event["dur"] * 1000) for event in events], len(streams))
    work = understood(trace)
    classifier, sums = Classifier(work), {"idle": 0, "classified": 0, "agreeing": 0, "wrong": {}, "by_cause": {}}
    for index, stream in enumerate(streams):
        mine = [i for i in range(len(work)) if work.trace.tracks[work.track[i]][1] == stream.stream_id + 1]
        said = [
            (piece.begin + base, piece.end + base, CAUSES[piece.cause])
            for piece in idle(work, _array(mine), work.window, classifier)
        ]
        add(sums, compare(said, true[index]))
    return sums


def _array(values: list[int]):
    import numpy as np

    return np.array(values, np.int64)


def main(programs: int, seed: int) -> None:
    emulator.enable(devices=1)
    device = emulator.Device(0)
    streams = [torch.spyre.Stream() for _ in range(3)]
    total: dict = {"programs": 0, "idle": 0, "classified": 0, "agreeing": 0, "wrong": {}, "by_cause": {}}
    for number in range(programs):
        add(total, one(seed + number, device, streams))
        total["programs"] += 1
    print(json.dumps(total))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
