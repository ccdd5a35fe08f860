"""Which libaiupti a session would open, found without opening one.

libaiupti that is mapped early makes the runtime slow (it arms telemetry for each op), so nothing here maps it: files
are looked at, read, and closed. The C++ side opens the one that is chosen, at the first session.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
from dataclasses import dataclass, field

from . import _environment
from ._notices import SpyreProfilerError

SONAME = "libaiupti.so"
EMULATED = pathlib.Path(__file__).parent / "lib" / "libaiupti_emulated.so"

# What a session calls, by the names that C++ gives them; a library built with C linkage has the plain ones.
FUNCTIONS = {
    "aiuptiActivityRegisterCallbacks": "_Z31aiuptiActivityRegisterCallbacksPFvPPhPmS1_EPFvS_mmE",
    "aiuptiActivityEnable": "_Z20aiuptiActivityEnable19AIUpti_ActivityKind",
    "aiuptiActivityDisable": "_Z21aiuptiActivityDisable19AIUpti_ActivityKind",
    "aiuptiActivityGetNextRecord": "_Z27aiuptiActivityGetNextRecordPhmPP15AIUpti_Activity",
    "aiuptiActivityGetNumDroppedRecords": "_Z34aiuptiActivityGetNumDroppedRecordsPm",
    "aiuptiFlushAllActivities": "_Z24aiuptiFlushAllActivitiesv",
}

# Spyre's PCI identity: vendor IBM; physical and virtual function.
_PCI_IDS = {("0x1014", "0x06a7"), ("0x1014", "0x06a8")}
_SDK_VARIABLES = ("LIBAIUPTI_INSTALL_DIR", "RUNTIME_INSTALL_DIR")
_SDK_DEFAULT = "/opt/ibm/spyre/runtime"


@dataclass
class Search:
    """Where we looked, in order, and what was there."""

    found: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def look(self, path: pathlib.Path) -> None:
        self.tried.append(str(path))
        if path.is_file() and str(path) not in self.found:
            self.found.append(str(path))


def mapped() -> str | None:
    """The path of a real libaiupti that is already in this process, or None."""
    try:
        maps = pathlib.Path("/proc/self/maps").read_text()
    except OSError:
        return None
    match = re.search(r"(/\S*/libaiupti\.so\S*)$", maps, re.MULTILINE)
    return match.group(1) if match else None


def search() -> Search:
    """KINETO_SPYRE_LIBAIUPTI, then where the dynamic loader looks, then the SDK's folders."""
    result = Search()
    if named := _environment.text("KINETO_SPYRE_LIBAIUPTI"):
        result.look(pathlib.Path(named))
    if already := mapped():
        result.look(pathlib.Path(already))
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        result.look(pathlib.Path(folder) / SONAME)
    result.tried.append("the dynamic loader's cache")
    for path in _loader_cache():
        result.look(path)
    roots = [os.environ[v] for v in _SDK_VARIABLES if os.environ.get(v)]
    for root in dict.fromkeys([*roots, _SDK_DEFAULT]):
        for lib in ("lib", "lib64"):
            result.look(pathlib.Path(root) / lib / SONAME)
    return result


def _loader_cache() -> list[pathlib.Path]:
    try:
        cache = pathlib.Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        return []
    return [pathlib.Path(os.fsdecode(p)) for p in re.findall(rb"(/[^\0]*/libaiupti\.so)\0", cache)]


def cards() -> list[str]:
    """The PCI addresses of the Spyre cards that this machine shows. Opens none of them."""
    addresses = []
    for device in sorted(pathlib.Path("/sys/bus/pci/devices").glob("*")):
        try:
            identity = ((device / "vendor").read_text().strip(), (device / "device").read_text().strip())
        except OSError:
            continue
        if identity in _PCI_IDS:
            addresses.append(device.name)
    return addresses


def device_is_plausible() -> str | None:
    """Why a real Spyre may be in use here, in words; None if none was detected."""
    if _environment.text("KINETO_SPYRE_LIBAIUPTI"):
        return "KINETO_SPYRE_LIBAIUPTI is set"
    if os.environ.get("FLEX_DEVICE"):
        return f"FLEX_DEVICE is {os.environ['FLEX_DEVICE']}"
    if "torch_spyre" in sys.modules or importlib.util.find_spec("torch_spyre") is not None:
        return "torch-spyre is installed"
    if found := cards():
        return f"Spyre cards at {', '.join(found)}"
    return None


def trouble(path: str) -> str | None:
    """Why the file can't serve as libaiupti, in a sentence; None if it looks right."""
    try:
        machine, _ = _machine_and_exports("/proc/self/exe")
        found, exports = _machine_and_exports(path)
    except OSError as error:
        return f"{path} can't be read ({error.strerror}); check its permissions."
    except Exception:  # in a damaged file pyelftools meets errors of any type
        found, exports = None, frozenset()
    if found is None or found != machine:
        return f"{path} is not a shared library for this machine; give the path of the SDK's {SONAME}."
    missing = [name for name, mangled in FUNCTIONS.items() if exports.isdisjoint((name, mangled))]
    if missing:
        return (
            f"{path} lacks {', '.join(missing)} (under its C++ name, such as {FUNCTIONS[missing[0]]}, and its plain "
            "one), so it is another library, or a release of libaiupti that kineto-spyre does not support. Use the "
            f"SDK's {SONAME}."
        )
    return None


def _machine_and_exports(path: str) -> tuple[tuple[int, bool, str], frozenset[str]]:
    """What an ELF file is for (word size, byte order, processor), and which of FUNCTIONS it defines."""
    from elftools.elf.dynamic import DynamicSegment  # only where a library is judged: 20 ms
    from elftools.elf.elffile import ELFFile

    wanted = {*FUNCTIONS, *FUNCTIONS.values()}
    with open(path, "rb") as file:
        elf = ELFFile(file)
        segments = (segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment))
        symbols = (s for segment in segments for s in segment.iter_symbols())
        defined = frozenset(s.name for s in symbols if s.name in wanted and s["st_shndx"] != "SHN_UNDEF")
        return (elf.elfclass, elf.little_endian, elf["e_machine"]), defined


def candidates() -> list[str]:
    """The files that a session may open, best first: the named one alone, if one is named."""
    if named := _environment.text("KINETO_SPYRE_LIBAIUPTI"):
        return [named]
    return search().found


def choose() -> list[str]:
    """The real libaiupti's candidates, best first. Raises SpyreProfilerError if none is usable.

    A library that the user named and that can't serve is an error, not a reason to take another one.
    """
    named = _environment.text("KINETO_SPYRE_LIBAIUPTI")
    if named and not pathlib.Path(named).is_file():
        raise SpyreProfilerError(
            f"KINETO_SPYRE_LIBAIUPTI is {named!r}, which is not a file. Set it to the path of the SDK's {SONAME}, or "
            "unset it to search for the library."
        )
    if named and (why := trouble(named)):
        raise SpyreProfilerError(f"KINETO_SPYRE_LIBAIUPTI can't be used: {why}")
    if named:
        return [named]
    result = search()
    if not result.found:
        raise SpyreProfilerError(
            f"No libaiupti was found (tried {', '.join(result.tried)}). Install the Spyre SDK, set "
            "KINETO_SPYRE_LIBAIUPTI to the library's path, or try an emulated Spyre with "
            "kineto_spyre.emulator.enable()."
        )
    troubles = {path: trouble(path) for path in result.found}
    usable = [path for path, why in troubles.items() if why is None]
    if not usable:
        raise SpyreProfilerError("No libaiupti can be used: " + " ".join(filter(None, troubles.values())))
    return usable
