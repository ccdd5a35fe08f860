"""`kineto-spyre trigger`: a profile of a program that runs, without a change to it."""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..on_demand import Answered, Listener, Request

SUMMARY = "profile a running program that was started with KINETO_USE_DAEMON=1"
DESCRIPTION = (
    "Asks running processes for a profile, waits for their traces, and checks each. The programs need no profiler in "
    "their code, only KINETO_USE_DAEMON=1 when they start. No daemon is needed; where dynolog runs, use its "
    "own command. Only processes of the same user are asked. Exit code: 0 every trace was written and "
    "has no faults, 1 a trace is "
    "missing, incomplete or faulty, 2 the usage was wrong or no such process asks."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "pids", nargs="*", type=_pid, default=[], metavar="PID", help="a process; its children are asked too"
    )
    who.add_argument("--all", action="store_true", help="every process of yours that can be asked")
    who.add_argument("--job", type=_pid, metavar="ID", help="the processes of this Slurm job on this machine")
    parser.add_argument(
        "--duration", type=_duration, default=500, metavar="TIME", help="how long to record: 500ms, 2s, 1min (500ms)"
    )
    parser.add_argument(
        "--iterations", type=_pid, default=0, metavar="N", help="record N steps of an optimizer instead of a duration"
    )
    parser.add_argument("--shapes", action="store_true", help="record the shapes of ops' inputs")
    parser.add_argument("--stacks", action="store_true", help="record the Python stacks of ops")
    parser.add_argument("--memory", action="store_true", help="record allocations")
    parser.add_argument("--output", default=".", metavar="FOLDER", help="where the traces go (the current folder)")
    parser.add_argument(
        "--timeout", type=_duration, default=30_000, metavar="TIME", help="how long to wait for a process (30s)"
    )


def run(options: argparse.Namespace) -> int:
    from ..on_demand import Request

    output = pathlib.Path(options.output)
    if not output.is_dir() or not os.access(output, os.W_OK):
        return _say(f"--output: {str(output)!r} is not a folder that can be written to.")
    chosen, trouble = _choose(options)
    for sentence in trouble:
        _say(sentence)
    if not chosen:
        return 2
    request = Request(
        options.duration, options.iterations, shapes=options.shapes, stacks=options.stacks, memory=options.memory
    )
    codes = [1] if trouble else [0]
    for folder in sorted({listener.folder for listener in chosen}, key=str):
        asked = [listener for listener in chosen if listener.folder == folder]
        answers, begun = _trigger(asked, folder, request, options.timeout / 1000)
        codes += [_report(answer, output) for answer in answers]
        _leave(begun, answers)
    return max(codes)


def _choose(options: argparse.Namespace) -> tuple[list[Listener], list[str]]:
    """The processes to ask, and a sentence for each that was named and can't be asked."""
    from ..on_demand import listeners, why_not

    known = listeners()
    if options.all or options.job is not None:
        chosen = [one for one in known if options.job is None or one.job == options.job]
        if chosen:
            return chosen, []
        which = "No process of yours" if options.job is None else f"No process of yours in Slurm job {options.job}"
        return [], [f"{which} asks Kineto's daemon. Start the program with KINETO_USE_DAEMON=1."]
    found: dict[int, Listener] = {}
    trouble = []
    for pid in options.pids:
        mine = [one for one in known if pid in (one.pid, *one.ancestors)]
        found |= {one.pid: one for one in mine}
        if not mine:
            trouble.append(why_not(pid))
    return list(found.values()), trouble


def _trigger(
    chosen: list[Listener], folder: str | None, request: Request, timeout_s: float
) -> tuple[list[Answered], pathlib.Path]:
    """What became of the request, and the folder that the traces were written to."""
    from ..on_demand import Daemon

    with Daemon(folder) as daemon:
        named = ", ".join(str(listener.pid) for listener in chosen)
        print(f"Waiting for {named} to ask; a process does so every few seconds.", flush=True)
        begun = pathlib.Path(tempfile.mkdtemp(prefix="kineto-spyre-"))  # newer Kinetos write on request to /tmp only
        try:
            answers = daemon.trigger(
                chosen,
                request.text(str(begun / "trace.json")),
                lambda pid: begun / f"trace_{pid}.json",
                timeout_s,
                timeout_s + request.duration_ms / 1000 + request.warmup_s,
            )
        except BaseException:  # Ctrl-C, or no memory
            _say(f"A process that took the request already writes its trace to {begun}.")
            raise
    if daemon.malformed:
        once = daemon.malformed == 1
        _say(
            f"{daemon.malformed} {'datagram' if once else 'datagrams'} could not be read as "
            f"{'a message' if once else 'messages'} of Kineto and got no answer."
        )
    return answers, begun


def _leave(begun: pathlib.Path, answers: Iterable[Answered]) -> None:
    """Removes the folder that traces were written to, unless one may still come: then says so."""
    late = [str(answer.pid) for answer in answers if answer.may_come]
    if late:
        whose = f"process {late[0]}" if len(late) == 1 else f"processes {', '.join(late)}"
        _say(f"If {whose} should still write what was asked for, it will be in {begun}.")
    else:
        shutil.rmtree(begun, ignore_errors=True)  # at most the half file of a process that ended


def _report(answer: Answered, output: pathlib.Path) -> int:
    """Moves the trace to where it was wanted, checks it, and says so. Returns the exit code."""
    from ..traces import Unreadable, check

    if answer.trace is None:
        _say(answer.trouble or "")
        return 1
    path = _free(output, f"trace_{answer.pid}_{time.strftime('%Y%m%d-%H%M%S')}")
    shutil.move(answer.trace, path)
    try:
        report = check(str(path))
    except Unreadable as error:
        _say(f"{path} {error}")
        return 1
    faults = sum(finding["count"] for finding in report["findings"] if finding["severity"] == "fault")
    print(f"{path}: {report['events']:,} events; {_verdict(faults, report)}", flush=True)
    return 0 if report["sound"] else 1


def _verdict(faults: int, report: dict[str, Any]) -> str:
    if report["sound"]:
        return "no faults." if report["spyre"] else "no faults, and no Spyre activity."
    return f"{faults:,} {'fault' if faults == 1 else 'faults'}; `kineto-spyre check` tells what is wrong."


def _free(folder: pathlib.Path, stem: str) -> pathlib.Path:
    """A name that no file has yet."""
    names: Iterable[str] = (f"{stem}{'' if n == 0 else f'_{n}'}.json" for n in range(1 << 20))
    return next(path for path in (folder / name for name in names) if not path.exists())


def _pid(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 0 < number < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 2147483647")
    return number


def _duration(text: str) -> int:
    from ..on_demand import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(sentence: str) -> int:
    print(f"kineto-spyre trigger: {sentence}", file=sys.stderr, flush=True)
    return 2
