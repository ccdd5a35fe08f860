"""What the readers of a Spyre's trace (acelyzer, HTA, TensorBoard) need of the trace as a whole; not judged for another
device's trace. What a single event shows was said while it was collected, and is taken back here if need be."""

from __future__ import annotations

from typing import Any

from kineto_spyre.traces.collecting import Collected
from kineto_spyre.traces.findings import is_whole

_CATEGORIES = {
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "privateuse1_runtime",
    "privateuse1_driver",
}  # that readers know on a Spyre's tracks


def judge_contract(collected: Collected, metadata: dict[str, Any], bracket: tuple[str, Any] | None) -> None:
    """Adds what was found to `collected.findings`. `bracket`: key and value of the metadata with the last ]."""
    findings = collected.findings
    properties = metadata.get("deviceProperties")
    entries = properties if isinstance(properties, list) else []
    if metadata.get("kineto_spyre") is not None or any(_is_aiu(entry) for entry in entries):
        collected.spyre = True
    if not collected.spyre:
        for rule in [rule for rule in findings if rule.startswith("contract-")]:
            del findings[rule]
        return
    findings.pop("flow-stray", None)  # contract-arrow says it
    if len(entries) != 1 or not _is_aiu(entries[0]):
        findings.say("contract-properties", {"name": "deviceProperties", "entries": len(entries)})
    if collected.lowest_ac2g is not None and collected.lowest_ac2g[0] <= collected.highest_fwdbwd:
        findings.say("contract-flow", collected.lowest_ac2g[1] | {"id": collected.lowest_ac2g[0]})
    _tracks(collected)
    _ranges(collected)
    info = metadata.get("distributedInfo")
    if info is not None and not (isinstance(info, dict) and is_whole(info.get("rank"), 0)):
        findings.say("contract-rank", {"name": "distributedInfo"})
    if bracket is not None:
        findings.say("contract-tail", {"name": bracket[0]}, words=_bracket_in(*bracket))


def _is_aiu(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "AIU"


def _tracks(collected: Collected) -> None:
    say = collected.findings.say
    for pid, example in collected.device_pids.items():
        if not is_whole(pid, 0) or not collected.process_names.get(pid) or not collected.labels.get(pid):
            say("contract-process", example)
    for track in collected.tracks:
        if track.pid in collected.device_pids:
            for category in sorted(track.counts.keys() - _CATEGORIES):
                where = {"name": None, "category": category, "pid": track.pid, "tid": track.tid}
                say("contract-category", where, track.counts[category])


def _ranges(collected: Collected) -> None:
    for flat in collected.ranges.values():
        until = -(1 << 63)
        for start, end, number, name in sorted(zip(flat[0::4], flat[1::4], flat[2::4], flat[3::4])):
            if start < until:
                collected.findings.say("contract-ranges", collected.example(number, start, name))
            until = max(until, end)


def _bracket_in(key: str, value: Any) -> dict[str, str]:
    """What it is that holds the bracket, and what to do about it."""
    if key == "traceName":
        return {
            "what": "a ] in the trace's file name, which the writer repeats after the end of traceEvents",
            "do": "Export the trace to a path without brackets.",
        }
    if isinstance(value, str):
        return {
            "what": f"a ] in the text of the metadata key {key}, after the end of traceEvents",
            "do": "Write the text without brackets, or put the key before traceEvents.",
        }
    return {
        "what": f"a list in the metadata key {key}, after the end of traceEvents",
        "do": "Put the key before traceEvents, or make its value a text without brackets.",
    }
