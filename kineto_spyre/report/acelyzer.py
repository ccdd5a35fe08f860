"""acelyzer (PyPI: aiu-trace-analyzer), IBM's analyser of Spyre traces: run on a trace, and what it found as facts.

In: a trace's path. Out: a dict that json.dumps takes, and the sections that show it. acelyzer runs twice, in a folder
of its own: once to verify (-V), once to refine the trace for TensorBoard (--tb --keep_names; without --keep_names it
takes digits out of names). It is started as a program and never imported, since it may live in another environment.

Errors: none of acelyzer's ends a report. That it is missing, exits with an error, does not end in time or writes what
can't be read is the fact `problem`, in its own words and named as its own.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from kineto_spyre.report.section import Section
from kineto_spyre.report.verdict import duration

TIMEOUT = 600.0  # seconds a run
MISSING = (
    "acelyzer is not installed. Install it with pip install 'kineto-spyre[analyze]', or in an environment of its own, "
    "and pass --acelyzer PATH."
)
_REFINED = "refined.pt.trace.json"
_TABLES = ("refined_summary.csv", "refined_active.csv", "refined_ts_analysis.csv")


class _Failed(Exception):
    """acelyzer did not do its work; the message is a sentence."""


def find() -> str | None:
    """acelyzer of this environment, or else of the PATH."""
    beside = shutil.which("acelyzer", path=os.path.dirname(sys.executable))
    return beside or shutil.which("acelyzer")


def analyze(
    trace: str | os.PathLike[str],
    command: str | None = None,
    ideal_cycles: str | None = None,
    keep: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """Runs acelyzer.

    Args:
        trace: Chrome JSON, plain or gzip.
        command: the program; found unless told.
        ideal_cycles: a directory of torch-spyre's compiler that holds ideal_cycles.json files; with it acelyzer adds
            the PT array's utilization.
        keep: a folder for what acelyzer writes; nothing is kept unless told.
        timeout: seconds that each of its two runs may take.

    Returns:
        `problem` (null, or the sentence that says what of acelyzer failed), `version`, `result` ("PASS" or "FAIL"),
        `tests`, `errors` and `warnings` (its findings: `finding`, `count`), `classes` (of the events that it
        classified: `count`, `duration` in ns), `counters` (that it added: `count`, `mean`, `largest`), `tables` (its
        CSV files that hold rows), `kept` (paths).
    """
    facts: dict[str, Any] = {
        "problem": None, "version": None, "result": None, "tests": [], "errors": [], "warnings": [], "classes": {},
        "counters": {}, "tables": {}, "kept": [],
    }  # fmt: skip
    command = command or find()
    if command is None:
        return {**facts, "problem": MISSING}
    with tempfile.TemporaryDirectory(prefix="kineto-spyre-acelyzer-") as folder:
        here = pathlib.Path(folder)
        try:
            before = _given(pathlib.Path(trace), here / "trace.json")
            facts["version"] = _run(command, ["--version"], here, timeout).strip() or None
            _run(command, ["-i", "trace.json", "-V"], here, timeout)
            facts.update(_verification(here / "report.json"))
            cycles = ["-c", os.path.abspath(ideal_cycles)] if ideal_cycles else []
            _run(command, ["-i", "trace.json", "-o", "refined.json", "--tb", "--keep_names", *cycles], here, timeout)
            facts.update(_refined(here / _REFINED, before))
            facts["tables"] = {name: rows for name in _TABLES if len(rows := _table(here / name)) > 1}
        except _Failed as error:
            facts["problem"] = str(error)
        if keep is not None:
            facts["kept"] = _keep(here, pathlib.Path(keep))
    return facts


def _given(trace: pathlib.Path, place: pathlib.Path) -> set[str]:
    """Puts the trace where acelyzer finds it under a name without commas or patterns; returns its counters' names."""
    content = trace.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    place.write_bytes(content)
    try:
        document = json.loads(content)
    except ValueError:  # cut off, say: acelyzer is to say what it makes of it
        return set()
    return {str(event.get("name")) for event in _events(document) if event.get("ph") == "C"}


