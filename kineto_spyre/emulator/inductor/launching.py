"""What the generated program calls: a compiled kernel, and its place on the device's timeline.

In: the C++ function that Inductor compiled, its arguments, and what the cost model needs, which the generated program
computes from the sizes at hand. Out: the function has run; a kernel was launched on the calling thread's current stream
of the device. Errors: what the function raises, and what a launch raises (a lost device).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.autograd.profiler as profiler
from torch._C._profiler import _RecordFunctionFast

from ... import _device
from ...marks import running
from . import phases, provenance


class Kernel:
    """A kernel of a compiled program; made when the program is loaded.

    Args:
        name: its name in a trace.
        label: its name in the generated program, and of the op in a trace.
        dtype: what it computes in, a number of the runtime's (kineto_spyre.emulator._machine.DTYPES).
        origins: what it was made of, see `identity.origins_of`.
        ops, marked: of a marked kernel, see `phases.of`.
    """

    __slots__ = ("_dtype", "_label", "_marked", "_name", "_ops")

    def __init__(
        self,
        name: str,
        label: str,
        dtype: int,
        origins: list[dict[str, Any]],
        ops: Sequence[str] = (),
        marked: Mapping[int, dict[str, Any]] | None = None,
    ) -> None:
        self._name, self._label, self._dtype = name, label, dtype
        self._ops, self._marked = ops, marked or {}
        provenance.add(name, label, origins)

    def __call__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        device: int,
        flops: float,
        read: int,
        written: int,
        each: Sequence[phases.Figures] = (),
    ) -> None:
        """Runs the function and launches the kernel; a kernel that writes nothing is not launched, as in eager mode."""
        began = running.begin() if each else 0
        if profiler._is_profiler_enabled:
            with _RecordFunctionFast(self._label):
                self._run(function, arguments, device, flops, read, written)
        else:
            self._run(function, arguments, device, flops, read, written)
        if began:
            found = phases.of(self._ops, self._marked, (flops, read, written), each, self._dtype)
            running.end(began, False, found)

    def _run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        device: int,
        flops: float,
        read: int,
        written: int,
    ) -> None:
        begin = _device.stopwatch()
        function(*arguments)
        if written:
            _device.launch(device, self._name, flops, read, written, self._dtype, begin)
