"""A whole trace in memory, as columns (`columns` says which), and how to get one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kineto_spyre.traces.blocks import Blocks, later_version
from kineto_spyre.traces.columns import OPTIONAL, Column, Columns, Part, Table
from kineto_spyre.traces.events import Meta
from kineto_spyre.traces.json_text import Unreadable
from kineto_spyre.traces.opening import Source, name_of, opened

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("slices", "flows", "counters", "memory")
_MERGED = 64  # parts that are put together at once, so that few small arrays are held


@dataclass
class Trace:
    """What a profiler wrote.

    Attributes:
        source: what it was read from, for messages.
        metadata: the trace's own keys beside its events, as far as some reader of ours needs them.
        problem: None, or the sentence that says why the file could be read only so far, and where it ends.
        events_read: events of all kinds; `odd` of them have a shape that no Kineto trace's have.
        slices, flows, counters, memory: columns, see kineto_spyre.traces.columns.
        names, cats, texts, tracks: what the numbers in those columns mean.
        process_names, process_labels: by pid. thread_names: by (pid, tid).

    The properties `events`, `ranges`, `flow_table`, `counter_table`, `memory_table` and `track_table` are the same as
    Arrow tables; they need pyarrow.
    """

    source: str
    metadata: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    events_read: int = 0
    odd: int = 0
    slices: Table = field(default_factory=dict)
    flows: Table = field(default_factory=dict)
    counters: Table = field(default_factory=dict)
    memory: Table = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    cats: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tracks: list[tuple[Any, Any]] = field(default_factory=list)
    process_names: dict[Any, str] = field(default_factory=dict)
    process_labels: dict[Any, str] = field(default_factory=dict)
    thread_names: dict[tuple[Any, Any], str] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many slices it has."""
        return len(self.slices.get("start", ()))

    def column(self, name: str) -> Column:
        """A column of the slices; filled with what stands for "none" if no slice has it."""
        if name in self.slices:
            return self.slices[name]
        kind, none = OPTIONAL[name]
        return np.full(len(self), none, kind)

    @property
    def remark(self) -> str | None:
        """A sentence if a version wrote the trace that this release does not know; what it knows is read."""
        return later_version(self.metadata)

    @property
    def events(self) -> pa.Table:
        """The slices: ts and dur in ns, name, cat, track, and the arguments that some slice has."""
        from kineto_spyre.traces import arrow

        return arrow.table(self, "slices")

    @property
    def ranges(self) -> pa.Table:
        """Of `events`, the users' annotations, on the host and on devices."""
        import pyarrow.compute as pc

        table = self.events
        return table.filter(pc.match_substring(table["cat"].cast("string"), "user_annotation"))

    @property
    def flow_table(self) -> pa.Table:
        """Ends of arrows: ts in ns, track, name, cat, id, opens, binds."""
        from kineto_spyre.traces import arrow

        return arrow.table(self, "flows")

    @property
    def counter_table(self) -> pa.Table:
        """Counters: ts in ns, track, name, series, value."""
        from kineto_spyre.traces import arrow

        return arrow.table(self, "counters")

    @property
    def memory_table(self) -> pa.Table:
        """The allocator's calls: ts in ns, track, device_type, device_id, address, bytes, allocated, reserved."""
        from kineto_spyre.traces import arrow

        return arrow.table(self, "memory")

    @property
    def track_table(self) -> pa.Table:
        """By the numbers in the column `track`: pid, tid, and the names of process and thread."""
        from kineto_spyre.traces import arrow

        return arrow.tracks(self)


class _Merger:
    """Puts parts together, holding few of them."""

    def __init__(self) -> None:
        self._small: dict[str, list[Table]] = {name: [] for name in TABLES}
        self._large: dict[str, list[Table]] = {name: [] for name in TABLES}

    def add(self, part: Part) -> None:
        for name in TABLES:
            table: Table = getattr(part, name)
            if table:
                self._small[name].append(table)
        if len(self._small["slices"]) >= _MERGED:
            self.merge()

    def merge(self) -> None:
        for name, tables in self._small.items():
            if tables:
                self._large[name].append(joined(tables))
                tables.clear()

    def tables(self) -> dict[str, Table]:
        self.merge()
        return {name: joined(tables) for name, tables in self._large.items()}


