"""The plugin: what Python may ask of it. Never raises for what libaiupti does; see last_session_json()."""

from collections.abc import Callable
from typing import Any

def register(override: bool) -> str:
    """Registers the factory with PyTorch's PrivateUse1ProfilerRegistry, once.

    Returns "ours", or "other" if another factory holds the one place and override is False.
    """

def reach_kineto() -> None:
    """Has Kineto make the registered factory's profiler now, before any profile. Maps nothing, opens no device."""

def factory() -> str:
    """Whose factory is in force: "none", "ours" or "other"."""

def set_libraries(runtime: str, candidates: list[str]) -> bool:
    """Which libaiupti the first session opens: the first of `candidates` that loads (paths or sonames).

    runtime ("aiupti" or "emulated") is what traces and status() say. Opens nothing. Once a library has been opened it
    stays for the process: a later call for another runtime changes nothing and returns False.
    """

def set_warning_handler(handler: Callable[[str], None] | None) -> None:
    """Called once after a session's trace was processed, if there is something that the user must know: with a JSON
    array of objects with code, count and details."""

def set_settings_provider(provider: Callable[[], dict[str, Any]] | None) -> None:
    """Called when a session begins; returns what kineto_spyre.profiler._extension.session_settings() does."""

def read_settings() -> None:
    """Asks the provider now. Sessions that a thread of Kineto's begins (KINETO_USE_DAEMON) use what was read last,
    because such a thread must not wait for the GIL."""

def set_recording(on: bool) -> None:
    """Turns the recording of the running session off and on. Nothing happens without one."""

def is_recording() -> bool:
    """Whether a session with a Spyre is between configure and stop."""

def status_json() -> str:
    """A JSON object: runtime, library (path opened or null), library_trouble (diagnostics), factory, sessions, records
    (sizes by kind: built and seen), last_stop (what the last stop cost: records, reading_ns, handing_over_ns,
    activity_bytes)."""

def last_session_json() -> str:
    """A JSON object, or "" before the first session: the trace's `kineto_spyre` metadata
    (docs/reference/metadata.md)."""

def recorder_start(seconds: float, mib: float) -> str:
    """Starts the flight recorder. Returns a JSON array of diagnostics; recorder_status_json() says whether it runs."""

def recorder_stop() -> None:
    """Stops it. Nothing happens if it doesn't run."""

def recorder_dump(path: str, perfetto: bool, seconds: float, begin_ns: int, reason: str) -> str:
    """Writes what is kept (seconds and begin_ns: 0), or the last seconds of it, or what is since a time. Returns a JSON
    object: `error`, a sentence; or slices, arrows, kernels, records, bytes, begin_ns, end_ns, complete and
    diagnostics."""

def recorder_status_json() -> str:
    """A JSON object: running; and if it is, whole_from_ns, kept_bytes, kept_buffers, recycled_early, records_dropped,
    requests_without_buffer, uncounted_buffers, op_events_dropped."""
