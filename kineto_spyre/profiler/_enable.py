"""Switches the plugin on: when torch is imported, or by hand."""

from __future__ import annotations

from typing import Literal, get_args

from .. import _environment, _library, _notices
from .._notices import SpyreProfilerError
from . import _on_demand, _runtimes
from ._extension import backend_name, extension, set_libraries, state
from ._status import Status, status

RuntimeName = Literal["auto", "aiupti", "emulated"]
RUNTIMES: tuple[RuntimeName, ...] = get_args(RuntimeName)
FOREIGN = "Another plugin is registered as PyTorch's PrivateUse1 profiler, so traces hold what it records"


def _register(override: bool) -> str:
    whose: str = extension().register(override or _environment.flag("KINETO_SPYRE_OVERRIDE", default=False))
    return whose


def autoload() -> None:
    """What happens when torch is imported: the plugin is registered, and told of a real libaiupti if there is one."""
    if _register(override=False) != "ours":
        _notices.warn(
            f"{FOREIGN}. Set KINETO_SPYRE_OVERRIDE=1 to use kineto_spyre instead, or KINETO_SPYRE_AUTOLOAD=0 to turn "
            "this warning off."
        )
        return
    if _environment.kineto_asks_daemon():
        _on_demand.reach_kineto_once_named()
    if _library.device_is_plausible():
        # Where none is found now, the first profile tries the loader once more, and says what is missing.
        set_libraries("aiupti", _library.candidates() or [_library.SONAME])


def enable(runtime: RuntimeName = "auto", override: bool = False) -> Status:
    """Makes the next `torch.profiler` profile with PrivateUse1 show what happens on a Spyre.

    Only needed with an emulated Spyre, after KINETO_SPYRE_AUTOLOAD=0, or to choose by hand: the plugin registers itself
    when torch is imported. Opens no device and no libaiupti; the first profile does that.

    >>> kineto_spyre.enable("emulated").available
    True

    Args:
        runtime: "aiupti": the real library. "emulated": the one of the emulated Spyre, which is started with one device
            unless `kineto_spyre.emulator.enable` was called before. "auto": what was chosen before, else the real
            library if there is one and a device is plausible; never the emulated one.
        override: take the profiler's one place even if another plugin holds it (as KINETO_SPYRE_OVERRIDE=1).

    Raises:
        ValueError: the runtime is unknown.
        SpyreProfilerError: torch is another release than the wheel was built for, the backend has no name, another
            plugin is registered, or libaiupti is missing or lacks a function. The text says what to do.
    """
    if runtime not in RUNTIMES:
        raise ValueError(f"The runtime is {runtime!r}; expected one of {', '.join(map(repr, RUNTIMES))}.")
    extension()
    if runtime == "auto":
        runtime = _chosen()
    if runtime == "emulated":
        candidates = _emulated()
    else:
        candidates = _library.choose()
        if backend_name() is None:
            raise SpyreProfilerError(
                "PyTorch's PrivateUse1 backend has no name, so the profiler would skip it. Import torch_spyre before "
                "kineto_spyre.enable(), or call torch.utils.rename_privateuse1_backend('spyre')."
            )
    if _register(override) != "ours":
        raise SpyreProfilerError(
            f"{FOREIGN}. Call kineto_spyre.enable(override=True), or set KINETO_SPYRE_OVERRIDE=1, before the first "
            "profile to use kineto_spyre instead."
        )
    if not set_libraries(runtime, candidates):
        now = state()
        raise SpyreProfilerError(
            f"This process has opened {now['library']} for the runtime {now['runtime']!r}, and a libaiupti stays open "
            f"until its process ends. Start a new process to profile with {runtime!r}."
        )
    return status()


def _chosen() -> RuntimeName:
    chosen: RuntimeName = state()["runtime"] or "aiupti"
    if chosen == "aiupti" and not _library.device_is_plausible():
        raise SpyreProfilerError(
            "No Spyre was detected: no card on the PCI bus, torch-spyre is not installed, FLEX_DEVICE and "
            "KINETO_SPYRE_LIBAIUPTI are not set. If there is a Spyre, call kineto_spyre.enable('aiupti'). To use an "
            "emulated one, call kineto_spyre.emulator.enable()."
        )
    return chosen


def _emulated() -> list[str]:
    """Starts an emulated Spyre if there is none, and returns the path of its libaiupti."""
    if not _library.EMULATED.is_file():
        raise SpyreProfilerError(
            f"{_library.EMULATED} is missing, so there is no emulated Spyre. Install the wheel again with pip."
        )
    emulator = _runtimes.module("emulated")
    if not emulator.is_enabled():
        emulator.enable()
    return [str(_library.EMULATED)]
