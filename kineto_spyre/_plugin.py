"""The shim around the C++ plugin: switch it on, ask what it is doing, profile with it.

torch and the extension modules are imported by the functions that need them, never by this module.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _environment, _library, _notices
from ._notices import SpyreProfilerError

if TYPE_CHECKING:
    import types

    import torch.profiler

RUNTIMES = ("auto", "aiupti", "emulated")
_FOREIGN = "Another plugin, not kineto_spyre, holds PyTorch's one place for a PrivateUse1 profiler"


@dataclass(frozen=True)
class Session:
    """What the last profiling session with a Spyre in it captured, and what it could not."""

    captured: dict[str, int]  # records in the trace, by kind: kernel, memcpy, memset, memory, runtime, driver
    refused: dict[str, int]  # records found to be wrong, by reason
    lost: Any  # never recorded, for want of room
    outside: int  # recorded, and not between start and stop
    overlaps: int  # kernels that overlap on one stream, which a stream can't do: a fault of the data
    clock: Any  # how the device's clock was brought onto the host's
    warnings: list[str]  # the sentences that also came as Python warnings
    details: dict[str, Any] = field(repr=False)  # all of the trace's `kineto_spyre` metadata


@dataclass(frozen=True)
class Status:
    """What is installed, what is registered, and what would be profiled."""

    version: str  # of kineto_spyre
    torch: str  # the installed release
    built_for: str  # the minor release of torch that this wheel serves
    backend: str | None  # the name that PrivateUse1 was given; None while it has none
    factory: str  # whose plugin is in force: "ours", "other" or "none"
    runtime: str | None  # "aiupti" or "emulated"; None while nothing was chosen
    library: str | None  # the libaiupti that is open in this process; None before the first session
    sessions: int  # profiling sessions so far
    records: dict[str, Any]  # sizes of libaiupti's records by kind, as built and as seen
    environment: dict[str, Any]  # what the C++ side read from it
    available: bool  # whether a profile with PrivateUse1 among its activities would show a Spyre
    problems: list[str]  # a sentence for each trouble, saying what to do


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def torch_mismatch() -> str | None:
    """A sentence if the installed torch is not the one that this wheel was built for. Runs no C++."""
    import torch

    from ._build_info import TORCH_VERSION

    installed = str(torch.__version__)
    if _minor(installed) == _minor(TORCH_VERSION):
        return None
    return (
        f"This kineto-spyre was built for PyTorch {_minor(TORCH_VERSION)}, and PyTorch {installed} is installed; its "
        f"profiler's C++ interface differs, so kineto-spyre stays off. Install torch=={_minor(TORCH_VERSION)}.*, or "
        "build kineto-spyre again beside the installed PyTorch."
    )


def require_torch() -> None:
    """Raises SpyreProfilerError if the installed torch is another release than the wheel was built for."""
    if mismatch := torch_mismatch():
        raise SpyreProfilerError(mismatch)


@functools.cache
def _extension() -> types.ModuleType:
    """The C++ plugin, once torch's release is known to fit. Raises SpyreProfilerError."""
    require_torch()
    try:
        from . import _C
    except ImportError as error:
        raise SpyreProfilerError(
            f"kineto_spyre's extension can't be loaded ({error}). Install the wheel again with pip."
        ) from error
    _C.set_warning_handler(_notices.warn)
    return _C


def backend_name() -> str | None:
    """The name that PrivateUse1 was given, or None while it has none."""
    import torch

    name: str = torch._C._get_privateuse1_backend_name()
    return None if name == "privateuseone" else name


def _state(extension: types.ModuleType) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(extension.status_json())
    return state


def _register(override: bool) -> str:
    whose: str = _extension().register(override or _environment.flag("KINETO_SPYRE_OVERRIDE", default=False))
    return whose


def autoload() -> None:
    """What happens when torch is imported: the plugin is registered, and told of a real libaiupti if there is one."""
    if _register(override=False) != "ours":
        _notices.warn(
            f"{_FOREIGN}; it came first and stays in force, and traces hold what it records. Set "
            "KINETO_SPYRE_OVERRIDE=1 to have kineto_spyre's instead, or KINETO_SPYRE_AUTOLOAD=0 to be told no more."
        )
        return
    if _library.device_is_plausible():
        # Where none is found now, the first profile tries the loader once more, and says what is missing.
        _extension().set_libraries("aiupti", _library.search().found or [_library.SONAME])


