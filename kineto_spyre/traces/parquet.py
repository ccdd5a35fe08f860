"""A trace as Parquet: a directory with a file for each table, which DuckDB, pandas and Spark read, and which is read
back whole.

    slices.parquet flows.parquet counters.parquet memory.parquet tracks.parquet     each if it has rows
    trace.json                                                                      format, metadata, names
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.traces.columns import OPTIONAL, Column
from kineto_spyre.traces.json_text import Unreadable
from kineto_spyre.traces.trace import TABLES, Trace

FORMAT = 1
_HEAD = "trace.json"
_KEPT = ("source", "metadata", "problem", "events_read", "odd")


def is_one(path: str | os.PathLike[str]) -> bool:
    """Whether this is a directory that `write` made. A trace.json alone may be a profiler's own."""
    folder = os.fspath(path)
    return os.path.isfile(os.path.join(folder, _HEAD)) and any(
        os.path.isfile(os.path.join(folder, f"{name}.parquet")) for name in (*TABLES, "tracks")
    )


def write(trace: Trace, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Writes a trace. What JSON holds and no column does (see `columns`) is not in it.

    Raises:
        SpyreProfilerError: there is something in the directory already and `overwrite` is False, it is no directory
            of a trace, it can't be written, or pyarrow is not installed.
    """
    from kineto_spyre.traces import arrow

    import pyarrow.parquet as pq  # isort: skip (arrow says what to do if it is not there)

    folder = pathlib.Path(directory)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not is_one(folder):
            raise SpyreProfilerError(
                f"{folder} exists and does not hold a trace; choose a directory that is new or empty."
            )
        if not overwrite:
            raise SpyreProfilerError(f"{folder} holds a trace already; pass overwrite=True to replace it.")
    tables = {name: arrow.table(trace, name) for name in TABLES if getattr(trace, name)}
    tables["tracks"] = arrow.tracks(trace)
    head = {key: getattr(trace, key) for key in _KEPT} | {
        "format": FORMAT,
        "process_names": list(trace.process_names.items()),
        "process_labels": list(trace.process_labels.items()),
        "thread_names": [[*track, name] for track, name in trace.thread_names.items()],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*TABLES, "tracks"):
            path = folder / f"{name}.parquet"
            path.unlink(missing_ok=True)
            if name in tables:
                pq.write_table(tables[name], path, compression="zstd")
        (folder / _HEAD).write_text(json.dumps(head, default=str))
    except OSError as error:
        raise SpyreProfilerError(f"{folder} can't be written ({error.strerror or error}).") from None


def read(directory: str | os.PathLike[str]) -> Trace:
    """Reads what `write` wrote.

    Raises:
        Unreadable: a file is missing or broken, or the directory was written in a later format.
    """
    from kineto_spyre.traces import arrow

    import pyarrow as pa  # isort: skip
    import pyarrow.parquet as pq  # isort: skip

    folder = pathlib.Path(directory)
    try:
        head = json.loads((folder / _HEAD).read_text())
        if not isinstance(head, dict) or not isinstance(head.get("format"), int):
            raise Unreadable(f"holds a {_HEAD} that kineto-spyre did not write")
        if head["format"] > FORMAT:
            raise Unreadable(
                f"was written in format {head['format']} and this kineto-spyre reads up to {FORMAT}; "
                "install a newer one"
            )
        trace = Trace(**{key: head[key] for key in _KEPT})
        trace.process_names, trace.process_labels = dict(head["process_names"]), dict(head["process_labels"])
        trace.thread_names = {(pid, tid): name for pid, tid, name in head["thread_names"]}
        for row in pq.read_table(folder / "tracks.parquet").to_pylist():
            pid = row["pid"] if row["pid_is_text"] else int(row["pid"])
            trace.tracks.append((pid, row["tid"] if row["tid_is_text"] else int(row["tid"])))
        dictionaries: dict[str, dict[str, int]] = {"names": {}, "cats": {}, "texts": {}}
        for which in TABLES:
            path = folder / f"{which}.parquet"
            if path.exists():
                table = pq.read_table(path, read_dictionary=["name", "cat", *arrow.TEXTS]).combine_chunks()
                names = {"ts": "start", "dur": "duration"}
                columns = {
                    names.get(name, name): _column(names.get(name, name), table[name], dictionaries)
                    for name in table.column_names
                }
                setattr(trace, which, columns)
        trace.names, trace.cats, trace.texts = (list(dictionaries[key]) for key in ("names", "cats", "texts"))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise Unreadable(f"holds a trace in Parquet that can't be read ({error}); export it again") from None
    return trace


def _column(name: str, column: Any, dictionaries: dict[str, dict[str, int]]) -> Column:
    import pyarrow as pa

    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.DictionaryArray) or pa.types.is_string(array.type):
        if not isinstance(array, pa.DictionaryArray):
            array = array.dictionary_encode()
        known = dictionaries[{"name": "names", "cat": "cats"}.get(name, "texts")]
        numbers = [known.setdefault(text, len(known)) for text in array.dictionary.to_pylist()]
        codes: Column = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.append(np.array(numbers, np.int32), np.int32(-1))[codes]
    _, none = OPTIONAL.get(name, (np.int64, np.iinfo(np.int64).min + 1))
    if array.null_count:
        array = array.fill_null(float("nan") if name == "bandwidth" else none)
    plain: Column = array.to_numpy(zero_copy_only=False)
    return plain
