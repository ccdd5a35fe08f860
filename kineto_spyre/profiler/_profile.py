"""`torch.profiler.profile` with what a Spyre needs, and without PyTorch's rough edges. Imports torch."""

from __future__ import annotations

import gzip
import importlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch.autograd.profiler
import torch.profiler
from torch.profiler import ProfilerAction, ProfilerActivity

from .. import _notices
from .._notices import SpyreProfilerError
from . import _runtimes
from ._backward_ranges import add_backward
from ._extension import backend_name, extension
from ._layers import Layer, Layers
from ._metadata import UserMetadata
from ._trace_file import TraceFile

if TYPE_CHECKING:
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler.profiler import _ITraceObserver

_lock = threading.Lock()
_running: weakref.ref[profile] | None = None  # between start() and stop(); guarded by _lock


def synchronize() -> None:
    """Waits for the work of all cards. (The profiler itself waits for the current one.)

    A card that can't be waited for must not break the profile, and one that was not used must not be opened by this: of
    a real backend only the current one is asked, and only if it is in use.
    """
    module = getattr(torch, backend_name() or "", None)
    if module is None or not hasattr(module, "synchronize"):
        return
    try:
        if (emulator := _runtimes.running()) is not None:
            for index in range(emulator.device_count()):
                module.synchronize(index)
        elif getattr(module, "is_initialized", lambda: True)():
            module.synchronize()
    except Exception as error:
        _notices.warn(
            f"The device could not be synchronized ({error}), so the trace may lack the end of its work. Call "
            "synchronize() in the program to see the error."
        )


