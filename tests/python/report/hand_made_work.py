"""Events of hand-made traces; times in us."""

from __future__ import annotations

import json


def slice_(cat, name, ts, dur, pid=1, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}


def launch(ts, correlation, op):
    return slice_(
        "privateuse1_runtime", "aiuLaunchControlBlocks", ts, 2, correlation=correlation, **{"External id": op}
    )


def kernel(ts, dur, correlation, op, name="k", tid=1, **more):
    return slice_("kernel", name, ts, dur, 0, tid, device=0, stream=tid, correlation=correlation,
                  **{"External id": op}, **more)  # fmt: skip


def as_bytes(events):
    return json.dumps({"traceEvents": events}).encode()
