"""What torch-tb-profiler 0.4.3 lacks for a PrivateUse1 device. Importing this module puts it right.

Operator, GPU Kernel   device time reaches an op through a runtime call; the plugin knows the category `runtime` alone,
                       Kineto writes `privateuse1_runtime` and `privateuse1_driver`
Overview               steps are counted twice: their ranges on the device (`gpu_user_annotation`) are steps to it too
Memory                 the device's curve: the plugin knows Device Type 0 and 1, PyTorch writes 20 for PrivateUse1, and
                       the view answers HTTP 500
all of them            with several cards and memory events the run can't be loaded: the plugin looks for a card's
                       entry in `deviceProperties`, which holds one for all of them (two would stop acelyzer)
Trace                  the plugin adds utilization counters by cutting the file at its last `]`: a bracket in the
                       metadata that follows the events leaves broken JSON. Here they come before the first event

The plugin parses in processes that it spawns, where TensorBoard's entry points are not imported: `RunLoader` is
swapped for a subclass that lives in this module, so that such a process imports it to find its work.
"""

from __future__ import annotations

import gzip
import re
from typing import Any

from torch_tb_profiler import consts, plugin, run
from torch_tb_profiler.profiler import data, loader, trace

_PRIVATEUSE1 = 20  # c10::DeviceType::PrivateUse1
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[\s*')


class RunLoader(loader.RunLoader):  # type: ignore[misc]
    """The plugin's own, found by its processes under this module's name."""


def append_gpu_metrics(self: Any, raw_data: bytes) -> bytes:
    """The trace with the plugin's counters, compressed. Takes the place of RunProfile.append_gpu_metrics."""
    start = _EVENTS.search(raw_data)
    if start and self.gpu_metrics:
        counters = ", ".join(self.gpu_metrics).encode()
        comma = b"" if raw_data[start.end() : start.end() + 1] == b"]" else b", "
        raw_data = b"".join((raw_data[: start.end()], counters, comma, raw_data[start.end() :]))
    return gzip.compress(raw_data, 1)


_memory_event = trace.MemoryEvent.__init__
_profile_data = data.RunProfileData.__init__


def memory_event(self: Any, type: str, event: dict[str, Any]) -> None:
    """Takes the place of MemoryEvent.__init__: to this plugin a device is a GPU."""
    _memory_event(self, type, event)
    if self.args.get("Device Type") == _PRIVATEUSE1:
        self.device_type = trace.DeviceType.CUDA


def profile_data(self: Any, worker: str, span: str, trace_json: dict[str, Any]) -> None:
    """Takes the place of RunProfileData.__init__: the one entry of a Spyre's trace stands for each of its cards."""
    _profile_data(self, worker, span, trace_json)
    properties = self.device_props
    if isinstance(properties, list) and len(properties) == 1 and properties[0].get("type") == "AIU":
        self.device_props = properties * consts.MAX_GPU_PER_NODE


trace.EventTypeMap.setdefault("privateuse1_runtime", trace.EventTypes.RUNTIME)
trace.EventTypeMap.setdefault("privateuse1_driver", trace.EventTypes.RUNTIME)
trace.EventTypeMap.pop("gpu_user_annotation", None)  # the host's ranges tell the steps
trace.MemoryEvent.__init__ = memory_event
data.RunProfileData.__init__ = profile_data
run.RunProfile.append_gpu_metrics = append_gpu_metrics
plugin.RunLoader = RunLoader
