"""The C++ plugin, loaded once torch's release is known to fit, and what Python hands to it.

torch and the extension are imported by the functions that need them, never by this module.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any

from .. import _environment, _notices, diagnostics
from .._notices import SpyreProfilerError

if TYPE_CHECKING:
    import types


_candidates: list[str] = []  # of libaiupti, for the next session


def minor(version: str) -> str:
    """The minor release: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split(".")[:2])


def torch_mismatch() -> str | None:
    """A sentence if the installed torch is not the one that this wheel was built for. Runs no C++."""
    import torch

    from .._build_info import TORCH_VERSION

    installed = str(torch.__version__)
    if minor(installed) == minor(TORCH_VERSION):
        return None
    return (
        f"This kineto-spyre was built for PyTorch {minor(TORCH_VERSION)}, and PyTorch {installed} is installed; its "
        f"profiler's C++ interface differs, so kineto-spyre stays off. Install torch=={minor(TORCH_VERSION)}.*, or "
        "build kineto-spyre again beside the installed PyTorch."
    )


def require_torch() -> None:
    """Checks the installed torch.

    Raises:
        SpyreProfilerError: it is another release than the wheel was built for.
    """
    if mismatch := torch_mismatch():
        raise SpyreProfilerError(mismatch)


def warn(found: str) -> None:
    """One Python warning for each diagnostic but notes. The C++ side calls this after a session's trace was processed.

    Args:
        found: a JSON array of objects with code, count and details.
    """
    for diagnostic in diagnostics.parse(json.loads(found)):
        if diagnostic.severity != "note":
            _notices.warn(diagnostic.sentence)


def _device_asked() -> bool:
    """Whether PrivateUse1 is among the activities of the profile that this thread prepares right now.

    What Kineto hands over is the same for the CPU alone and for the CPU with nothing but the device's calls, so this
    looks for torch's own profiler among the callers.
    """
    torch = sys.modules.get("torch")
    frame: types.FrameType | None = sys._getframe()
    while torch is not None and frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "_prepare_trace" else None
        if isinstance(caller, torch.autograd.profiler.profile):
            return torch.profiler.ProfilerActivity.PrivateUse1 in caller.kineto_activities
        frame = frame.f_back
    return False


def session_settings() -> dict[str, Any]:
    """What a session of the C++ side asks for when it begins: see Settings in csrc/kineto/settings.h."""
    from ..selftest import cache

    return _environment.settings() | {
        "device_asked": _device_asked(),
        "flush_only_before_disable": cache.without_last_flush(_candidates),
    }


@functools.cache
def extension() -> types.ModuleType:
    """The C++ plugin.

    Raises:
        SpyreProfilerError: torch is another release, or the extension can't be loaded.
    """
    require_torch()
    try:
        from .. import _C
    except ImportError as error:
        raise SpyreProfilerError(
            f"kineto_spyre's extension can't be loaded ({error}). Install the wheel again with pip."
        ) from error
    _C.set_warning_handler(warn)
    _C.set_settings_provider(session_settings)
    return _C


def set_libraries(runtime: str, candidates: list[str]) -> bool:
    """As set_libraries in _C.pyi; the candidates are remembered for session_settings()."""
    global _candidates
    taken: bool = extension().set_libraries(runtime, candidates)
    if taken:
        _candidates = list(candidates)
        if _environment.kineto_asks_daemon():
            extension().read_settings()
    return taken


def state() -> dict[str, Any]:
    """What the C++ side tells: see `status_json` in _C.pyi."""
    told: dict[str, Any] = json.loads(extension().status_json())
    return told


def backend_name() -> str | None:
    """The name that PrivateUse1 was given, or None while it has none."""
    import torch

    name: str = torch._C._get_privateuse1_backend_name()
    return None if name == "privateuseone" else name
