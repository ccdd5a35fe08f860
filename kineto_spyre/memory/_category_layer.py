"""The layer "memory by category": a counter a device, one series a category, so that viewers stack them.

From PyTorch's memory profiler, which tells parameters, gradients and the like apart by what modules and optimizers
held. It needs record_shapes, profile_memory and with_stack, and reads the whole recording once; so it is added where
with_stack was asked for, and else the trace's metadata says what to ask for.

PyTorch makes Python objects of all events for it, each Python function that was called among them: some 30 us and 3 kB
an event. A compilation calls millions of them, which took ten minutes and 4 GB once. So a recording of more than
`MOST_EVENTS` is left out, and a diagnostic says so.
"""

from __future__ import annotations

from kineto_spyre.diagnostics import Diagnostic
from kineto_spyre.memory._layer import columns
from kineto_spyre.memory.categories import by_device
from kineto_spyre.profiler._layers import Additions, Counter
from kineto_spyre.profiler._trace_file import TraceFile

NAME = "device memory by category (bytes)"
MOST_EVENTS = 200_000  # some seconds, and half a gigabyte


class CategoryLayer:
    name = "memory by category"

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def additions(self, trace: TraceFile) -> Additions:
        prof = trace.shared.get("profile")
        if prof is None or not (prof.with_stack and prof.record_shapes and prof.profile_memory):
            return Additions(about={"needs": "record_shapes=True, profile_memory=True and with_stack=True"})
        events = len(columns(trace))
        if events > MOST_EVENTS:
            left_out = Diagnostic("memory_by_category_left_out", 1, {"events": events, "most": MOST_EVENTS})
            return Additions(diagnostics=[left_out])
        added = Additions()
        peaks = {}
        for (kind, device), found in sorted(by_device(prof).items()):
            if kind == "cpu":
                continue
            peaks[str(device)] = {"peak": found["peak"]}
            used = {name: sizes for name, sizes in found["bytes"].items() if any(sizes)}
            added.events.append(Counter(NAME, device, found["times"], used))
        if peaks:
            added.about = {"devices": peaks}
        return added


def layer() -> CategoryLayer:
    return CategoryLayer()
