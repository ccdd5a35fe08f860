"""What can be wrong with a trace: for each rule what was found, what it means, and what to do."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    fault: bool
    what: str
    means: str
    do: str


_RECORD = (
    "Look at the profiler's own count of invalid records; report the trace with this example to the tool that wrote it."
)
_WRITER = "Report the trace with this example to the tool that wrote it."
_EXPORT = (
    "Export the trace with the current kineto-spyre; a trace of another tool must be corrected before these readers "
    "take it."
)

RULES: dict[str, Rule] = {
    # Can it be read at all the way it is?
    "malformed-event": Rule(
        True,
        "events without what every event needs (ph, name, numeric ts, dur for X, pid, tid)",
        "Viewers drop such events silently, or stop.",
        _WRITER,
    ),
    "not-strict-json": Rule(
        True,
        "places that strict JSON forbids (NaN, raw control characters, bytes that are not UTF-8)",
        "Browsers and most tools reject the whole file because of one of them.",
        "Escape names and write finite numbers where the trace is written. " + _WRITER,
    ),
    "unbalanced": Rule(
        True,
        "begin (B) events without an end, or ends (E) without a begin",
        "The slice has no duration: viewers stretch it to the end of the trace or drop it.",
        "Usual cause: recording stopped in the middle. Stop the recording after the work has ended.",
    ),
    # Time
    "negative-duration": Rule(
        True,
        "events that end before they start",
        "The record was overwritten while it was read, or its two times come from two clocks.",
        _RECORD,
    ),
    "absurd-duration": Rule(
        True,
        "slices longer than a day",
        "An end time was never written, or is in another unit or of another clock.",
        _RECORD,
    ),
    "absurd-time": Rule(
        True,
        "slices more than a day away from the rest of the trace",
        "A start time of 0, or a time of another clock: viewers zoom out until nothing else can be seen.",
        _RECORD,
    ),
    "out-of-window": Rule(
        True,
        "device work more than a second before or after the profiler's own window",
        "It belongs to another session, or the device's clock was not aligned with the host's.",
        "Check the clock alignment that the profiler reports; leave out what was recorded before or after the window.",
    ),
    "long-kernel": Rule(
        False,
        "kernels longer than a second",
        "The time may be right, or a clock may have jumped.",
        "Compare with the wall time of the step that launched it.",
    ),
    # Tracks
    "device-overlap": Rule(
        True,
        "pieces of device work that overlap on one track",
        "One stream does one thing at a time: at least one of the times is wrong, and viewers hide one of the two.",
        "Sums over this track count the time twice. Look for a stream that was reused, or clocks of two devices mixed.",
    ),
    "track-overlap": Rule(
        True,
        "slices that start within another one on their track and end after it",
        "Tracks are drawn as nested calls: Perfetto hides such a slice, chrome://tracing prints it over the other.",
        "If the slices come from several threads or streams, they need tracks of their own. " + _WRITER,
    ),
    "estimate-overlap": Rule(
        False,
        "Python frames or synchronization spans that cross another slice on their track",
        "The profiler estimates where some of them begin or end; viewers hide or overprint such a slice.",
        "Nothing: sums over ops and device work are not affected.",
    ),
    "duplicate": Rule(
        True,
        "events that are in the trace twice",
        "Sums and counts are too high.",
        "Usual causes: two profilers at once, a buffer read twice, a trace merged with itself.",
    ),
    # Joining
    "kernel-before-launch": Rule(
        True,
        "pieces of device work that start before the call that launched them began",
        "That is impossible: the device's clock is not aligned with the host's, or the link is wrong.",
        "Turn on clock alignment (kineto-spyre: KINETO_SPYRE_CLOCK_ALIGN=auto) and compare the figures it reports.",
    ),
    "orphan": Rule(
        True,
        "pieces of device work whose launch is not in the trace",
        "No op gets this device time. HTA drops such kernels where there are two or more steps.",
        "The work was launched before the profile started, or the record of its launch was dropped: see the findings "
        "on what is missing.",
    ),
    "unlinked": Rule(
        True,
        "pieces of device work that carry no correlation id",
        "Nothing can join them to a launch.",
        _WRITER,
    ),
    "no-launches": Rule(
        False,
        "pieces of device work in a trace that holds no runtime or driver call at all",
        "Device work can't be joined to ops.",
        "Profile the runtime's calls too (for PyTorch: ProfilerActivity.CPU beside the device's).",
    ),
    "launch-without-work": Rule(
        False,
        "launching calls whose device work is not in the trace",
        "The work ended after the profile stopped, or its record was dropped.",
        "Synchronize the device before the profiler stops.",
    ),
    "missing-flow": Rule(
        True,
        "pieces of device work whose launch is there, but no arrow leads to them",
        "Viewers do not connect the launch with the work.",
        _WRITER,
    ),
    "flow-end": Rule(
        True,
        "ends of arrows at a device's work that start nowhere",
        "Viewers drop the arrow.",
        "Usual cause: the launch is not in the trace. " + _WRITER,
    ),
    "flow-stray": Rule(
        False,
        "arrows on the host that have one end",
        "Viewers draw nothing. Kineto writes one for every CUDA call, whether or not work followed.",
        "Nothing, unless launches whose work is missing are reported too.",
    ),
    "flow-reused": Rule(
        True,
        "arrows that start twice under one id",
        "Viewers and acelyzer mix up whose arrow it is.",
        _WRITER,
    ),
    "flow-unbound": Rule(
        True,
        "ends of arrows where no slice is",
        "Viewers drop the arrow, or attach it to a neighbor.",
        _WRITER,
    ),
    "link-differs": Rule(
        True,
        "pieces of device work whose External id is not their launch's",
        "Device time is given to the wrong op.",
        _WRITER,
    ),
    # What else a reader should know
    "empty": Rule(
        False,
        "no slices in this trace",
        "Nothing was recorded.",
        "Check that the profiler was not stopped before work ran.",
    ),
    "incomplete": Rule(
        True,
        "something that happened is missing from the trace",
        "Sums and counts are too low, and what is missing can look like idle time.",
        "Look at the metadata key kineto_spyre.",
    ),
    "counter-value": Rule(
        False, "counter events without a number", "Viewers show no curve, or stop.", "Counters take numbers only."
    ),
    # The contract with the readers of a Spyre's traces
    "contract-properties": Rule(
        True,
        "deviceProperties is not exactly one entry of type AIU",
        "acelyzer stops with an AssertionError at two, and takes the trace for another dialect at none.",
        _EXPORT,
    ),
    "contract-phase": Rule(
        True, "events of a phase other than X, M, s, f, i, C", "acelyzer raises.", "Leave such events out of the trace."
    ),
    "contract-category": Rule(
        True,
        "events of a device's process in a category that no reader knows",
        "HTA and TensorBoard count them as host events, or not at all.",
        _EXPORT,
    ),
    "contract-process": Rule(
        True,
        "devices whose process is not a device index with a process_name and a process_labels",
        "Tracks have no name; an empty label stops acelyzer with an IndexError.",
        _EXPORT,
    ),
    "contract-name": Rule(
        True,
        "names that readers take for something else",
        "Copies are Memcpy (HtoD|DtoH|PtoP), memsets Memset (Device); 'Cmpt Exec' without TS1..TS5 stops acelyzer.",
        _EXPORT,
    ),
    "contract-correlation": Rule(
        True,
        "device events whose args.correlation is not a whole number above 0",
        "acelyzer stops with a KeyError or TypeError.",
        _EXPORT,
    ),
    "contract-launch": Rule(
        True,
        "host events that share args.correlation with another one",
        "HTA copies the device's events once for each of them: its sums are too high.",
        "Only the launching call may carry args.correlation.",
    ),
    "contract-stream": Rule(
        True,
        "events whose args.stream is wrong (a whole number from 1 on device work, none on Memory (Release))",
        "HTA takes device work without it for host work, and loses step numbers at 0.",
        _EXPORT,
    ),
    "contract-track": Rule(
        True,
        "values of args.stream that are on more than one track of a device",
        "Overlap checks go by (pid, stream): acelyzer reports overlaps, and gives up beyond five.",
        "One value of args.stream for each track.",
    ),
    "contract-device": Rule(
        True,
        "kernels whose args.device is not a whole number from 0 to 63",
        "TensorBoard's Overview and GPU Kernel views stay empty.",
        _EXPORT,
    ),
    "contract-bytes": Rule(
        True,
        "copies or memsets whose args.bytes or memory bandwidth is not a number",
        "acelyzer and HTA crash on a string there.",
        _EXPORT,
    ),
    "contract-flow": Rule(
        True,
        "launch arrows (ac2g) with an id that fwdbwd arrows use too, or not above all of those",
        "acelyzer and others mix the two.",
        _EXPORT,
    ),
    "contract-arrow": Rule(
        True,
        "arrows on the host that have one end",
        "A Spyre's trace has arrows for device work alone: either the work is missing or the arrow is wrong.",
        _WRITER,
    ),
    "contract-counter": Rule(
        True, "counters named Power", "acelyzer stops with a KeyError.", "Use another name, such as pwr (W)."
    ),
    "contract-ts": Rule(
        True,
        "events with TS1..TS5 that are not five strings",
        "acelyzer stops.",
        "Put raw cycle counters into args.cycles_ts, an array of five.",
    ),
    "contract-rank": Rule(
        True,
        "distributedInfo without a whole number rank",
        "Tools that read one file a rank take this one for rank 0, or stop.",
        _EXPORT,
    ),
    "contract-tail": Rule(
        True,
        "a ] after the end of traceEvents",
        "torch-tb-profiler looks for the last one in the file: its Trace view stays empty.",
        "Put what holds it before traceEvents, or leave the bracket out.",
    ),
    "contract-ranges": Rule(
        False,
        "ranges (gpu_user_annotation) that begin while another one of their device and stream is open",
        "acelyzer -V calls each of them an overlap, wherever they are drawn.",
        "Give each track and level of ranges an args.stream of its own: a text, because HTA takes a number for work.",
    ),
    "contract-steps": Rule(
        False,
        "steps among a device's ranges (gpu_user_annotation)",
        "The stock torch-tb-profiler counts each of them as one more step in its Overview.",
        "Start TensorBoard where kineto-spyre is installed: its plugin corrects that.",
    ),
    "contract-memory": Rule(
        False,
        "[memory] events of Device Type 20",
        "The stock torch-tb-profiler answers HTTP 500 in its Memory view.",
        "Start TensorBoard where kineto-spyre is installed: its plugin corrects that.",
    ),
}
