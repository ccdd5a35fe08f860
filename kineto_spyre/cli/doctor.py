"""`kineto-spyre doctor`: what is installed, what is registered, what would be profiled, and what is wrong."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from .. import _environment, _known_variables, _library, profiler

if TYPE_CHECKING:
    from ..profiler._details import RecordKind, RecordSize

SUMMARY = "show what is installed and registered, what would be profiled, and what is wrong"
DESCRIPTION = (
    "Shows what is installed and registered and what would be profiled, and for each problem what to do. Opens no "
    "device and no libaiupti. Exit code: 0 if a Spyre would be profiled, 1 if not."
)

_MEANING = {
    "ours": "kineto_spyre's; traces show what happens on a Spyre",
    "other": "another plugin's; traces hold what that plugin records",
    "none": "none; traces show no Spyre",
}


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _autoload_off() -> str | None:
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return "TORCH_DEVICE_BACKEND_AUTOLOAD=0"
    if _environment.is_off("KINETO_SPYRE_AUTOLOAD"):
        return "KINETO_SPYRE_AUTOLOAD=0"
    return None


def _row(label: str, value: object) -> None:
    print(f"  {label:<24}{value}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")
    parser.add_argument(
        "--emulated", action="store_true", help="start an emulated Spyre first, and profile one kernel on it"
    )
    parser.add_argument(
        "--variables", action="store_true", help="list the environment variables that matter, with effect and cost"
    )


def run(options: argparse.Namespace) -> int:
    if options.variables:
        _print_variables()
        return 0
    if options.emulated:
        _try_emulated()
    status = profiler.status()
    search = _library.search()
    plausible = _library.device_is_plausible()
    troubles = list(status.problems)
    for path in search.found:
        if (why := _library.trouble(path)) and not any(why in said for said in troubles):
            troubles.append(why)
    if options.json:
        print(
            json.dumps({**asdict(status), "available": status.available, "found": search.found, "problems": troubles})
        )
        return 0 if status.available else 1

    print("Installed")
    _row("kineto-spyre", f"{status.version}, built for PyTorch {status.built_for}")
    _row("PyTorch", status.torch)
    _row("Python", f"{sys.version.split()[0]} ({sys.executable})")
    for name in ("torch-spyre", "transformers", "tensorboard", "torch-tb-profiler"):
        _row(name, _installed(name))

    print("Registered")
    off = _autoload_off()
    _row("when torch is imported", f"no ({off})" if off else "yes")
    _row("plugin in force", _MEANING.get(status.factory, status.factory))
    _row("backend name", status.backend or "not set")

    print("Would be profiled")
    _row("runtime", status.runtime or "none")
    _row("libaiupti", f"{status.library} (open)" if status.library else "opened by the first profile")
    _row("found on this machine", ", ".join(search.found) or "none")
    _row("a real Spyre", plausible or "not detected")
    emulated = _library.EMULATED
    _row("an emulated Spyre", "kineto_spyre.emulator.enable()" if emulated.is_file() else f"{emulated} is missing")

    _print_records(status.records)

    _print_environment()

    print("Problems" if troubles else "No problem was found.")
    for sentence in troubles:
        print(f"  - {sentence}")
    return 0 if status.available else 1


def _print_environment() -> None:
    """The variables that are set and matter here, each with what it does and costs."""
    print("Environment")
    for name, value, about in _known_variables.in_force():
        _row(name, value)
        for row in about:
            _row("", row.effect + (f"; costs: {row.cost}" if row.cost != _known_variables.NOTHING else ""))


def _print_variables() -> None:
    """The whole table."""
    tool = ""
    for row in _known_variables.rows():
        if row.tool != tool:
            tool = row.tool
            print(tool)
        print(f"  {row.setting}")
        print(f"      {row.effect}")
        if row.cost != _known_variables.NOTHING:
            print(f"      costs: {row.cost}")


def _print_records(records: dict[RecordKind, RecordSize]) -> None:
    """Sizes of libaiupti's records: what this wheel was built for, and what the last sessions saw."""
    if not records:
        return
    print("Sizes of libaiupti's records, in bytes")
    print(f"  {'kind':<24}{'built for':>10}{'seen':>8}")
    for kind, sizes in records.items():
        print(f"  {kind:<24}{sizes['built'] or '-':>10}{sizes['seen'] or '-':>8}")


def _try_emulated() -> None:
    from .. import emulator

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    emulator.enable()
    with profiler.profile_spyre():
        device = emulator.Device(0)
        device.launch("spyre_kernel_v1_doctor_aaaaaaaaaaaaaaaa#0", ns=1000)
        device.synchronize()
