"""What is installed, what is registered, and what would be profiled."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Any, Literal

from .. import _environment, _library, diagnostics
from .._notices import SpyreProfilerError
from ._details import RecordKind, RecordSize
from ._extension import backend_name, minor, state


@dataclass(frozen=True)
class Status:
    """What is installed, what is registered, and what would be profiled.

    Attributes:
        version: the installed release of kineto-spyre.
        torch: the installed release of PyTorch.
        built_for: the minor release of PyTorch that this wheel serves.
        backend: the name that PyTorch's PrivateUse1 device was given; None if it has none.
        factory: whose plugin is in force.
        runtime: what profiles record; None if no runtime was chosen.
        library: the path of the libaiupti that is open in this process; None before the first session.
        sessions: how many profiling sessions this process has had.
        records: sizes of libaiupti's records in bytes, by kind.
        environment: the variables that sessions read, with the values that they use.
        available: whether a profile with PrivateUse1 among its activities would show a Spyre.
        problems: a sentence for each problem, saying what to do.
    """

    version: str
    torch: str
    built_for: str
    backend: str | None
    factory: Literal["ours", "other", "none"]
    runtime: Literal["aiupti", "emulated"] | None
    library: str | None
    sessions: int
    records: dict[RecordKind, RecordSize]
    environment: dict[str, str]
    available: bool
    problems: list[str]


def status() -> Status:
    """What is installed, what is registered, and what would be profiled.

    Opens nothing and changes nothing. A problem becomes a sentence in `problems`, not an exception.

    >>> kineto_spyre.status().version
    '0.1.0'
    """
    import torch

    from .._build_info import TORCH_VERSION

    problems: list[str] = []
    told: dict[str, Any] = {}
    try:
        told = state()
    except SpyreProfilerError as error:
        problems.append(str(error))
    backend = backend_name()
    if told:
        problems += _registration_problems(told)
    if backend is None:
        problems.append(
            "PyTorch's PrivateUse1 backend has no name, so profiles skip it. Import torch_spyre, or call "
            "kineto_spyre.emulator.enable() for an emulated Spyre."
        )
    usable = _library_problems(told, problems)
    problems += _environment.check()
    return Status(
        version=importlib.metadata.version("kineto-spyre"),
        torch=str(torch.__version__),
        built_for=minor(TORCH_VERSION),
        backend=backend,
        factory=told.get("factory", "none"),
        runtime=told.get("runtime"),
        library=told.get("library"),
        sessions=told.get("sessions", 0),
        records=told.get("records", {}),
        environment=_environment.in_use(),
        available=told.get("factory") == "ours" and backend is not None and usable,
        problems=problems,
    )


def _registration_problems(told: dict[str, Any]) -> list[str]:
    problems = []
    if told["factory"] == "other":
        problems.append(
            "Another plugin is registered as PyTorch's PrivateUse1 profiler, so traces hold what it records and "
            "last_session() returns None. Set KINETO_SPYRE_OVERRIDE=1, or call kineto_spyre.enable(override=True), "
            "before the first profile to use kineto_spyre instead."
        )
    elif told["factory"] == "none":
        problems.append("The plugin is not registered. Call kineto_spyre.enable().")
    if told["runtime"] is None:
        problems.append(
            "No runtime was chosen, so profiles show no Spyre. Call kineto_spyre.enable() on a machine with a card, or "
            "kineto_spyre.emulator.enable()."
        )
    return problems


def _library_problems(told: dict[str, Any], problems: list[str]) -> bool:
    """Adds to the problems; whether a session would have a libaiupti."""
    runtime, library = told.get("runtime"), told.get("library")
    usable = library is not None or runtime == "emulated"
    if runtime == "aiupti" and library is None:
        try:
            usable = bool(_library.choose())
        except SpyreProfilerError as error:
            problems.append(str(error))
    if usable and told.get("library_trouble"):
        usable = False
        problems += [trouble.sentence for trouble in diagnostics.parse(told["library_trouble"])]
    already = _library.mapped()
    if runtime == "aiupti" and already and library is None:
        problems.append(
            f"{already} was loaded into this process before any profile, which makes each op on the device slower. "
            "Remove what links or preloads it (LD_PRELOAD, or a build with USE_SPYRE_PROFILER)."
        )
    return usable


def is_available() -> bool:
    """Whether a profile with PrivateUse1 among its activities would show a Spyre. Never raises."""
    try:
        return status().available
    except Exception:
        return False