def joined(parts: list[Table]) -> Table:
    """One table of several. Takes the columns out of the parts, so that two copies of one column at most are held."""
    if not parts:
        return {}
    wanted = list(dict.fromkeys(name for part in parts for name in part))
    lengths = [len(part["start"]) for part in parts]
    table: Table = {}
    for name in wanted:
        table[name] = np.concatenate([_taken(part, name, length) for part, length in zip(parts, lengths)])
    return table


def _taken(part: Table, name: str, length: int) -> Column:
    if name in part:
        return part.pop(name)
    kind, none = OPTIONAL[name]
    return np.full(length, none, kind)


def read(source: Source, progress: Callable[[float], None] | None = None) -> Trace:
    """Reads a trace: Chrome JSON as Kineto writes it, plain or gzip; of a Spyre, CUDA, XPU or CPU alone.

    A file that is cut off, or that has bytes that are no JSON, is read up to there; `Trace.problem` says where.

    Args:
        source: a path, the file's bytes, or a torch.profiler.profile that has stopped. A directory that
            `write_parquet` made is read, too.
        progress: called now and then with the part that has been read, 0 to 1.

    Raises:
        Unreadable: there is no event that could be read; the text says why.
    """
    from kineto_spyre.traces import parquet

    if isinstance(source, (str, os.PathLike)) and parquet.is_one(source):
        return parquet.read(source)
    merger, columns = _Merger(), Columns()
    trace = Trace(name_of(source))
    with opened(source) as stream:
        blocks = Blocks(stream)
        try:
            for block in blocks:
                part = columns.part(block)
                trace.odd += len(part.odd)
                merger.add(part)
                if progress is not None:
                    progress(stream.progress)
        except Unreadable as error:
            if blocks.events == 0:
                raise
            trace.problem = str(error)
    trace.metadata, trace.events_read = blocks.metadata, blocks.events
    _named(trace, columns)
    for name, table in merger.tables().items():
        setattr(trace, name, table)
    return trace


def iterate(source: Source, blocks_at_once: int = 16) -> Iterator[Trace]:
    """Reads a trace in chunks of some 4 MB of text, each a Trace of its own that holds the events of that chunk.

    The numbers of names, categories, texts and tracks mean the same in every chunk. A chunk whose `problem` is set is
    the last one.

    Raises:
        Unreadable: there is no event that could be read; the text says why.
    """
    columns = Columns()
    with opened(source) as stream:
        blocks = Blocks(stream)
        merger, problem, waiting, odd, before = _Merger(), None, 0, 0, 0

        def chunk() -> Trace:
            made = Trace(name_of(source), blocks.metadata, problem, blocks.events - before, odd)
            _named(made, columns)
            for name, table in merger.tables().items():
                setattr(made, name, table)
            return made

        try:
            for block in blocks:
                part = columns.part(block)
                odd += len(part.odd)
                merger.add(part)
                waiting += 1
                if waiting == blocks_at_once:
                    yield chunk()
                    merger, waiting, odd, before = _Merger(), 0, 0, blocks.events
        except Unreadable as error:
            if blocks.events == 0:
                raise
            problem = str(error)
        if waiting or problem or blocks.events == 0:
            yield chunk()


def _named(trace: Trace, columns: Columns) -> None:
    """What the numbers mean, and the names of processes and threads."""
    trace.names, trace.cats, trace.tracks = list(columns.names), list(columns.cats), list(columns.tracks)
    trace.texts = [one if isinstance(one, str) else one.decode("utf-8", "replace") for one in columns.texts]
    for meta in columns.metas:
        _name(trace, meta)


def _name(trace: Trace, meta: Meta) -> None:
    args, pid = meta.args, meta.pid
    if type(args) is not dict or type(pid) not in (int, str):
        return
    if meta.name == "process_name":
        trace.process_names[pid] = str(args.get("name") or "")
    elif meta.name == "process_labels":
        trace.process_labels[pid] = str(args.get("labels") or "")
    elif meta.name == "thread_name" and type(meta.tid) in (int, str):
        trace.thread_names[pid, meta.tid] = str(args.get("name") or "")
