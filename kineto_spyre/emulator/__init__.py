"""An emulated Spyre: devices that behave, with a timeline one can reason about and faults on demand.

>>> from kineto_spyre import emulator
>>> emulator.enable(devices=2)                # PyTorch's device "spyre", and a libaiupti to profile it with
>>> device = emulator.Device(0)               # below PyTorch: exact work, no model needed
>>> device.launch("spyre_kernel_v1_mm_abcdefghijklmnop#0", ns=20_000)
>>> device.synchronize()
>>> with emulator.faults(clock_offset="5ms", drop=3):
...     ...

Importing this maps no library; `enable` does. No card is needed, and none is used.
"""

from __future__ import annotations

from ._faults import faults
from ._machine import Device, Energy, describe_model, device_count, enable, is_enabled, metrics_files

__all__ = ["Device", "Energy", "describe_model", "device_count", "enable", "faults", "is_enabled", "metrics_files"]
