"""What the plugin assumes of libaiupti, asked of the libaiupti that is there.

`selftest()` drives the library through its own callbacks, in a process of its own, while PyTorch works on the device;
judges what it saw (`judge`); and keeps it for the next sessions (`cache`). `kineto-spyre selftest` prints it.

    work      work on the device, through PyTorch
    probes    what is done with the library to find something out, in the child process (_child)
    records   what the records' bytes say, whatever their layout
    judge     from what was seen to what it means (judge_session: of a session; finding: one result)
    cache     what is kept for the next sessions
    report    the table, and the JSON for a report

Importing this imports neither torch nor a library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .._notices import SpyreProfilerError
from ._run import ALL_S, Result, run_probes
from .judge import COSTS, Finding, judge

__all__ = ["Finding", "Outcome", "selftest"]


@dataclass(frozen=True)
class Outcome:
    """What a selftest came to."""

    library: str  # the path; never in a report
    emulated: bool
    seconds: float
    result: Result
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        """Whether nothing was found that costs a trace anything."""
        return not any(finding.state == COSTS for finding in self.findings)


def selftest(
    library: str | None = None,
    emulated: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    seconds: float = ALL_S,
) -> Outcome:
    """Finds out what the plugin assumes. Opens neither the library nor a device in this process.

    Args:
        library: the path of a libaiupti; by default the one that a session would open.
        emulated: whether to test the emulated library, on the emulated device.
        progress: called with the name of each step.
        seconds: how long it may take in all.

    Raises:
        SpyreProfilerError: there is no library or no device to test with.
    """
    from .. import _library
    from .probes import PROBES

    if library is None:
        library = str(_library.EMULATED) if emulated else _library.choose()[0]
    begin = time.monotonic()
    result = run_probes(library, emulated, list(PROBES), progress, seconds)
    if result.unusable:
        raise SpyreProfilerError(result.unusable)
    return Outcome(library, emulated, time.monotonic() - begin, result, judge(result.facts, result.died))
