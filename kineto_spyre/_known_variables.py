"""The environment variables that matter when a program for a Spyre is profiled: PyTorch's, torch-spyre's, those of the
runtime below it, aiu-smi's, acelyzer's, and this package's own. One table: `kineto-spyre doctor` and
docs/reference/variables.md are made of it.

In: nothing. Out: rows of text, each with what the variable does and what it costs. This package's own rows are those of
`_environment.VARIABLES`. What the other projects' variables do is what their public documentation says; costs that are
not told there are told as a kind (time, disk, output), without a figure.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from . import _environment


class Row(NamedTuple):
    """A variable, or one value of it (`TORCH_LOGS=recompiles`)."""

    tool: str
    setting: str
    effect: str
    cost: str

    @property
    def variable(self) -> str:
        """The variable's name."""
        return self.setting.partition("=")[0]


NOTHING = _environment.NOTHING
_OTHERS = (
    Row("PyTorch", "TORCH_LOGS=recompiles", "prints each recompilation with the guard that failed", "output"),
    Row("PyTorch", "TORCH_LOGS=graph_breaks", "prints each graph break with its line and reason", "output"),
    Row("PyTorch", "TORCH_LOGS=perf_hints", "prints what kept Inductor from a faster kernel", "output"),
    Row("PyTorch", "TORCH_LOGS=+inductor", "prints Inductor's passes in detail", "much output, slower compilation"),
    Row("PyTorch", "TORCH_LOGS=output_code", "prints the code that Inductor generated", "much output"),
    Row("PyTorch", "TORCH_TRACE=FOLDER", "writes the structured log of compilation there, for tlparse",
        "disk; slower compilation"),
    Row("PyTorch", "TORCH_COMPILE_DEBUG=1", "writes graphs and code of each compilation to torch_compile_debug",
        "disk; slower compilation"),
    Row("PyTorch", "INDUCTOR_PROVENANCE=1", "keeps which source nodes each kernel was made of, for kineto-spyre "
        "annotate", "slower compilation"),
    Row("PyTorch", "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1", "compiles again, so that no phase is hidden by a cache",
        "every compilation runs in full"),
    Row("PyTorch", "TORCHINDUCTOR_CACHE_DIR=FOLDER", "where compiled code is kept", "disk"),
    Row("PyTorch", "TORCH_DEVICE_BACKEND_AUTOLOAD=0", "loads no backend when torch is imported, nor this plugin",
        "no Spyre and no profile of one, until they are imported"),
    Row("PyTorch", "KINETO_LOG_LEVEL=6", "silences Kineto's own messages", "its warnings are hidden, too"),
    Row("PyTorch", "KINETO_USE_DAEMON=1", "lets a daemon start profiles in this process (kineto-spyre trigger needs "
        "none)", "a thread that asks the daemon"),
    Row("torch-spyre", "TORCH_LOGS=+torch_spyre.inductor", "prints torch-spyre's part of a compilation",
        "much output, slower compilation"),
    Row("torch-spyre", "TORCH_SPYRE_DEBUG=1", "prints what torch-spyre does", "much output, slower program"),
    Row("torch-spyre", "TORCH_SPYRE_DOWNCAST_WARN=0", "hides warnings of 64-bit integers that become 32-bit ones",
        "such a loss goes unseen"),
    Row("torch-spyre", "TORCH_SPYRE_TIMING=1", "times the passes of torch-spyre's compiler frontend",
        "slower compilation"),
    Row("torch-spyre", "TORCH_SPYRE_TIMING_OUT=FILE", "where these times are written, a file a process", "disk"),
    Row("torch-spyre", "TORCH_SPYRE_PROVENANCE_PATH=FILE", "where spyre_provenance.json is written, for kineto-spyre "
        "annotate and report --provenance", "disk; slower compilation"),
    Row("torch-spyre", "TORCH_SPYRE_FFDC=1", "writes a report when a compilation or a run fails", "disk, on a failure"),
    Row("torch-spyre", "DUMP_SPYRE_CODE=1", "writes the code of compiled bundles", "disk; slower compilation"),
    Row("torch-spyre", "SENCORES=N", "compiles for this many of the 32 cores", "slower kernels with fewer cores"),
    Row("torch-spyre", "LOCAL_RANK=N", "which card this process uses", NOTHING),
    Row("flex", "FLEX_DEVICE=PF|VF|MOCK", "which kind of device the runtime opens; MOCK opens none", NOTHING),
    Row("flex", "AIU_WORLD_SIZE=N", "how many cards are used at most", NOTHING),
    Row("flex", "SPYRE_DEVICES=LIST", "which cards are used, by index", NOTHING),
    Row("flex", "DT_DEEPRT_VERBOSE=0", "silences the runtime, as traces for acelyzer should have it", NOTHING),
    Row("flex", "DTLOG_LEVEL=error", "silences the compiler's backend", "its warnings are hidden, too"),
    Row("aiu-smi", "SENLIB_DEVEL_CONFIG_FILE=FILE", "lets the driver collect hardware counters; aiu-smi needs it",
        "the counters are sampled while the program runs"),
    Row("aiu-smi", "DTCOMPILER_KEEP_EXPORT=true", "keeps what the compiler exports: aiu-smi's rsvmem and acelyzer's "
        "utilization need it", "disk"),
    Row("aiu-smi", "DEEPRT_EXPORT_DIR=FOLDER", "where exports go; the same for the program and for aiu-smi", "disk"),
    Row("acelyzer", "DTCOMPILER_EXPORT_DIR=FOLDER", "where the compiler exports what acelyzer reads with its option -c",
        "disk"),
    Row("build", "LIBAIUPTI_INSTALL_DIR=FOLDER", "builds kineto-spyre with the SDK's header in that folder", NOTHING),
)  # fmt: skip


def rows() -> list[Row]:
    """All rows, this package's own first."""
    own = [Row("kineto-spyre", one.name, _own_effect(one), one.cost) for one in _environment.VARIABLES]
    return [*own, *_OTHERS]


def _own_effect(variable: _environment.Variable) -> str:
    return f"{variable.meaning} ({variable.values}; default: {variable.default})"


def in_force(environment: Mapping[str, str] = os.environ) -> list[tuple[str, str, list[Row]]]:
    """Each variable of the table that is set: its name, its value, and the rows that are about that value."""
    found: dict[str, list[Row]] = {}
    for row in rows():
        if row.variable in environment:
            found.setdefault(row.variable, []).append(row)
    return [(name, environment[name], _about(environment[name], mine)) for name, mine in found.items()]


def _about(value: str, mine: list[Row]) -> list[Row]:
    """Where the table has a row a value, those of the values that are set; `TORCH_LOGS` takes a list of them."""
    if len(mine) == 1:
        return mine
    chosen = {one.strip().lstrip("+-") for one in value.split(",")}
    return [row for row in mine if row.setting.partition("=")[2].lstrip("+") in chosen]
