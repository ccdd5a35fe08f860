"""How the emulated card divides a kernel's time over its ops: the cost model's answer for one launch.

Imports no Inductor: a marked program calls this while it runs, and only while a profile records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...marks.running import Phase

Figures = tuple[float, int, int]  # operations, bytes read, bytes written

_KEYS = {
    "dma": ("read bytes", "written bytes", "stick-alignment waste"),
    "utilization": ("utilization",),
    "stalls": ("stall", "stalled"),
    "scratchpad": ("scratchpad",),
    "energy": ("energy",),
}


def of(
    ops: Sequence[str], marked: Mapping[int, dict[str, Any]], whole: Figures, each: Sequence[Figures], dtype: int
) -> tuple[Phase, ...]:
    """The marked ops of one launch.

    Args:
        ops: all ops of the kernel, in order.
        marked: by place among them, what is known of each marked one, and its `metrics`.
        whole, each: the figures of the kernel, and of each op. Those of the ops are scaled to the kernel's.
        dtype: what it computes in, a number of the runtime's.
    """
    from ... import _emulator

    cores = _emulator.cores_for(whole[2])
    scales = [
        total / sum(one[i] for one in each) if any(one[i] for one in each) else 0 for i, total in enumerate(whole)
    ]
    costs = []
    for one in each:
        flops, read, written = (figure * scale for figure, scale in zip(one, scales))
        costs.append((_emulator.parts(flops, round(read), round(written), dtype, cores), round(read), round(written)))
    lasts = [max(execute, into + out) for (into, execute, out, _), _, _ in costs]
    overhead = _emulator.KERNEL_OVERHEAD_NS * 1e-9
    whole_time = overhead + sum(lasts)
    found, begin = [], overhead
    for place, (cost, seconds) in enumerate(zip(costs, lasts)):
        if place in marked:
            known = dict(marked[place])
            args = _args(cost, seconds, cores)
            wanted = [key for metric in known.pop("metrics") for key in _KEYS.get(metric, ())]
            args = {key: args[key] for key in args if key in wanted}
            phase = Phase(
                ops[place], begin / whole_time, (begin + seconds) / whole_time, {**known, "cores": cores, **args}
            )
            found.append(phase)
        begin += seconds
    return tuple(found)


def _args(cost: Any, seconds: float, cores: int) -> dict[str, Any]:
    from ... import _emulator

    (into, execute, out, joules), read, written = cost
    moving = into + out
    stall = "none" if execute >= moving else "wait for input" if into >= out else "wait for room downstream"
    return {
        "read bytes": read,
        "written bytes": written,
        "stick-alignment waste": -written % _emulator.STICK_BYTES,
        "utilization": execute / seconds * cores / _emulator.CORES if seconds else 0.0,
        "stall": stall,
        "stalled": (seconds - execute) / seconds if seconds else 0.0,
        "scratchpad": read + written,
        "energy": joules + _emulator.KERNEL_WATTS * seconds,
    }