class profile(torch.profiler.profile):  # torch's name for it
    """torch.profiler.profile, which waits for the device before each recording ends.

    >>> with kineto_spyre.profiler.profile() as prof:
    ...     y = x @ x
    >>> prof.export_chrome_trace("trace.json")

    Beyond the stock class: one profile at a time, said in an exception; a second stop() does nothing;
    toggle_collection_dynamic() works for PrivateUse1; a trace can be exported more than once; metadata may hold any
    text; a range around `backward()` has the device time of backward in events() and key_averages().

    Args:
        activities: what is recorded; all that PyTorch supports if None. A dict names the record kinds of an activity.
        schedule: from a step's number, counted from 0, to what the profiler does in it; all are recorded if None.
        on_trace_ready: called with this object when a recording has ended.
        record_shapes: records the sizes and types of each op's inputs.
        profile_memory: records what is allocated and freed, in bytes.
        with_stack: records the Python stack of each op.
        with_flops: estimates the floating-point operations of each op.
        with_modules: records the modules of each op (TorchScript only).
        experimental_config: as torch.profiler.profile takes it.
        execution_trace_observer: as torch.profiler.profile takes it.
        acc_events: keeps the events of all cycles of a schedule, not of the last one alone.
        custom_trace_id_callback: makes the trace's id.
        post_processing_timeout_s: how long PyTorch may take to process the events, in seconds; no limit if None.
        layers: what else joins the trace; `profile_spyre` has names for them.
        kwargs: what newer releases of PyTorch take besides.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: _ITraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        layers: Sequence[Layer] = (),
        **kwargs: Any,
    ) -> None:
        if custom_trace_id_callback is not None:
            kwargs["custom_trace_id_callback"] = custom_trace_id_callback
        if post_processing_timeout_s is not None:  # not in all releases of PyTorch that are supported
            kwargs["post_processing_timeout_s"] = post_processing_timeout_s
        super().__init__(
            activities=activities,
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            **kwargs,
        )
        self._layers = Layers(layers)
        self._user_metadata = UserMetadata()
        self._is_stopped = True
        self._owner = 0  # the process that started it
        self._exported: str | None = None  # the first file that this recording was written to
        self._torch_adds_metadata = False
        self._with_backward: Any = None  # the function events that add_backward() has seen

    def print_report(self, kernel: str | None = None) -> None:
        """Prints why each step took as long as it did (`kineto_spyre.report`), when the profile has stopped.

        Args:
            kernel: only what marked ops took (kineto_spyre.instrument) within kernels whose name holds this.
        """
        report = importlib.import_module("kineto_spyre.report").make(self)
        importlib.import_module("kineto_spyre.report.terminal").show(
            report.sections() if kernel is None else report.within(kernel)
        )

    def start(self) -> None:
        """Starts the profile.

        Raises:
            SpyreProfilerError: another profile runs in this process, on whatever thread.
        """
        global _running
        with _lock:
            running = _running() if _running is not None else None
            other = running is not None and running is not self and running._owner == os.getpid()
            if other or torch.autograd.profiler._is_profiler_enabled:
                raise SpyreProfilerError(
                    "Another profile runs in this process, and PyTorch can run one at a time. Stop it first."
                )
            _running = weakref.ref(self)
            self._owner = os.getpid()
        self._is_stopped = False
        try:
            super().start()
        except BaseException:
            self._release()
            raise

    def stop(self) -> None:
        """Stops the profile. A profile that is not running stays as it is."""
        if self._is_stopped:
            return
        super().stop()
        self._release()

    def _release(self) -> None:
        global _running
        self._is_stopped = True
        with _lock:
            if _running is not None and _running() is self:
                _running = None

    def start_trace(self) -> None:
        """Starts to record."""
        if self.acc_events and getattr(self.profiler, "_function_events", None):
            self._add_backward()  # before the events of the next cycle, whose times begin anew, join them
        self._exported = None
        self._torch_adds_metadata = True
        try:
            super().start_trace()
        finally:
            self._torch_adds_metadata = False
        self._layers.start()

    def stop_trace(self) -> None:
        """Waits for the device, then ends the recording."""
        synchronize()
        self._layers.stop()
        super().stop_trace()

    def _add_backward(self) -> None:
        events = self.profiler.function_events if self.profiler is not None else None
        if events is self._with_backward or events is None:
            return
        seen = set(map(id, self._with_backward or ()))
        add_backward([event for event in events if id(event) not in seen])
        self._with_backward = events

    def events(self) -> Any:
        """The events of the recording. A range around `backward()` has the device time of backward's own threads."""
        super().events()  # type: ignore[no-untyped-call]
        self._add_backward()
        return super().events()  # type: ignore[no-untyped-call]

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        """The events by name, as torch.profiler.profile groups them; device times as in `events()`."""
        if self.profiler is not None:
            self.events()
        return super().key_averages(*args, **kwargs)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Turns the recording of activities off and on again while the profile runs.

        Args:
            enable: whether they are recorded from now on.
            activities: CPU and PrivateUse1; the others as PyTorch takes them. Work that was launched before is waited
                for, so that it is recorded, or is not, as it was launched.
        """
        rest = set(activities)
        if ProfilerActivity.PrivateUse1 in rest and self.profiler is not None:
            rest.discard(ProfilerActivity.PrivateUse1)
            synchronize()
            extension().set_recording(enable)
        if rest:
            super().toggle_collection_dynamic(enable, rest)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds text to the trace's metadata.

        Raises:
            ValueError: the trace itself uses the key.
        """
        self._user_metadata.add(key, str(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a JSON value, given as text, to the trace's metadata.

        Raises:
            ValueError: the value is not JSON, or the trace itself uses the key.
        """
        if self._torch_adds_metadata:
            super().add_metadata_json(key, value)
        else:
            self._user_metadata.add_json(key, value)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Writes the trace, as JSON, or gzipped where the path ends by .gz. May be called more than once.

        Raises:
            OSError: the path can't be written. The trace is kept, and can be exported to another path.
            SpyreProfilerError: the trace was exported before, and that file is gone.
        """
        path = os.fspath(path)
        _require_writable(path)
        if use_python_export:
            _notices.warn(
                "PyTorch's Python exporter writes neither the names of the device's tracks nor kineto_spyre's "
                "metadata. Leave use_python_export out to have them."
            )
            super().export_chrome_trace(path, use_python_export=True)
            return
        if self._exported is not None:
            self._export_again(path)
            return
        if path.endswith(".gz"):
            with tempfile.TemporaryDirectory() as folder:
                plain = os.path.join(folder, "trace.json")
                super().export_chrome_trace(plain)
                self._complete(plain)
                _copy(plain, path)
        else:
            super().export_chrome_trace(path)
            self._complete(path)
        self._exported = os.path.abspath(path)

    def _complete(self, path: str) -> None:
        """Puts into the file what Kineto can't: what the layers add, and the user's metadata."""
        trace = TraceFile(path)
        trace.shared["profile"] = self
        events, about = self._layers.additions(trace) if self._layers else ([], {})
        trace.add({**about, **self._user_metadata.values}, events)

    def _export_again(self, path: str) -> None:
        assert self._exported is not None
        if not os.path.isfile(self._exported):
            raise SpyreProfilerError(
                f"This trace was exported to {self._exported}, which is gone, and PyTorch keeps no copy of it. "
                "Profile again."
            )
        if os.path.abspath(path) != self._exported:
            _copy(self._exported, path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with a metric, as flame graph tools read them.

        Args:
            path: the file to write.
            metric: "self_cpu_time_total", or the device's: "self_spyre_time_total" or "self_device_time_total".

        Raises:
            OSError: the path can't be written.
        """
        _require_writable(path)
        if metric in (f"self_{backend_name()}_time_total", "self_device_time_total"):
            metric = "self_privateuse1_time_total"
        super().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes the memory timeline of one device, as torch.profiler.profile does.

        Args:
            path: the file to write; its suffix tells the form.
            device: "spyre:1", say; without an index it is the first one.
        """
        if device is not None and device == backend_name():
            device = f"{device}:0"
        super().export_memory_timeline(path, device)


def _require_writable(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder} is not a folder, so the trace can't be written to {path}. Create it first.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder. Name a file in it.")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(f"{path} can't be written: permission denied. Choose another path.")


def _copy(source: str, target: str) -> None:
    """Copies a trace; each is gzipped if its name ends by .gz."""

    def opened(path: str, mode: str) -> Any:
        return gzip.open(path, mode) if path.endswith(".gz") else open(path, mode)

    with opened(source, "rb") as reader, opened(target, "wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