def enable(runtime: str = "auto", override: bool = False) -> Status:
    """Makes the next `torch.profiler` profile with PrivateUse1 show what happens on a Spyre.

    Only needed with an emulated Spyre, after KINETO_SPYRE_AUTOLOAD=0, or to choose by hand: the plugin registers itself
    when torch is imported. Opens no device and no libaiupti; the first profile does that.

    runtime
        "aiupti": the real library. "emulated": the one of the emulated Spyre, which is started with one device unless
        `kineto_spyre.emulator.enable` was called before. "auto": what was chosen before, else the real library if there
        is one and a device is plausible; never the emulated one.
    override
        Take the profiler's one slot even if another plugin holds it (as KINETO_SPYRE_OVERRIDE=1).

    Raises ValueError for an unknown runtime, and SpyreProfilerError, with a sentence that says what to do, if torch is
    another release than the wheel was built for, the backend has no name, another plugin is registered, or libaiupti is
    missing or lacks a function.
    """
    if runtime not in RUNTIMES:
        raise ValueError(f"The runtime is {runtime!r}; expected one of {', '.join(map(repr, RUNTIMES))}.")
    extension = _extension()
    chosen = _state(extension)["runtime"]
    if runtime == "auto":
        runtime = chosen or "aiupti"
        if runtime == "aiupti" and not _library.device_is_plausible():
            raise SpyreProfilerError(
                "Nothing speaks for a Spyre on this machine: no card on the PCI bus, no torch-spyre, no FLEX_DEVICE, "
                "no KINETO_SPYRE_LIBAIUPTI. Call kineto_spyre.enable('aiupti') if there is one all the same, or "
                "kineto_spyre.emulator.enable() for an emulated one."
            )
    if runtime == "emulated":
        candidates = _emulated()
    else:
        candidates = _library.choose()
        if backend_name() is None:
            raise SpyreProfilerError(
                "PyTorch's PrivateUse1 backend has no name yet, so the profiler would skip it. Import torch_spyre "
                "before kineto_spyre.enable(), or call torch.utils.rename_privateuse1_backend('spyre')."
            )
    if _register(override) != "ours":
        raise SpyreProfilerError(
            f"{_FOREIGN}; it stays in force and traces hold what it records. Call kineto_spyre.enable(override=True), "
            "or set KINETO_SPYRE_OVERRIDE=1, before the first profile to take its place."
        )
    try:
        extension.set_libraries(runtime, candidates)
    except RuntimeError as error:
        raise SpyreProfilerError(str(error)) from error
    return status()


def _emulated() -> list[str]:
    """Starts an emulated Spyre if there is none, and returns the path of its libaiupti."""
    if not _library.EMULATED.is_file():
        raise SpyreProfilerError(
            f"{_library.EMULATED} is missing, so there is no emulated Spyre. Install the wheel again with pip."
        )
    from . import emulator

    if not emulator.is_enabled():
        emulator.enable()
    return [str(_library.EMULATED)]


