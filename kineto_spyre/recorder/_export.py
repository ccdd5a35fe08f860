"""`profile_spyre(export=...)`: a profile that goes from the recorder to a file, past torch.profiler. Imports torch."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

from .. import _notices
from .._notices import SpyreProfilerError
from ..profiler._profile import profile, synchronize
from . import _recorder
from ._recorder import Dump, Recorder

MEMORY_MIB = 256.0


class exported_profile(profile):  # as its base
    """Records from start() to stop() and writes the file then. Nothing of it is in PyTorch: no events(), no
    key_averages(). Where a recorder runs already, it is the one that is used.

    Attributes:
        dump: what the last stop() wrote.
    """

    def __init__(self, path: str | os.PathLike[str], memory_mib: float = MEMORY_MIB) -> None:
        super().__init__()
        self.path = pathlib.Path(path)
        self.dump: Dump | None = None
        self._memory_mib = memory_mib
        self._recorder: Recorder | None = None
        self._is_own = False
        self._begin_ns = 0

    def start(self) -> None:
        """Starts to record.

        Raises:
            SpyreProfilerError: the recorder could not be started. The text says what to do.
        """
        if self._recorder is not None:
            raise SpyreProfilerError("This profile runs already. Stop it first.")
        self._recorder = _recorder.running()
        self._is_own = self._recorder is None
        if self._recorder is None:
            self._recorder = _recorder.record(_recorder.MOST_SECONDS, memory_mib=self._memory_mib)
        self._begin_ns = time.time_ns()

    def stop(self) -> None:
        """Waits for the device, ends the recording, and writes the file. A profile that is not running stays as it is.

        Raises:
            SpyreProfilerError: the file can't be written.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            synchronize()
            seconds = (time.time_ns() - self._begin_ns) / 1e9
            self.dump = recorder.dump(self.path, since_ns=self._begin_ns, reason="profile")
        finally:
            if self._is_own:
                recorder.stop()
        if self.dump.seconds < 0.99 * seconds:
            more = (
                f"Give profile_spyre(export_mib=...) more than {self._memory_mib:g}."
                if self._is_own
                else "Start the recorder that runs with more seconds or memory_mib."
            )
            _notices.warn(
                f"{self.path} holds the last {self.dump.seconds:.3g} of {seconds:.3g} s, because the recorder's memory "
                f"was full. {more}"
            )
        for diagnostic in self.dump.diagnostics:
            if diagnostic.severity != "note":
                _notices.warn(diagnostic.sentence)

    def step(self) -> None:
        """Does nothing: there is no schedule. Steps are known by their record_function ranges."""


def _not_here(name: str) -> Any:
    def method(self: exported_profile, *arguments: Any, **keywords: Any) -> Any:
        raise SpyreProfilerError(
            f"{name}() needs PyTorch's events, which profile_spyre(export=...) does not make. Read the file "
            "(kineto-spyre report), or leave export out."
        )

    return method


for _name in (
    "events",
    "key_averages",
    "export_chrome_trace",
    "export_stacks",
    "export_memory_timeline",
    "add_metadata",
    "add_metadata_json",
    "toggle_collection_dynamic",
):
    setattr(exported_profile, _name, _not_here(_name))
