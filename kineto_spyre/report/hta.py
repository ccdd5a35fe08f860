"""HTA (PyPI: HolisticTraceAnalysis) run on a trace, and what it found as facts.

In: a trace's path, and a Python that has HTA: mostly one of its own, because HTA needs pandas < 3. Out: a dict that
json.dumps takes, and the sections that show it. HTA gets a copy with CUDA's names (`traces.cuda_names`), since it finds
launches by them, and keeps the nanoseconds (HTA_DISABLE_NS_ROUNDING).

Errors: none of HTA's ends a report. That it is missing, ends with an error, does not end in time or writes what can't
be read is the fact `problem`, named as its own; where one of its analyses fails, the others are kept.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from kineto_spyre._notices import SpyreProfilerError
from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration
from kineto_spyre.traces import Unreadable
from kineto_spyre.traces.cuda_names import renamed

TIMEOUT = 600.0  # seconds
# Runs in HTA's Python, which has no kineto_spyre.
_PROGRAM = """
import json, sys
from importlib.metadata import version
from hta.trace_analysis import TraceAnalysis

trace, out = sys.argv[1:]
with open(trace, "rb") as file:
    events = json.load(file)["traceEvents"]
steps = sorted((one["ts"], one["dur"], one["name"]) for one in events if one.get("cat") == "user_annotation"
               and str(one.get("name")).startswith("ProfilerStep#"))
found = {"version": version("HolisticTraceAnalysis"), "problems": []}
analysis = TraceAnalysis(trace_files={0: trace}, trace_dir="/", include_last_profiler_step=True)


def part(name, work):
    try:
        found[name] = work()
    except Exception as error:
        found["problems"].append(f"HTA's {name.replace('_', ' ')} failed: {type(error).__name__}: {error}")


def critical_path():
    longest = max(range(len(steps)), key=lambda place: steps[place][1])
    path, whole = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=longest)
    if not whole:
        raise ValueError("it found no path")
    edges = path.get_critical_path_breakdown()
    shares = edges.groupby("bound_by")["duration"].sum() / edges["duration"].sum()
    return {"step": steps[longest][2], "bound_by": {name: float(one) for name, one in shares.items() if name and one}}


def idle():
    rows = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0].to_dict("records")
    return [{"stream": int(row["stream"]), "cause": str(row["idle_category"]), "us": float(row["idle_time"])}
            for row in rows]


def time():
    row = analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0]
    return {name: float(row[name + "_time(us)"]) for name in ("idle", "compute", "non_compute")}


def launches():
    rows = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    return {"count": len(rows), "delay": {"median": float(rows["launch_delay"].median()),
                                          "largest": float(rows["launch_delay"].max())}}


part("time", time)
part("idle", idle)
part("launches", launches)
if steps:
    part("critical_path", critical_path)
with open(out, "w") as file:
    json.dump(found, file)
"""


def analyze(trace: str | os.PathLike[str], python: str, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Runs HTA.

    Args:
        trace: Chrome JSON, plain or gzip.
        python: the Python of an environment that has HTA.
        timeout: seconds that it may take.

    Returns:
        `problem` (null, or the sentences that say what of HTA failed), `version`, and in us what it found: `time`
        (`idle`, `compute`, `non_compute`), `idle` (each: `stream`, `cause`, `us`), `launches` (`count`, `delay`),
        `critical_path` of the longest step (`step`, `bound_by`: shares). What failed is null.
    """
    facts: dict[str, Any] = {
        "problem": None, "version": None, "time": None, "idle": None, "launches": None, "critical_path": None
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kineto-spyre-hta-") as folder:
        given, out = pathlib.Path(folder, "trace.json"), pathlib.Path(folder, "out.json")
        try:
            given.write_bytes(b"".join(renamed(trace)))
        except (Unreadable, SpyreProfilerError) as error:
            return {**facts, "problem": f"HTA was not started because the trace can't be given CUDA's names: {error}"}
        problem = _run([python, "-c", _PROGRAM, str(given), str(out)], timeout)
        if problem is None:
            try:
                found = json.loads(out.read_bytes())
                problem = " ".join(map(str, found.pop("problems"))) or None
                facts.update({name: found.get(name) for name in facts})
            except (OSError, ValueError, KeyError, AttributeError, TypeError):
                problem = "HTA wrote nothing that can be read."
        return {**facts, "problem": problem}


def _run(command: list[str], timeout: float) -> str | None:
    """One run; returns what went wrong."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
            stdin=subprocess.DEVNULL, env=os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"HTA did not finish within {timeout:g} s, so it was stopped."
    except OSError as error:
        return f"HTA's Python ({command[0]}) can't be started: {error.strerror or error}."
    if done.returncode == 0:
        return None
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    last = said[-1][:300] if said else "nothing"
    if "No module named 'hta'" in last:
        return (
            f"HTA is not installed for {command[0]}. Install it in an environment of its own with pip install "
            "HolisticTraceAnalysis 'pandas<3', and pass --hta with that environment's python."
        )
    return f"HTA ended with exit code {done.returncode}; its last line was: {last}"


def sections(facts: dict[str, Any]) -> Iterator[Section]:
    """What is shown of a report's fact `hta`; nothing if HTA was not asked."""
    said = facts.get("hta")
    if not said:
        return
    sentences = [said["problem"]] if said["problem"] else []
    if path := said["critical_path"]:
        shares = sorted(path["bound_by"].items(), key=lambda pair: -pair[1])
        told = ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for name, share in shares)
        sentences.append(f"HTA's critical path of {path['step']}, the longest step: {told or 'empty'}.")
    if launches := said["launches"]:
        count, delay = launches["count"], launches["delay"]
        sentences.append(
            f"{count:,} launch{'' if count == 1 else 'es'}; from the call's end to the start of the work "
            f"{duration(delay['median'] * 1000)} (median), {duration(delay['largest'] * 1000)} at most."
        )
    rows: list[tuple[str, ...]] = [
        (name.replace("_", " "), duration(us * 1000)) for name, us in (said["time"] or {}).items()
    ]
    rows += [(f"stream {one['stream']} idle: {one['cause']}", duration(one["us"] * 1000)) for one in said["idle"] or ()]
    yield Section("HTA", sentences, ("time", "total"), rows)
