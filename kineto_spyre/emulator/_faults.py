"""Faults on demand. csrc/emulator/runtime/include/spyre_emulator/faults.h says what each does; docs/reference/faults.md
is for users. `faults()` and KINETO_SPYRE_FAULTS take the same."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .. import _environment


class faults:
    """Makes the emulated Spyre go wrong, within a `with` block.

    >>> with faults("clock_offset=5ms,drop=3"): ...
    >>> with faults(clock_offset="1:-5ms", clock_drift=50, size="+40", fail=["enable", "flush"]): ...

    Values are numbers, durations ("250us", "20ms"; a plain number is in nanoseconds), True for what takes no number,
    lists for what takes several. A value for one device only is written "1:5ms". `every N` faults count from the
    block's start. At its end everything is mended: kernels that never ended end, lost devices come back.
    docs/reference/faults.md says what each does::

        clocks             clock_offset, clock_drift (ppm)
        device records     late, early, shuffle, duplicate, drop, torn, zero_start, backwards, size, bad_name,
                           unterminated, unknown_kind
        host records       unknown_id
        buffers            no_buffers, truncate, swap_buffers, complete_twice, complete_late, strange_thread
        functions          fail, null_record, hang_flush
        other releases     discard_at_disable, flush_when_disabled ("nothing" or "fail"), rotate_at_flush, end_code,
                           buffer_limit, buffer_per_thread, null_thread_ids, other_namespace, other_process,
                           wrong_thread_ids, api_field_order, attributes, short_compute, collectives, dmi_dmo, prepare
        devices            device_lost, hang, timeout, throttle

    Blocks nest: the inner one's faults are in force instead of the outer one's, not beside them.

    Raises:
        ValueError: a key or a value can't be read; the text names it.
    """

    def __init__(self, specification: str = "", **settings: Any) -> None:
        parts = [specification] if specification.strip() else []
        parts += [f"{key}={_text(value)}" for key, value in settings.items()]
        self.specification = ",".join(parts)
        self._before = ""

    def __enter__(self) -> faults:
        from .. import _emulator

        global _in_force
        _emulator.set_faults(self.specification)
        self._before, _in_force = _in_force, self.specification
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from .. import _emulator

        global _in_force
        _in_force = self._before
        _emulator.set_faults(_in_force)


_in_force = _environment.text("KINETO_SPYRE_FAULTS")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return "+".join(sorted(map(str, value)))
    return str(value)