def _run(command: str, arguments: list[str], here: pathlib.Path, timeout: float) -> str:
    """One run; returns what it wrote to stdout.

    Raises:
        _Failed: it could not be started, did not end in time, or ended with an error.
    """
    try:
        done = subprocess.run(
            [command, *arguments], cwd=here, capture_output=True, text=True, errors="replace", timeout=timeout,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _Failed(f"acelyzer did not finish within {timeout:g} s, so it was stopped.") from None
    except OSError as error:
        raise _Failed(f"acelyzer ({command}) can't be started: {error.strerror or error}.") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        last = said[-1][:300] if said else "nothing"
        raise _Failed(f"acelyzer ended with exit code {done.returncode}; its last line was: {last}")
    return done.stdout


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        raise _Failed(f"acelyzer did not write its file {path.name}.") from None
    except ValueError as error:
        raise _Failed(f"acelyzer wrote a {path.name} that is not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise _Failed(f"acelyzer wrote a {path.name} that is not a JSON object.")
    return value


def _verification(path: pathlib.Path) -> dict[str, Any]:
    report = _read(path)
    lists = {key: [one for one in report.get(key) or [] if isinstance(one, dict)]
             for key in ("test_results", "errors", "warnings")}  # fmt: skip
    findings = {key: [{"finding": str(one.get("finding", "")), "count": one.get("count")} for one in lists[key]]
                for key in ("errors", "warnings")}  # fmt: skip
    tests = [{"test": str(one.get("test", "")), "result": str(one.get("result", ""))} for one in lists["test_results"]]
    return {"result": str(report.get("result", "")), "tests": tests, **findings}


def _events(document: Any) -> list[dict[str, Any]]:
    events = document.get("traceEvents") if isinstance(document, dict) else None
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []


def _refined(path: pathlib.Path, before: set[str]) -> dict[str, Any]:
    classes: dict[str, dict[str, int]] = {}
    values: dict[str, list[float]] = {}
    for event in _events(_read(path)):
        args = event.get("args")
        if not isinstance(args, dict):
            continue
        if event.get("ph") == "X" and isinstance(args.get("class"), str) and isinstance(event.get("pid"), int):
            one = classes.setdefault(args["class"], {"count": 0, "duration": 0})
            one["count"] += 1
            one["duration"] += round(float(event.get("dur") or 0) * 1000)
        elif event.get("ph") == "C" and event.get("name") not in before:
            values.setdefault(str(event["name"]), []).extend(
                float(value) for value in args.values() if type(value) in (int, float)
            )
    counters = {name: {"count": len(found), "mean": sum(found) / len(found), "largest": max(found)}
                for name, found in values.items() if found}  # fmt: skip
    return {"classes": classes, "counters": counters}


def _table(path: pathlib.Path) -> list[list[str]]:
    """The rows of one of its CSV files, which are separated by tabs; the first is the heading."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip()]


def _keep(here: pathlib.Path, folder: pathlib.Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    kept = []
    for path in sorted(here.iterdir()):
        if path.is_file() and path.name != "trace.json":
            kept.append(str(folder / path.name))
            shutil.copy(path, kept[-1])
    return kept


def sections(facts: dict[str, Any], top: int) -> Iterator[Section]:
    """What is shown of a report's fact `acelyzer`; nothing if acelyzer was not asked."""
    said = facts.get("acelyzer")
    if not said:
        return
    sentences = [said["problem"]] if said["problem"] else []
    if said["result"]:
        sentences.append(f"acelyzer's verification: {said['result']}.")
    rows: list[tuple[str, ...]] = [(one["test"], one["result"], "") for one in said["tests"]]
    for kind in ("errors", "warnings"):
        rows += [(one["finding"], kind[:-1], str(one["count"] or "")) for one in said[kind]]
    yield Section("acelyzer", sentences, ("verified", "result", "count"), rows)
    if said["classes"]:
        yield Section("acelyzer: classes of events", [], ("class", "count", "total"), [
            (name, f"{one['count']:,}", duration(one["duration"]))
            for name, one in sorted(said["classes"].items(), key=lambda pair: -pair[1]["duration"])])  # fmt: skip
    if said["counters"]:
        yield Section("acelyzer: counters that it added", [], ("counter", "samples", "mean", "largest"), [
            (name, f"{one['count']:,}", f"{one['mean']:.4g}", f"{one['largest']:.4g}")
            for name, one in sorted(said["counters"].items())])  # fmt: skip
    for name, table in said["tables"].items():
        head, *rest = table
        yield Section(f"acelyzer: {name}", [], tuple(head), [tuple(row) for row in rest[:top]])
