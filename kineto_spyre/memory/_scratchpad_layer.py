"""The layer "scratchpad": a counter of the scratchpad in use on each device, from the kernels' records."""

from __future__ import annotations

from kineto_spyre.memory._layer import columns, counter
from kineto_spyre.memory.scratchpad import uses
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile

NAME = "scratchpad (bytes)"


class ScratchpadLayer:
    name = "scratchpad"

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def additions(self, trace: TraceFile) -> Additions:
        read = columns(trace)
        added = Additions(about={"devices": {}})
        for use in uses(read) if len(read) else ():
            moments, level = use.steps()
            added.about["devices"][str(use.device)] = {"peak": int(level.max())}
            added.events.append(counter(NAME, use.device, moments + trace.base_ns, level))
        return added


def layer() -> ScratchpadLayer:
    return ScratchpadLayer()
