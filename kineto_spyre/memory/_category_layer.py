"""The layer "memory by category": a counter a device, one series a category, so that viewers stack them.

From PyTorch's memory profiler, which tells parameters, gradients and the like apart by what modules and optimizers
held. It needs record_shapes, profile_memory and with_stack, and reads the whole recording once; so it is added where
with_stack was asked for, and else the trace's metadata says what to ask for.
"""

from __future__ import annotations

from typing import Any

from kineto_spyre.memory.categories import by_device
from kineto_spyre.profiler._layers import Additions
from kineto_spyre.profiler._trace_file import TraceFile

NAME = "device memory by category (bytes)"


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
        events: list[dict[str, Any]] = []
        about: dict[str, Any] = {}
        for (kind, device), found in sorted(by_device(prof).items()):
            if kind == "cpu":
                continue
            about[str(device)] = {"peak": found["peak"]}
            used = {name: sizes for name, sizes in found["bytes"].items() if any(sizes)}
            for place, time in enumerate(found["times"]):
                args = {name: sizes[place] for name, sizes in used.items()}
                events.append({"ph": "C", "name": NAME, "pid": device, "time_ns": time, "args": args})
        return Additions(events, {"devices": about} if about else None)


def layer() -> CategoryLayer:
    return CategoryLayer()
