"""transformers' Trainer and accelerate on the device "spyre", where they depend on lists of devices that they know.

One process: accelerate puts the data on PyTorch's accelerator, whichever it is. TrainingArguments chooses the model's
device from a list of names and takes the CPU for all others, unless ACCELERATE_TORCH_DEVICE names a device. So with
default arguments the model is on the CPU and the data on spyre. Setting the variable for the whole process would cure
that, and would break `use_cpu=True` and `Accelerator(cpu=True)`, which it overrules. It is therefore set only while
TrainingArguments chooses, and only if the program did not ask for the CPU.

Several processes: accelerate joins the ranks of devices on its list. On any other device each rank trains alone, and
accelerate does not say so; we do.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from .._notices import warn
from ._lazy import when_imported

_VARIABLE = "ACCELERATE_TORCH_DEVICE"
_CHOICE = "_setup_devices"
_YES = ("1", "true", "yes", "on", "y", "t")  # what accelerate reads as true


def register() -> None:
    """Has TrainingArguments choose spyre where accelerate does, and ranks that train alone say so. Imports nothing."""
    when_imported("transformers.training_args", _wrap_choice)
    when_imported("accelerate.state", _wrap_state)


def _wrap_choice(module: ModuleType) -> None:
    arguments = module.TrainingArguments
    choice = vars(arguments).get(_CHOICE)
    if not isinstance(choice, functools.cached_property):
        return  # another release of transformers; ACCELERATE_TORCH_DEVICE=spyre helps there

    @functools.wraps(choice.func)
    def choose(self: Any) -> Any:
        wants_cpu = self.use_cpu or os.environ.get("ACCELERATE_USE_CPU", "").lower() in _YES
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


def _wrap_state(module: ModuleType) -> None:
    state = module.PartialState
    initialize = state.__init__

    @functools.wraps(initialize)
    def initialize_and_tell(self: Any, *args: Any, **kwargs: Any) -> None:
        was_initialized = bool(self._shared_state)  # one state for all objects of the class
        initialize(self, *args, **kwargs)
        ranks = os.environ.get("WORLD_SIZE", "1")
        alone = self.num_processes == 1 and "LOCAL_RANK" in os.environ and ranks != "1"
        if alone and not was_initialized and self.device is not None and self.device.type == "spyre":
            warn(
                f"Each of the {ranks} ranks trains alone, because accelerate can't join ranks on the device spyre. To "
                "join them, use Accelerator(cpu=True) or TrainingArguments(use_cpu=True), and set "
                "ACCELERATE_TORCH_DEVICE=spyre in the environment."
            )

    state.__init__ = initialize_and_tell
