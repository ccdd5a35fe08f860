"""The summaries of many traces, each as soon as it is there: in this process, in several, or on a Dask cluster.

In: paths. Out: (place of the path, Summary), in any order. A process or worker that is killed costs what it was doing:
that is done again, three times at most, and then said in `trouble`. Errors: SpyreProfilerError where the cluster can't
be used.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.report.ranks.summary import Summary, summarise

TRIES = 3
_KILLED = "could not be read, because its reader was killed three times. Check that there is enough memory."

Found = Iterator[tuple[int, Summary]]


def summaries(paths: list[str], jobs: int = 1, scheduler: str | None = None) -> Found:
    """Reads all traces.

    Args:
        jobs: how many processes read on this machine.
        scheduler: the address of a Dask scheduler ("tcp://host:8786"): then its workers read, each the files that it is
            given; the paths must mean the same there as here.

    Raises:
        SpyreProfilerError: there is no such cluster, or `distributed` is not installed.
    """
    if scheduler is not None:
        return _on_cluster(paths, scheduler)
    if jobs > 1 and len(paths) > 1:
        return _in_processes(paths, min(jobs, len(paths)))
    return ((place, summarise(path)) for place, path in enumerate(paths))


def _in_processes(paths: list[str], jobs: int) -> Found:
    """At most twice as many traces are under way as there are processes, so that no results pile up."""
    waiting = [(place, 1) for place in reversed(range(len(paths)))]
    while waiting:
        running: dict[concurrent.futures.Future[Summary], tuple[int, int]] = {}
        # Not forked: a program's other threads would leave locks behind in the child.
        with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < 2 * jobs:
                        task = waiting.pop()
                        running[pool.submit(summarise, paths[task[0]])] = task
                    done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                    for one in done:
                        found = one.result()
                        yield running.pop(one)[0], found
            except BrokenProcessPool:
                again = [(place, tries + 1) for place, tries in running.values()]
                yield from ((place, Summary(paths[place], _KILLED)) for place, tries in again if tries > TRIES)
                waiting += [task for task in again if task[1] <= TRIES]


def _on_cluster(paths: list[str], scheduler: str) -> Found:
    try:
        import distributed
    except ImportError:
        raise SpyreProfilerError(
            "--scheduler needs the package distributed. Install it with pip install 'kineto-spyre[cluster]'."
        ) from None
    try:
        distributed.comm.get_address_host(scheduler)  # a Client that is given a wrong address takes 20 s to say so
        client: Any = distributed.Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise SpyreProfilerError(
            f"The Dask scheduler {scheduler} can't be reached ({error}). Start one with `dask scheduler`, or leave the "
            "scheduler out to read on this machine."
        ) from None
    with client:
        # Dask itself gives the tasks of a dead worker to another; `retries` are for those that raise.
        futures = client.map(summarise, paths, pure=False, retries=TRIES - 1)
        places = {future.key: place for place, future in enumerate(futures)}
        order = distributed.as_completed(futures, loop=client.loop)
        del futures
        for future in order:
            place = places[future.key]
            yield place, future.result() if future.status == "finished" else Summary(paths[place], _KILLED)
            future.release()
