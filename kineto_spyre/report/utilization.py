"""How close each kernel of a Spyre comes to what the card can do, and what keeps it from more: a roofline.

In: Work, and what the compiler wrote of ideal cycles. Out: facts, or None where the trace is of no Spyre; durations in
ns. Three utilizations of the PT array, each None where nothing tells it:

    by_flops   operations of the op that launched the kernel, from its shapes, over what the array does in that time
    by_cycles  cycles that the kernel's stamps call computing (TS3 to TS4), over the kernel's time
    by_ideal   the compiler's ideal cycles (`ideal_cycles.json`) over the kernel's time, as acelyzer has it

The card's figures are the public ones (`kineto-spyre device` names the source of each), not measured ones. What bounds
a kernel, in this order:

    launch         it lasts no longer than a launch and the gap between two kernels do
    scratchpad     it took all of the scratchpad, and what it computes and moves explains less than half of its time
    compute, device memory   the longer of its operations at the peak rate and its bytes at the memory's; where the
                   shapes don't tell, the longer of computing and moving as its stamps tell
    unknown        neither is told, or what is told explains less than half of its time

Errors: none; IdealError from `ideal_cycles` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kineto_spyre.memory.scratchpad import USABLE
from kineto_spyre.report.arithmetic import Arithmetic, arithmetic
from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration
from kineto_spyre.report.work import KERNEL, Array, Work

# The card. Rates are a second's; the clock of the stamps is the SoC's.
CORE_HZ, STAMP_HZ = 1.1e9, 1e9
MEMORY_BYTES, SCRATCHPAD_BYTES = 200e9, 32 * 128 * CORE_HZ
_FP16 = 32 * 2 * 64 * 8 * 2 * CORE_HZ  # cores, corelets, elements, multiply-adds
PEAKS = {"float": _FP16 / 4, "c10::Half": _FP16, "c10::BFloat16": _FP16, "signed char": 300e12, "unsigned char": 300e12,
         "c10::Float8_e4m3fn": 2 * _FP16, "c10::Float8_e5m2": 2 * _FP16}  # fmt: skip
PEAK_OF_OTHERS = _FP16 / 8
_EXPLAINED = 0.5  # of a kernel's time, at least


def is_spyre(work: Work) -> bool:
    """Whether the trace says that its devices are Spyres."""
    properties = work.trace.metadata.get("deviceProperties")
    return isinstance(properties, list) and any(isinstance(one, dict) and one.get("type") == "AIU"
                                                for one in properties)  # fmt: skip


def of_work(work: Work) -> list[Arithmetic | None]:
    """By piece of work: what it computes and moves; None for what is no kernel, or whose op launched more than one (the
    shapes are the op's, and what of it each kernel does is not known)."""
    found: list[Arithmetic | None] = [None] * len(work)
    launched = np.flatnonzero((work.kind == KERNEL) & (work.op >= 0))
    if not len(launched):
        return found
    _, place, count = np.unique(work.op[launched], return_inverse=True, return_counts=True)
    alone = launched[count[place.ravel()] == 1]
    trace = work.trace
    dims, types, names = trace.column("dims"), trace.column("types"), trace.slices["name"]
    known: dict[tuple[int, int, int], Arithmetic | None] = {}
    for piece, op in zip(alone.tolist(), work.op[alone].tolist()):
        key = int(names[op]), int(dims[op]), int(types[op])
        if key not in known:
            tells = key[1] >= 0 and key[2] >= 0
            known[key] = arithmetic(trace.names[key[0]], trace.texts[key[1]], trace.texts[key[2]]) if tells else None
        found[piece] = known[key]
    return found


def total(pieces: Array, of_piece: list[Arithmetic | None]) -> Arithmetic | None:
    """Of some pieces together; None if one of them is not known, or their types differ."""
    known = [of_piece[piece] for piece in pieces.tolist()]
    if not known or any(one is None for one in known):
        return None
    whole = [one for one in known if one is not None]
    types = {one.type for one in whole}
    if len(types) != 1:
        return None
    return Arithmetic(sum(one.flops for one in whole), sum(one.bytes for one in whole), types.pop())


def utilization(work: Work, launch: int, ideal: dict[str, float] | None = None) -> dict[str, Any] | None:
    """Facts of all kernels, the longest in total first.

    Args:
        launch: what a launch and a gap take, in ns.
        ideal: the compiler's ideal cycles by kernel (`ideal_cycles`).
    """
    if not is_spyre(work):
        return None
    of_piece = of_work(work)
    chosen = np.flatnonzero(work.kind == KERNEL)
    found = [
        _kernel(work, chosen[work.name[chosen] == name], of_piece, launch, ideal)
        for name in np.unique(work.name[chosen]).tolist()
    ]
    card = {"memory": MEMORY_BYTES, "scratchpad": SCRATCHPAD_BYTES, "core_hz": CORE_HZ, "launch": launch,
            "peaks": {one["type"]: one["peak"] for one in found if one["type"]}}  # fmt: skip
    return {"card": card, "kernels": sorted(found, key=lambda one: -one["total"])}


def _kernel(
    work: Work, mine: Array, of_piece: list[Arithmetic | None], launch: int, ideal: dict[str, float] | None
) -> dict[str, Any]:
    """One name."""
    name = work.trace.names[int(work.name[mine[0]])]
    lasted = int((work.end - work.start)[mine].sum())
    told = total(mine, of_piece)
    peak = PEAKS.get(told.type, PEAK_OF_OTHERS) if told else None
    seconds = lasted * 1e-9
    moving, executing = (work.trace.column(one)[work.row[mine]] for one in ("moving", "executing"))
    stamped = bool(((moving >= 0) & (executing >= 0)).all())
    cycles = _ideal_of(name, ideal)
    return {
        "name": name, "count": len(mine), "total": lasted,
        "type": told.type if told else None, "flops": told.flops if told else None,
        "bytes": told.bytes if told else None, "peak": peak,
        "intensity": told.flops / told.bytes if told and told.bytes else None,
        "achieved": told.flops / seconds if told and seconds else None,
        "by_flops": told.flops / seconds / peak if told and peak and seconds else None,
        "by_cycles": int(executing.sum()) / STAMP_HZ / seconds if stamped and seconds else None,
        "by_ideal": cycles * len(mine) / CORE_HZ / seconds if cycles is not None and seconds else None,
        **_bound(work, mine, lasted, told, launch, (int(moving.sum()), int(executing.sum())) if stamped else None),
    }  # fmt: skip


def _bound(
    work: Work, mine: Array, lasted: int, told: Arithmetic | None, launch: int, stamps: tuple[int, int] | None
) -> dict[str, str]:
    """What bounds it, and why in words."""
    each = lasted / len(mine)
    if each <= launch:
        why = f"it lasts {duration(each)}, and a launch with the gap after it {duration(launch)}"
        return {"bound": "launch", "because": why}
    taken = work.trace.column("local_memory")[work.row[mine]]
    if told is not None:
        compute = 1e9 * told.flops / PEAKS.get(told.type, PEAK_OF_OTHERS) / len(mine)
        memory = 1e9 * told.bytes / MEMORY_BYTES / len(mine)
        least, bound, what = max(
            (memory, "device memory", "moving its bytes"), (compute, "compute", "its operations")
        )  # fmt: skip
        why = f"{what} take{'s' if bound == 'device memory' else ''} {duration(least)} of {duration(each)} at least"
        if least >= _EXPLAINED * each:
            return {"bound": bound, "because": why}
        if (taken >= USABLE).all():
            return {"bound": "scratchpad", "because": f"it takes all of the scratchpad, and {why}"}
        return {"bound": "unknown", "because": why}
    if stamps is None:
        return {"bound": "unknown", "because": "neither shapes nor cycle stamps tell"}
    moving, executing = (one / len(mine) * 1e9 / STAMP_HZ for one in stamps)
    why = f"it computes for {duration(executing)} and moves data for {duration(moving)}, as its cycle stamps tell"
    return {"bound": "compute" if executing >= moving else "device memory", "because": why}


def _ideal_of(name: str, ideal: dict[str, float] | None) -> float | None:
    """The ideal cycles of a kernel: the compiler's folder has its name, to which a launch may add its number."""
    if ideal is None:
        return None
    for key in (name, name.partition("#")[0], name.removesuffix(" Cmpt Exec")):
        if key in ideal:
            return ideal[key]
    return None


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown of them."""
    told = facts["utilization"]
    if told is None or not told["kernels"]:
        return
    card = told["card"]
    peaks = ", ".join(f"{rate / 1e12:.3g} Tops/s for {name}" for name, rate in sorted(card["peaks"].items()))
    sentence = f"The card is taken to move {card['memory'] / 1e9:.0f} GB/s"
    sentence += f" and to compute {peaks}, as is published; none of that was measured."
    columns = ("kernel", "count", "total", "ops/byte", "Tops/s", "of peak", "computing", "ideal", "bound by", "because")
    yield Section("Roofline", [sentence], columns, [
        (one["name"], f"{one['count']:,}", duration(one["total"]), _number(one["intensity"]),
         _number(one["achieved"], 1e12), _part(one["by_flops"]), _part(one["by_cycles"]), _part(one["by_ideal"]),
         one["bound"], one["because"]) for one in told["kernels"][:top]])  # fmt: skip


def _number(value: float | None, unit: float = 1.0) -> str:
    return "" if value is None else f"{value / unit:.3g}"


def _part(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
