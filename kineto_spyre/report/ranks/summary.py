"""One rank's trace, reduced to what travels: its time by step, part and name, and how long each collective took.

In: a path. Out: Summary, a few hundred kB whatever the trace's size. It runs wherever the file is: here, in a process
of its own, or on a worker of a Dask cluster. Errors: none; a file that is no trace, or has no device work, says so in
`trouble`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from kineto_spyre.report.facts import NoDeviceWork, understood_work
from kineto_spyre.report.partition import WAITING, Partition, partition
from kineto_spyre.report.ranks.finding import rank_of
from kineto_spyre.report.work import COLLECTIVE, KINDS, Array, Work
from kineto_spyre.traces import Unreadable, read
from kineto_spyre.traces.blocks import LaterVersion

COLLECTIVES = KINDS[COLLECTIVE]
ON_HOST = "collective"  # the cause of idle time
NAMED = 20  # names of a rank that are kept; the rest is in its parts


@dataclass
class Summary:
    """What one trace tells about its rank. Steps are numbers of `titles`; all times are ns.

    parts: (step, part, ns), which add up to a step. Collectives are whole here, with what of them was waiting.
    names: (step, part, name, ns), of the NAMED kernels, copies, and ops the host was in, that take longest.
    collectives: (step, name, nth of that name in the step, how long it took, how much of that nothing overlapped).
    """

    path: str
    trouble: str | None = None
    problem: str | None = None
    remark: str | None = None
    rank: int | None = None
    titles: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    parts: list[tuple[int, str, int]] = field(default_factory=list)
    names: list[tuple[int, str, str, int]] = field(default_factory=list)
    collectives: list[tuple[int, str, int, int, int]] = field(default_factory=list)


def summarise(path: str) -> Summary:
    """Reads one trace and reduces it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LaterVersion)  # travels in `remark`, and is said once for all ranks
            trace = read(path)
    except Unreadable as error:
        return Summary(path, str(error))
    try:
        work = understood_work(trace)
    except NoDeviceWork as error:
        return Summary(path, str(error), trace.problem, trace.remark, rank_of(path, trace.metadata))
    divided = partition(work)
    found = Summary(path, None, trace.problem, trace.remark, rank_of(path, trace.metadata))
    found.titles, found.lengths = divided.titles, divided.lengths.tolist()
    found.parts = list(_parts(divided))
    found.names = list(_names(divided))
    found.collectives = list(_collectives(work, divided))
    return found


def _parts(divided: Partition) -> Iterator[tuple[int, str, int]]:
    sums: dict[str, Array] = {}
    for (part, _), times in divided.parts.items():
        part = COLLECTIVES if part in (WAITING, ON_HOST) else part
        sums[part] = sums.get(part, 0) + times
    for part, times in sums.items():
        yield from ((step, part, ns) for step, ns in enumerate(times.tolist()) if ns)


def _names(divided: Partition) -> Iterator[tuple[int, str, str, int]]:
    known = {(part, name): times for (part, name), times in divided.parts.items() if name and part != WAITING}
    known |= {("host", op): times for op, times in divided.hosts.items() if op}
    for part, name in sorted(known, key=lambda one: (-int(known[one].sum()), one))[:NAMED]:
        yield from ((step, part, name, ns) for step, ns in enumerate(known[part, name].tolist()) if ns)


def _collectives(work: Work, divided: Partition) -> Iterator[tuple[int, str, int, int, int]]:
    """Of the device one by one; the host's of a step as one, because what it does between them is no waiting."""
    seen: dict[tuple[int, str], int] = {}
    for piece, step, exposed in divided.collectives:
        name = work.trace.names[int(work.name[piece])]
        nth = seen[step, name] = seen.get((step, name), -1) + 1
        yield step, name, nth, int(work.end[piece] - work.start[piece]), exposed
    on_host = divided.parts.get((ON_HOST, ""))
    if on_host is not None:
        yield from ((step, "", 0, ns, ns) for step, ns in enumerate(on_host.tolist()))
