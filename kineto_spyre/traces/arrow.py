"""A trace's columns as Arrow tables, without a copy where Arrow can look at numpy's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.traces.columns import Column
from kineto_spyre.traces.events import ABSENT
from kineto_spyre.traces.trace import Trace

try:
    import pyarrow as pa
except ImportError as error:
    raise SpyreProfilerError(
        f"Arrow tables need the package pyarrow ({error}). Install it with pip install 'kineto-spyre[arrow]'."
    ) from error

NUMBERS = {"track": "tracks", "name": "names", "cat": "cats"}  # columns that hold numbers of entries
TEXTS = ("dims", "types", "grid", "block", "stream_text", "collective", "series")
_RENAMED = {"start": "ts", "duration": "dur"}
_NULLABLE = ("correlation", "external_id", "stream", "device", "bytes", "queued", "submitted", "python_id",
             "python_parent", "nelems", "coll_bytes", "coll_group", "coll_algo", "moving", "executing", "device_type",
             "device_id", "allocated",
             "reserved")  # fmt: skip


def table(trace: Trace, which: str) -> pa.Table:
    """One of the tables slices, flows, counters and memory."""
    columns: dict[str, Column] = getattr(trace, which)
    names, cats, texts = pa.array(trace.names), pa.array(trace.cats), pa.array(trace.texts, pa.string())
    made: dict[str, Any] = {}
    for name, column in columns.items():
        key = _RENAMED.get(name, name)
        if name == "name":
            made[key] = pa.DictionaryArray.from_arrays(pa.array(column), names)
        elif name == "cat":
            made[key] = pa.DictionaryArray.from_arrays(pa.array(column), cats)
        elif name in TEXTS:
            made[key] = pa.DictionaryArray.from_arrays(pa.array(column, mask=column < 0), texts)
        elif name in _NULLABLE:
            made[key] = pa.array(column, mask=column <= ABSENT)
        elif name == "bandwidth":
            made[key] = pa.array(column, mask=np.isnan(column))
        else:
            made[key] = pa.array(column)
    return pa.table(made)


def tracks(trace: Trace) -> pa.Table:
    """The tracks: pid and tid as texts, whether each was a text in the file, names, and the process's labels."""
    return pa.table(
        {
            "pid": pa.array([str(pid) for pid, _ in trace.tracks], pa.string()),
            "tid": pa.array([str(tid) for _, tid in trace.tracks], pa.string()),
            "pid_is_text": pa.array([type(pid) is str for pid, _ in trace.tracks], pa.bool_()),
            "tid_is_text": pa.array([type(tid) is str for _, tid in trace.tracks], pa.bool_()),
            "process": pa.array([trace.process_names.get(pid) for pid, _ in trace.tracks], pa.string()),
            "labels": pa.array([trace.process_labels.get(pid) for pid, _ in trace.tracks], pa.string()),
            "thread": pa.array([trace.thread_names.get(track) for track in trace.tracks], pa.string()),
        }
    )
