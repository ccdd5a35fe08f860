"""``kineto-spyre check TRACE``: is this trace true, and can the tools that read traces read it?

It judges any Chrome trace that a profiler wrote (ours, another tool's, a CUDA run's), plain or gzip, and knows nothing
of PyTorch.

The way through: `collecting` reads the file once, block by block, and keeps numbers only (`packed`), so that a trace of
any size fits into little memory; `judging` joins and sweeps them; `contract` judges a Spyre's trace for its readers;
`completeness` asks what the profiler itself says is missing. `rules` holds the words, `findings` the counts.

Times are held in whole nanoseconds. A trace whose times have no fraction was rounded to microseconds: there, and where
the times are so large that a double no longer resolves a nanosecond, overlaps and order are judged with that tolerance.

Severity: a *fault* makes the trace wrong, or incomplete, or a reader fail; a *note* is worth knowing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from kineto_spyre.traces.collecting import Collected, Collecting
from kineto_spyre.traces.completeness import missing
from kineto_spyre.traces.contract import judge_contract
from kineto_spyre.traces.judging import judge
from kineto_spyre.traces.opening import opened


def check(path: str | os.PathLike[str], progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Judges one trace.

    Args:
        path: the file.
        progress: called now and then with the part that has been read, 0 to 1.

    Returns:
        The report, as `kineto-spyre check --json` prints it.

    Raises:
        Unreadable: the file is no trace, or is cut off; the text says why.
    """
    with opened(path) as stream:
        blocks = Collecting(stream)
        collected = blocks.collect(lambda: progress(stream.progress) if progress is not None else None)
    findings = collected.findings
    if blocks.offences:
        findings.say("not-strict-json", {"name": ", ".join(sorted(blocks.offences))}, sum(blocks.offences.values()))
    judge(collected)
    findings.incomplete = missing(blocks.metadata)
    judge_contract(collected, blocks.metadata, blocks.bracket)
    return _report(os.fspath(path), blocks, collected)


def _report(trace: str, blocks: Collecting, collected: Collected) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for track in collected.tracks:
        counts.update(track.counts)
    told = collected.findings.told()
    return {
        "trace": trace,
        "sound": not any(finding["severity"] == "fault" for finding in told),
        "complete": not collected.findings.incomplete,
        "bytes": blocks.bytes,
        "events": blocks.events,
        "tracks": sum(1 for track in collected.tracks if track.runs),
        "devices": sorted(map(str, collected.device_pids)),
        "spyre": collected.spyre,
        "slices": {category or "(none)": count for category, count in sorted(counts.items())},
        "findings": told,
    }
