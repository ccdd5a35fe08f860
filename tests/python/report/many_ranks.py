"""Traces of many ranks, made from what each did; times in us.

In a step a rank computes on the host, runs a kernel, and meets the others in a collective, which ends on all of them at
one time. Each rank has a clock of its own, hours from the others'.
"""

from __future__ import annotations

import json

from hand_made_work import launch, slice_

HOST, KERNEL, TRANSFER = 100, 400, 50


def write(directory, ranks, steps, extra=None, name="rank{rank}.json", first_step=1, filler=0, info=True):
    """Writes a trace for each rank.

    Args:
        extra: {(rank, step): (host, kernel)}, us more than the others; a step of None means all of them.
        filler: more ops in each step, to make the files larger.
    """
    extra = extra or {}

    def more(rank, step):
        found = [extra.get(key, (0, 0)) for key in ((rank, step), (rank, None))]
        return [sum(column) for column in zip(*found)]

    directory.mkdir(exist_ok=True)
    for rank in range(ranks):
        events, at, number = [], 1000.0 + 7e9 * rank, 0
        for step in range(first_step, first_step + steps):
            begin = at
            host, kernel = (base + one for base, one in zip((HOST, KERNEL), more(rank, step)))
            events.append(slice_("cpu_op", "load", at, host - 10, **{"External id": 900_000 + step}))
            for one in range(filler):
                events.append(slice_("cpu_op", f"aten::op{one % 50}", at + one * 0.01, 0.005, 1, 2))
            at += host
            arrive = max(HOST + KERNEL + sum(more(other, step)) for other in range(ranks))
            number += 2
            events += [launch(at - 4, number, 0), _work("matmul", at, kernel, number)]
            lasts = begin + arrive + TRANSFER - (at + kernel)
            events += [launch(at - 2, number + 1, 0), _work("ncclDevKernel_AllReduce", at + kernel, lasts, number + 1)]
            at = begin + arrive + TRANSFER
            events.append(slice_("user_annotation", f"ProfilerStep#{step}", begin, at - begin))
        trace = {"distributedInfo": {"rank": rank, "world_size": ranks}} if info else {}
        path = directory / name.format(rank=rank)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(trace | {"traceEvents": events}))


def _work(name, ts, dur, number):
    args = {"Collective name": "allreduce", "In msg nelems": 4096} if "Reduce" in name else {}
    return slice_("kernel", name, ts, dur, 0, 1, device=0, stream=1, correlation=number, **args)
