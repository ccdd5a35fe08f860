"""What an event of a Kineto trace is, as types that msgspec decodes into: one type a phase, told apart by `ph`.

Times are in microseconds, as in the file. Of `args` the fields are decoded that some reader of ours needs; others are
skipped without being held. A whole number that is not there is ABSENT, and one that is there but is no whole number is
WRONG (only json_text, which reads value by value, finds those): so a column of them is plain int64, without nulls.
"""

from __future__ import annotations

from typing import Any

import msgspec

ABSENT = -(1 << 63) + 1
WRONG = -(1 << 63)
LIMIT = 1 << 53  # beyond it a double, and so a browser, no longer tells whole numbers apart
NOTHING = msgspec.Raw()

Id = int | str


class Args(msgspec.Struct, gc=False):
    """The arguments of a slice."""

    correlation: int = ABSENT
    external_id: int = msgspec.field(name="External id", default=ABSENT)
    stream: Id = ABSENT  # a text on the ranges of a Spyre's trace
    queue: int = msgspec.field(name="sycl queue", default=ABSENT)  # XPU's word for a stream
    device: int = ABSENT
    bytes: int = ABSENT
    bandwidth: float | str | None = msgspec.field(name="memory bandwidth (GB/s)", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    queued: Id = ABSENT
    appended: Id = ABSENT  # XPU's word for queued
    submitted: Id = ABSENT
    python_id: int = msgspec.field(name="Python id", default=ABSENT)
    python_parent: int = msgspec.field(name="Python parent id", default=ABSENT)
    local_memory: int = msgspec.field(name="local memory total", default=ABSENT)  # a Spyre's scratchpad
    collective: Any = msgspec.field(name="Collective name", default=None)
    coll_bytes: int = ABSENT  # of work that belongs to a collective, as are the next two
    coll_group: int = ABSENT
    coll_algo: int = ABSENT
    nelems: Any = msgspec.field(name="In msg nelems", default=None)  # of a collective
    cycles: msgspec.Raw = msgspec.field(name="cycles_ts", default=NOTHING)


class Slice(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    name: str
    ts: float
    dur: float
    pid: Id
    tid: Id
    cat: str = ""
    args: Args | None = None


class FlowStart(msgspec.Struct, gc=False, tag_field="ph", tag="s"):
    name: str
    ts: float
    pid: Id
    tid: Id
    id: Id
    cat: str = ""
    bp: str | None = None


class FlowEnd(msgspec.Struct, gc=False, tag_field="ph", tag="f"):
    name: str
    ts: float
    pid: Id
    tid: Id
    id: Id
    cat: str = ""
    bp: str | None = None


class Meta(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """The name or the label of a process or a thread."""

    name: Any = None
    pid: Any = None
    tid: Any = None
    args: Any = None


class Counter(msgspec.Struct, gc=False, tag_field="ph", tag="C"):
    name: str
    ts: float
    args: dict[str, float]
    pid: Id = ABSENT
    tid: Id = ABSENT


class MemoryArgs(msgspec.Struct, gc=False):
    """The arguments of an instant named [memory]: PyTorch's allocator, one call."""

    device_type: int = msgspec.field(name="Device Type", default=ABSENT)
    device_id: int = msgspec.field(name="Device Id", default=ABSENT)
    address: int = msgspec.field(name="Addr", default=ABSENT)
    bytes: int = msgspec.field(name="Bytes", default=ABSENT)
    allocated: int = msgspec.field(name="Total Allocated", default=ABSENT)
    reserved: int = msgspec.field(name="Total Reserved", default=ABSENT)


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    name: str
    ts: float
    pid: Id = ABSENT
    tid: Id = ABSENT
    args: MemoryArgs | None = None


Event = Slice | FlowStart | FlowEnd | Meta | Counter | Instant
TYPES: dict[str, type[Event]] = {
    "X": Slice,
    "s": FlowStart,
    "f": FlowEnd,
    "M": Meta,
    "C": Counter,
    "i": Instant,
}
