"""Makes metrics files by hand, from the published table alone."""

from __future__ import annotations

import struct


def content(time_ms=1_000, magic=b"AiuM", version=(1, 0, 0, 1), interval=10, sequence=1, **values):
    """A file with a section of runtime metrics and one of counters; values as the file holds them."""
    ids = {"pwr": 16, "tempr": 17, "rdmem": 18, "wrmem": 19, "rxpci": 20, "txpci": 21, "rdrdma": 22, "wrrdma": 23,
           "avgmem": 129, "peakmem": 130, "unknown": 999}  # fmt: skip
    parts = []
    for section, names in ((16, ("avgmem", "peakmem", "unknown")), (32, tuple(ids)[:8])):
        mine = [name for name in names if name in values]
        body = struct.pack("<IIIIQII", section, 32 + 16 * len(mine), sequence, len(mine), time_ms, interval, 0)
        body += b"".join(struct.pack("<II", ids[name], 1) for name in mine)
        body += b"".join(struct.pack("<Q", values[name]) for name in mine)
        parts.append((section, body))
    table = b"".join(struct.pack("<II", section, len(body)) for section, body in parts)
    size = 32 + len(table) + sum(len(body) for _, body in parts)
    head = struct.pack("<4sI4BIQQ", magic, size, *version, len(parts), time_ms, 0)
    return head + table + b"".join(body for _, body in parts)
