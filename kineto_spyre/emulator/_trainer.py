"""transformers' Trainer and the device "spyre".

accelerate puts the data on PyTorch's accelerator, whichever it is. TrainingArguments chooses the model's device from a
list of names that it knows and takes the CPU for all others, unless ACCELERATE_TORCH_DEVICE names a device. So with
default arguments the model is on the CPU and the data on spyre. Setting the variable for the whole process would cure
that, and would break `use_cpu=True` and `Accelerator(cpu=True)`, which it overrules. It is therefore set only while
TrainingArguments chooses, and only if the program did not ask for the CPU.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from ._lazy import when_imported

_VARIABLE = "ACCELERATE_TORCH_DEVICE"
_CHOICE = "_setup_devices"


def register() -> None:
    """Has TrainingArguments choose spyre where accelerate does. Imports nothing."""
    when_imported("transformers.training_args", _wrap_choice)


def _wrap_choice(module: ModuleType) -> None:
    arguments = module.TrainingArguments
    choice = vars(arguments).get(_CHOICE)
    if not isinstance(choice, functools.cached_property):
        return  # another release of transformers; ACCELERATE_TORCH_DEVICE=spyre helps there

    @functools.wraps(choice.func)
    def choose(self: Any) -> Any:
        wants_cpu = self.use_cpu or os.environ.get("ACCELERATE_USE_CPU", "").lower() in (
            "1",
            "true",
            "yes",
            "on",
            "y",
            "t",
        )
        if wants_cpu or _VARIABLE in os.environ:
            return choice.func(self)
        os.environ[_VARIABLE] = "spyre"
        try:
            return choice.func(self)
        finally:
            os.environ.pop(_VARIABLE, None)

    wrapped = functools.cached_property(choose)
    wrapped.__set_name__(arguments, _CHOICE)
    setattr(arguments, _CHOICE, wrapped)
