"""torch.compile for the emulated Spyre: Inductor's own scheduling and C++ kernels, over the device's memory.

Importing this imports Inductor, so nothing does before Inductor itself asks the module torch.spyre for these names
(torch._inductor.codegen.common.init_backend_registration). How it works:

    scheduling.py   for each kernel that Inductor generates, what its launch needs to know
    costs.py        bytes read and written and floating-point operations, from the scheduler's nodes
    identity.py     the kernel's name with its provenance key, and what it was made of
    wrapper.py      the generated program calls `launch` of launching.py in place of the C++ function
    launching.py    at run time: the C++ function, then its place on the timeline. Imports no Inductor.
    card_marks.py   marks of chosen ops (kineto_spyre.marks), and by_op.py, the figures of each op of a kernel
    phases.py       at run time: how a kernel's time divides over its ops. Imports no Inductor.
    provenance.py   spyre_provenance.json
    like_the_cpu.py where Inductor decides by the name of the device, "spyre" is decided as "cpu"

The device's memory is the host's, so the C++ function computes at once, as the kernels of eager ops do; the launch
gives it its place in time, on the current stream.
"""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.common import register_device_op_overrides
from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides

from ...marks import register_emitter
from . import like_the_cpu
from .card_marks import CardEmitter
from .scheduling import Scheduling
from .wrapper import PythonWrapperCodegen

__all__ = ["CppWrapperCodegen", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen"]


class _OnlyPython:
    """Takes the place of the code generators that the emulated device lacks."""

    supports_caching = True  # asked before the program is generated

    @staticmethod
    def create(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            "For the emulated Spyre, Inductor generates its program in Python only. Leave the options cpp_wrapper and "
            "fx_wrapper out, and compile with torch.compile; for a package (AOTInductor), compile on the CPU."
        )


CppWrapperCodegen = WrapperFxCodegen = _OnlyPython

register_device_op_overrides("spyre", CpuDeviceOpOverrides())
register_emitter("spyre", CardEmitter())
like_the_cpu.adapt()
