"""The plugin: what Python may ask of it. Never raises for what libaiupti does; see last_session_json()."""

from collections.abc import Callable

def register(override: bool) -> str:
    """Registers the factory with PyTorch's PrivateUse1ProfilerRegistry, once.

    Returns "ours", or "other" if another factory holds the one slot and override is False.
    """

def factory() -> str:
    """Whose factory is in force: "none", "ours" or "other"."""

def set_libraries(runtime: str, candidates: list[str]) -> None:
    """Which libaiupti the first session opens: the first of `candidates` that loads (paths or sonames).

    runtime ("aiupti" or "emulated") is what traces and status() say. Opens nothing. Once a library has been opened it
    stays for the process; a later call for another one raises RuntimeError with a sentence.
    """

def set_warning_handler(handler: Callable[[str], None] | None) -> None:
    """Called with one sentence for each thing that the user must know, after a session's trace was processed."""

def status_json() -> str:
    """A JSON object: runtime, library (path opened or null), library_error, factory, sessions, records (sizes by kind:
    built and seen), environment read by the C++ side with its values, last_stop (what the last stop cost: records,
    reading_ns, handing_over_ns, activity_bytes)."""

def last_session_json() -> str:
    """A JSON object, or "" before the first session. Keys: captured, refused, lost, outside, overlaps, clock, warnings
    and the rest of the trace's `kineto_spyre` metadata."""
