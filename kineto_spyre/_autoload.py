"""The entry point in the group `torch.backends`: PyTorch calls `register` at the end of `import torch`.

An exception here would break `import torch` for everybody on the machine, so there is none: what must be known becomes
one warning. Nothing is printed, no device is opened, libaiupti is not mapped, and the backend keeps its name.
KINETO_SPYRE_AUTOLOAD=0 turns it off (and so does PyTorch's own TORCH_DEVICE_BACKEND_AUTOLOAD=0, for all backends).

KINETO_SPYRE_EMULATE=<devices> starts the emulated Spyre here as well. Processes that the program starts inherit it, so
that they know the device "spyre" before they receive a tensor of it.

KINETO_SPYRE_RECORD=<seconds> starts the flight recorder as soon as the device is in use.
"""

from __future__ import annotations


def register() -> None:
    from . import _environment, _notices

    try:
        if not _environment.flag("KINETO_SPYRE_AUTOLOAD", default=True):
            return
        from .profiler import _enable

        _enable.autoload()
    except Exception as error:
        _notices.warn(f"kineto_spyre was not registered, so profiles show no Spyre: {error}")
        return
    try:
        if devices := _environment.count("KINETO_SPYRE_EMULATE", default=0):
            from . import emulator

            emulator.enable(devices=devices, metrics=_environment.text("KINETO_SPYRE_EMULATE_METRICS") or None)
    except Exception as error:
        _notices.warn(f"The emulated Spyre was not started: {error}")
    try:
        if seconds := _environment.count("KINETO_SPYRE_RECORD", default=0):
            from .recorder import _autostart

            _autostart.record_once_used(float(seconds))
    except Exception as error:
        _notices.warn(f"The flight recorder was not started: {error}")
