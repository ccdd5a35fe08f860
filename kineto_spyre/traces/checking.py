"""``kineto-spyre check TRACE``: is this trace true, and can the tools that read traces read it?

It judges any Chrome trace that a profiler wrote (ours, another tool's, a CUDA run's), plain or gzip, and knows nothing
of PyTorch.

How a trace of any size fits into little memory
-----------------------------------------------
One pass over the file decodes one event at a time (`Json`) and keeps numbers only:

    rows       (pid, tid) -> slices: start, duration, name, hash of the text, kind. Each 65,536 are a run, which is
               sorted (nearly every row of a real trace is in order already) and packed: some 12 bytes a slice.
    device     one entry a kernel, copy or memset: what joins it to its launch
    launches   one entry a runtime or driver call
    flows      one entry an arrow's end

Then each row is swept once in the order of time, its runs merged on the way, with a stack of the slices that are open.
Everything that needs two events (overlap, duplicate, launch and device work, the two ends of an arrow) is judged there
or by joining columns part by part. Names are kept once each, and no more than `_NAMES` of them: an example can lack its
name, never its place.

Times are held in whole nanoseconds. A trace whose times have no fraction was rounded to microseconds: there, and where
the times are so large that a double no longer resolves a nanosecond, overlaps and order are judged with that tolerance.

Severity: a *fault* makes the trace wrong or a reader fail; a *note* is worth knowing. The contract of Spyre's readers
(acelyzer, HTA, TensorBoard) is judged only for a trace of a Spyre.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable
from typing import Any

from kineto_spyre.traces.json_text import Json, Unreadable, read_trace
from kineto_spyre.traces.judging import Judge


def _open(path: str) -> tuple[io.BufferedReader, io.BufferedReader | gzip.GzipFile]:
    """The file itself and what to read from: told from the content, since names can be wrong."""
    if os.path.isdir(path):
        raise Unreadable("is a directory: name the trace file in it (*.pt.trace.json, or .gz)")
    try:
        raw = open(path, "rb")
        start = raw.peek(2)[:2]
    except OSError as error:
        raise Unreadable(f"can't be opened: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise Unreadable(f"can't be opened: {error}") from None
    return raw, gzip.GzipFile(fileobj=raw) if start == b"\x1f\x8b" else raw


def check(path: str, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """The report on one trace, as `--json` prints it. Raises `Unreadable` with a sentence."""
    raw, stream = _open(path)
    with raw:
        size = os.fstat(raw.fileno()).st_size

        def read(count: int) -> bytes:
            try:
                piece = stream.read(count)
            except (gzip.BadGzipFile, zlib.error) as error:
                raise Unreadable(f"is a broken gzip file ({error}). Copy it again from where it was written") from None
            except EOFError:
                raise Unreadable("is a gzip file that is cut off. Copy it again, or let its writer finish") from None
            except OSError as error:
                raise Unreadable(f"can't be read: {error.strerror or error}") from None
            if progress and size:
                progress(raw.tell() / size)
            return piece

        source, judge = Json(read), Judge()
        tail = read_trace(source, judge.take, judge.metadata)
        judge.finish(tail, source.offences)
        return judge.report(path, source.bytes)