def status() -> Status:
    """What is installed, what is registered, and what would be profiled. Opens nothing and changes nothing.

    Trouble becomes a sentence in `problems`, not an exception.
    """
    import torch

    from . import __version__
    from ._build_info import TORCH_VERSION

    problems: list[str] = []
    state: dict[str, Any] = {}
    try:
        state = _state(_extension())
    except SpyreProfilerError as error:
        problems.append(str(error))
    factory = state.get("factory", "none")
    backend = backend_name()
    runtime = state.get("runtime")
    if factory == "other":
        problems.append(
            f"{_FOREIGN}: traces hold what it records, and last_session() tells nothing. Set KINETO_SPYRE_OVERRIDE=1, "
            "or call kineto_spyre.enable(override=True) before the first profile, to have ours instead."
        )
    elif factory == "none" and state:
        problems.append("The plugin is not registered; call kineto_spyre.enable().")
    if backend is None:
        problems.append(
            "PyTorch's PrivateUse1 backend has no name, so profiles skip it; import torch_spyre, or call "
            "kineto_spyre.emulator.enable() for an emulated Spyre."
        )
    if runtime is None and state:
        problems.append(
            "No runtime was chosen, so profiles show no Spyre; call kineto_spyre.enable() on a machine with a card, or "
            "kineto_spyre.emulator.enable()."
        )
    library = state.get("library")
    usable = library is not None or runtime == "emulated"
    if runtime == "aiupti" and library is None:
        try:
            usable = bool(_library.choose())
        except SpyreProfilerError as error:
            problems.append(str(error))
    if usable and state.get("library_error"):
        usable = False
        problems.append(state["library_error"])
    already = _library.mapped()
    if runtime == "aiupti" and already and library is None:
        problems.append(
            f"{already} is in this process before any profile, which makes each op on the device slower; find out what "
            "links or preloads it (LD_PRELOAD, a build with USE_SPYRE_PROFILER) and have it left out."
        )
    problems += _environment.check()
    return Status(
        version=__version__,
        torch=str(torch.__version__),
        built_for=_minor(TORCH_VERSION),
        backend=backend,
        factory=factory,
        runtime=runtime,
        library=library,
        sessions=state.get("sessions", 0),
        records=state.get("records", {}),
        environment=state.get("environment", {}),
        available=factory == "ours" and backend is not None and usable,
        problems=problems,
    )


def is_available() -> bool:
    """Whether a profile with PrivateUse1 among its activities would show a Spyre. Never raises."""
    try:
        return status().available
    except Exception:
        return False


def last_session() -> Session | None:
    """What the last profiling session captured, lost and refused; None before the first one has ended."""
    text: str = _extension().last_session_json()
    if not text:
        return None
    details: dict[str, Any] = json.loads(text)
    return Session(
        captured=details["captured"],
        refused=details["invalid"],
        lost=details["dropped"],
        outside=details["out_of_window"],
        overlaps=details["overlaps"],
        clock=details["clock"],
        warnings=details["warnings"],
        details=details,
    )


def _synchronize() -> None:
    """Waits for the work of all cards. (The profiler itself waits for the current one.)

    A card that can't be waited for must not break the profile, and one that was not used must not be opened by this: of
    a real backend only the current one is asked, and only if it is in use.
    """
    import torch

    module = getattr(torch, backend_name() or "", None)
    if module is None or not hasattr(module, "synchronize"):
        return
    emulator = sys.modules.get("kineto_spyre.emulator")
    try:
        if emulator is not None and emulator.is_enabled():
            for index in range(emulator.device_count()):
                module.synchronize(index)
        elif getattr(module, "is_initialized", lambda: True)():
            module.synchronize()
    except Exception as error:
        _notices.warn(f"The device could not be synchronised at the end of the profile: {error}")


@functools.cache
def _profile_class() -> type[torch.profiler.profile]:
    import torch.profiler

    class SpyreProfile(torch.profiler.profile):
        """torch.profiler.profile, which waits for the device before each recording ends."""

        def stop_trace(self) -> None:
            _synchronize()
            super().stop_trace()

    return SpyreProfile


@functools.cache  # once a process
def _say_whose() -> None:
    _notices.warn(f"{_FOREIGN}: the trace holds what it records.")


def profile_spyre(*, activities: Iterable[Any] | None = None, **kwargs: Any) -> torch.profiler.profile:
    """`torch.profiler.profile` as a Spyre needs it: CPU and PrivateUse1, shapes recorded, and the device waited for
    before each recording ends, so that the trace holds the end of all work. Takes the same arguments.

    Raises SpyreProfilerError, with a sentence that says what to do, if no Spyre would be seen.
    """
    from torch.profiler import ProfilerActivity

    if not is_available() and status().factory != "other":
        enable()
    if status().factory == "other":
        _say_whose()
    if activities is None:
        activities = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
    kwargs.setdefault("record_shapes", True)
    return _profile_class()(activities=activities, **kwargs)
