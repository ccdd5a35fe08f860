"""PyTorch's device "spyre" over the emulated runtime. Importing it registers nothing; install() does."""

from typing import Any

import torch

def install(measure: bool) -> None:
    """Registers the device, once a process. `measure`: ops report how long their CPU execution took."""

def installed() -> bool: ...
def in_bad_fork() -> bool:
    """Whether this process was forked from one that used the device."""

def refuse_in_fork() -> None:
    """Raises RuntimeError in such a process, with what to do instead."""

def bytes_moved() -> int:
    """Bytes of results that had to be copied since a CPU kernel did not make them in the device's memory; for tests."""

def device_count() -> int: ...
def default_generator(index: int) -> torch.Generator: ...
def device_of_address(address: int) -> int:
    """The device whose memory holds the address, -1 if none does."""

def stopwatch() -> int:
    """The clock of measured kernels, in nanoseconds; 0 unless install() was told to measure."""

def launch(device: int, name: str, flops: float, read: int, written: int, dtype: int, begin: int) -> None:
    """Launches a compiled kernel on the calling thread's current stream of the device.

    Args: its name in a trace; operations, bytes and dtype (DTYPES) for the cost model; what stopwatch() said before its
    execution.
    """

def properties(index: int) -> dict[str, Any]: ...
