"""Which slices are collectives, and how long each waited for another rank.

By names and arguments that torch.distributed and the vendors' libraries publish:

    argument     "Collective name" (Kineto puts it on NCCL's kernels and on record_param_comms)
    host slices  record_param_comms, c10d::..., gloo:..., nccl:..., xccl:..., mpi:..., ucc:..., aiuCommsColl...
    kernels      ncclDevKernel_..., ncclKernel_..., rccl..., oneccl..., and names with AllReduce, all_gather ...

Waiting: a collective can't be shorter than its transfer, so the fastest one of the same name and size in the trace is
taken for the transfer, and what another took longer is waiting for a rank that came later. A trace that has one such
collective only tells nothing about waiting: it counts as transfer.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from kineto_spyre.traces import Trace

Array = npt.NDArray[Any]

HOST = re.compile(
    r"^(record_param_comms$|c10d::|_c10d_functional(_autograd)?::|(gloo|nccl|xccl|mpi|ucc|hccl):|aiuCommsColl)"
)
BACKEND = re.compile(r"^(gloo|nccl|xccl|mpi|ucc|hccl):")  # a range on a thread of the library while it runs
DEVICE = re.compile(
    r"^(nccl|rccl|oneccl)|\b(nccl|rccl|oneccl|ccl)::|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|"
    r"broadcast_kernel|(^|_)send_?recv", re.IGNORECASE
)  # fmt: skip


def numbers(texts: list[str], pattern: re.Pattern[str]) -> Array:
    """Which of the texts match."""
    return np.array([i for i, text in enumerate(texts) if pattern.search(text)], np.int64)


def on_device(trace: Trace) -> Array:
    """By slice: whether it is a collective if it is a kernel."""
    found: Array = np.isin(trace.slices["name"], numbers(trace.names, DEVICE)) | (trace.column("collective") != -1)
    return found


def on_host(trace: Trace, pattern: re.Pattern[str] = HOST) -> Array:
    """By slice: whether it is a collective if it is on the host."""
    return np.isin(trace.slices["name"], numbers(trace.names, pattern))


def transfer(trace: Trace, rows: Array, size: Array) -> Array:
    """For each of the rows (slices) how long its transfer takes: its fastest like it.

    Args:
        size: by row, a number that is equal for collectives of one size.
    """
    lasted = trace.slices["duration"][rows]
    if not len(rows):
        return lasted
    keys = np.stack((trace.slices["name"][rows].astype(np.int64), size), 1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    fastest = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(fastest, group.ravel(), lasted)
    found: Array = fastest[group.ravel()]
    return found
