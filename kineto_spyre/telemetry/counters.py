"""From samples to counter tracks of a trace.

In: samples of one card. Out: Chrome counter events with `time_ns`. A counter's value holds from its time on, so what
describes an interval stands at the interval's begin: power at the begin of the mean that the card wrote, a rate at the
sample before. No counter is called `Power`, which acelyzer takes for a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kineto_spyre.telemetry.metrics_file import Sample

POWER = "pwr (W)"
TEMPERATURE = "temperature (C)"
RATES = {
    "rdmem": "device memory read (GiB/s)", "wrmem": "device memory write (GiB/s)",
    "rxpci": "PCIe to device (GiB/s)", "txpci": "PCIe from device (GiB/s)",
    "rdrdma": "RDMA read (GiB/s)", "wrrdma": "RDMA write (GiB/s)",
}  # fmt: skip
_ALWAYS = ("rdmem", "wrmem", "rxpci", "txpci")  # the others only where something moved
GIB = float(1 << 30)


def counter(name: str, device: int, time_ns: int, series: str, value: float) -> dict[str, Any]:
    """One counter event. Devices' events have the device's number as pid."""
    return {"ph": "C", "name": name, "pid": device, "tid": 0, "time_ns": time_ns, "args": {series: value}}


def events(device: int, samples: Sequence[Sample]) -> Iterable[dict[str, Any]]:
    """All counters of one card."""
    for sample in samples:
        if "pwr" in sample.values:
            begin = sample.time_ns - sample.interval_ns
            yield counter(POWER, device, begin, "W", round(sample.values["pwr"], 3))
        if "tempr" in sample.values:
            yield counter(TEMPERATURE, device, sample.time_ns, "C", round(sample.values["tempr"], 3))
    for name, title in RATES.items():
        rates = list(_rates(name, samples))
        if rates and (name in _ALWAYS or any(rate for _, rate in rates)):
            for begin, rate in rates:
                yield counter(title, device, begin, "GiB/s", round(rate / GIB, 6))


def _rates(name: str, samples: Sequence[Sample]) -> Iterable[tuple[int, float]]:
    """(begin, bytes a second) from one sample to the next. A count that went back began anew: its card was reset."""
    for before, after in zip(samples, samples[1:]):
        if name in before.values and name in after.values:
            moved = after.values[name] - before.values[name]
            if moved >= 0:
                yield before.time_ns, moved / ((after.time_ns - before.time_ns) * 1e-9)
