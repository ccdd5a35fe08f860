"""Traces: any Kineto trace as columns, fast and in little memory; and whether it is sound. Needs no torch.

>>> from kineto_spyre import traces
>>> trace = traces.read("trace.json.gz")        # or bytes, or a torch.profiler.profile
>>> trace.events                                # an Arrow table; trace.slices is the same in numpy
>>> traces.write_parquet(trace, "trace.parquet")

The way through: `opening` (source to bytes), `blocks` (bytes to typed events), `columns` (events to numbers), `trace`
(the whole); `arrow` and `parquet` from there. `checking` judges.
"""

from kineto_spyre.traces.checking import check
from kineto_spyre.traces.json_text import Unreadable
from kineto_spyre.traces.parquet import read as read_parquet
from kineto_spyre.traces.parquet import write as write_parquet
from kineto_spyre.traces.trace import Trace, iterate, read

__all__ = ["Trace", "Unreadable", "check", "iterate", "read", "read_parquet", "write_parquet"]
