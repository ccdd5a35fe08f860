"""Traces: what a profiler wrote, read and judged. Needs no torch."""

from kineto_spyre.traces.checking import check
from kineto_spyre.traces.reading import Unreadable

__all__ = ["Unreadable", "check"]
