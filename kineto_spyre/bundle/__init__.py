"""What belongs to a report of a performance problem, in one ZIP file: versions, doctor's findings, the trace with its
check and its report, telemetry, a reproducer, and what was expected.

In: paths, and texts. Out: entries (a name, a text) without secrets, which `write` puts into a file; nothing is sent
anywhere. Errors: OSError of reading and writing. A part that can't be made says why in its place.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kineto_spyre import _known_variables
from kineto_spyre._files import new_file
from kineto_spyre.bundle.secrets import rules, without_secrets

_PACKAGES = (
    "kineto-spyre", "torch", "torch-spyre", "transformers", "vllm", "vllm-spyre", "numpy", "aiu-trace-analyzer",
    "HolisticTraceAnalysis", "ibm-aiu-smi", "spyremetrics", "tensorboard", "torch-tb-profiler", "perfetto",
)  # fmt: skip
_NOTE = """# What was expected, and what was seen

{note}

Say here: what you expected and what you saw (milliseconds a step, tokens a second); for a regression the earlier
figure, and the date or commit at which it was measured.
"""


@dataclass
class Bundle:
    """Entries in order, and how often each rule of `secrets` applied."""

    entries: dict[str, str] = field(default_factory=dict)
    replaced: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, text: str) -> None:
        """Adds a text without its secrets. A name that is taken gets a number."""
        text, counts = without_secrets(text, self._rules)
        self.replaced += counts
        stem, suffix = os.path.splitext(name)
        number = 2
        while name in self.entries:
            name, number = f"{stem}-{number}{suffix}", number + 1
        self.entries[name] = text

    def __post_init__(self) -> None:
        self._rules = rules()


def versions() -> str:
    """Of Python, the machine, and the packages that matter, as JSON."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    machine = {"system": platform.system(), "kernel": platform.release(), "machine": platform.machine(),
               "processors": os.cpu_count()}  # fmt: skip
    return json.dumps({"python": sys.version.split()[0], "machine": machine, "packages": found}, indent=2)


def environment() -> str:
    """The variables of docs/reference/variables.md that are set, as JSON; no others."""
    return json.dumps({name: value for name, value, _ in _known_variables.in_force()}, indent=2)


def collect(
    doctor: str,
    traces: Sequence[str] = (),
    telemetry: Sequence[str] = (),
    reproducers: Sequence[str] = (),
    note: str = "",
) -> Bundle:
    """Puts a bundle together.

    Args:
        doctor: what `kineto-spyre doctor` says.
        traces, telemetry, reproducers: paths.
        note: what was expected and what was seen.

    Raises:
        OSError: a file can't be read.
    """
    bundle = Bundle()
    bundle.add("expected.md", _NOTE.format(note=note or "(nothing was said with --note)"))
    bundle.add("versions.json", versions())
    bundle.add("environment.json", environment())
    bundle.add("doctor.txt", doctor)
    for path in traces:
        text = _text(path)
        name = pathlib.Path(path).name.removesuffix(".gz")
        bundle.add(f"trace/{name}", text)
        for made, content in _about(path):
            bundle.add(f"trace/{name}.{made}", content)
    for folder, paths in (("telemetry", telemetry), ("reproducer", reproducers)):
        for path in paths:
            bundle.add(f"{folder}/{pathlib.Path(path).name}", _text(path))
    return bundle


def _text(path: str) -> str:
    content = pathlib.Path(path).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    return content.decode("utf-8", "backslashreplace")


def _about(path: str) -> Iterator[tuple[str, str]]:
    """The check and the report of a trace, or why there is none."""
    from kineto_spyre.report import NoDeviceWork, make
    from kineto_spyre.traces import Unreadable, check

    try:
        yield "check.json", json.dumps(check(path), indent=2, default=str)
    except Unreadable as error:
        yield "check.txt", f"{path} {error}\n"
        return
    try:
        yield "report.txt", str(make(path))
    except NoDeviceWork as error:
        yield "report.txt", f"{path} {error}\n"


def write(bundle: Bundle, path: str, force: bool = False) -> None:
    """Writes the ZIP file: whole, or not at all.

    Raises:
        FileExistsError: it is there and `force` is not set.
        OSError: it can't be written.
    """
    if os.path.exists(path) and not force:
        raise FileExistsError(path)
    with new_file(path, force) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in bundle.entries.items():
            archive.writestr(name, text)
