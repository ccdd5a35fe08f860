"""Switching the emulated machine on, and its devices below PyTorch."""

from __future__ import annotations

import atexit
import importlib.util
import operator
import os
import sys
import tempfile
import time as _time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import types

TIMES = ("modelled", "measured")
COPIES = {"HtoD": 1, "DtoH": 2, "PtoP": 3}
DTYPES = {"float16": 0, "bfloat16": 0, "float32": 1, "float8": 2, "int8": 3, "other": 4}


def _native() -> types.ModuleType:
    """The extension; maps libspyre_emulator at the first call."""
    from .. import _emulator

    return _emulator


def enable(
    devices: int = 1,
    time: str = "modelled",
    seed: int | None = None,
    force: bool = False,
    memory_bytes: int | None = None,
    metrics: bool | str | os.PathLike[str] | None = None,
) -> None:
    """Starts an emulated machine, makes it PyTorch's device "spyre", and its libaiupti the one that is profiled.

    Calling it again with the same arguments changes nothing. Processes that are started by spawn or forkserver do not
    inherit it; they start with KINETO_SPYRE_EMULATE=<devices> in the environment.

    Args:
        devices: How many, 1 to 8.
        time: "modelled": work lasts what a roofline of Spyre's public figures says (`kineto-spyre device` prints it).
            "measured": a kernel lasts what its CPU execution took.
        seed: With one, durations, cycle stamps and the gaps between kernels that were queued back to back are the same
            in every run. 0 to 2**64 - 1.
        force: Emulate although torch-spyre is installed.
        memory_bytes: A device's memory; 4 GiB of address space by default, of which only what is touched takes memory.
        metrics: A directory (True: the temporary one) for a metrics file of each card, as a real runtime writes it:
            aiu-smi and kineto_spyre.telemetry read it, and Device.energy() tells the truth from then on. None leaves
            this as it is, False ends it.

    Raises:
        ValueError: An argument makes no sense, or differs from that of a machine in use.
        RuntimeError: torch-spyre is installed, or another backend holds PrivateUse1. The sentence says what to do.
    """
    if time not in TIMES:
        raise ValueError(f"time={time!r}: expected 'modelled' or 'measured'")
    devices = _whole("devices", devices, 1, 8)
    if seed is not None:
        seed = _whole("seed", seed, 0, 2**64 - 1)
    memory = 0 if memory_bytes is None else _whole("memory_bytes", memory_bytes, 128, 2**46)
    _refuse_beside_others(force)
    from ..profiler._extension import require_torch

    require_torch()  # before _device, whose C++ is for one release

    native = _native()
    if not native.is_initialized():
        atexit.register(_wait_for_work)
    native.init(devices=devices, memory_bytes=memory, measured=time == "measured", seed=seed)
    if metrics is not None:
        directory = tempfile.gettempdir() if metrics is True else metrics
        native.write_metrics(os.fsdecode(directory) if directory else None)
    from . import _torch

    _torch.install(time=time)
    import kineto_spyre

    kineto_spyre.enable(runtime="emulated")


def _refuse_beside_others(force: bool) -> None:
    if not force and ("torch_spyre" in sys.modules or importlib.util.find_spec("torch_spyre") is not None):
        raise RuntimeError(
            "torch-spyre is installed, so a real Spyre may be in use here and the emulated one stays off. Use an "
            "environment without torch-spyre, or call kineto_spyre.emulator.enable(force=True)."
        )
    import torch

    backend = torch._C._get_privateuse1_backend_name()
    ours = sys.modules.get(f"{__package__}._device_module")
    if backend != "privateuseone" and (ours is None or getattr(torch, backend, None) is not ours):
        raise RuntimeError(
            f"PyTorch's PrivateUse1 device is {backend!r} in this process already, and there is room for one. Use the "
            "emulated Spyre in a process that does not load that backend."
        )


def metrics_files() -> list[str]:
    """The metrics file of each card of this process's machine; empty unless enable(metrics=...) asked for them."""
    native = _native()
    return [path for index in range(device_count()) if (path := str(native.metrics_path(index)))]


def _wait_for_work() -> None:
    """Python functions that still wait for their turn on a device need the interpreter. Metrics files go."""
    native = _native()
    if native.is_initialized():  # not in the child of a fork
        native.write_metrics(None)
    for index in range(native.device_count()):
        try:
            native.synchronize(index)
        except (RuntimeError, TimeoutError):
            pass  # lost, or hanging: a fault that was asked for


def is_enabled() -> bool:
    """Whether this process has an emulated machine. False in the child of a fork."""
    native = sys.modules.get("kineto_spyre._emulator")
    return native is not None and bool(native.is_initialized())


def device_count() -> int:
    """How many devices the machine has; 0 if there is none."""
    return int(_native().device_count()) if is_enabled() else 0


def describe_model() -> str:
    """The cost model: every number that durations come from, and its source."""
    return str(_native().describe_model())


def _whole(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: expected a whole number from {least} to {most}") from None
    if not least <= number <= most:
        raise ValueError(f"{name}={number}: expected a whole number from {least} to {most}")
    return number


class Energy(NamedTuple):
    """What the work of one name took above idle: joules, how many pieces, and how long they ran together."""

    joules: float
    pieces: int
    ns: int


class Device:
    """One device of the emulated machine, below PyTorch: for tests that need exact work and no model.

    Streams are numbered from 1 to 1024 and made when they are first used. 1 is the default stream, n + 1 is PyTorch's
    stream with the id n. Work on a stream runs in order, streams run concurrently, and submitting waits for nothing.
    Every method may be called from any thread and lets other Python threads run while it waits.

    Args:
        index: Which device of the machine.

    Raises:
        ValueError: An argument makes no sense.
        MemoryError: The device's memory is full.
        RuntimeError: There is no emulated machine, or the device is lost (a fault that was asked for).
        TimeoutError: A wait for a kernel that never ends (a fault that was asked for).
    """

    def __init__(self, index: int = 0) -> None:
        if not is_enabled():
            raise RuntimeError("There is no emulated machine; call kineto_spyre.emulator.enable() first.")
        count = device_count()
        self.index = _whole("the device's index", index, 0, count - 1)

    def __repr__(self) -> str:
        return f"Device({self.index})"

    def launch(
        self,
        name: str,
        ns: int | None = None,
        stream: int = 1,
        count: int = 1,
        *,
        flops: float = 0.0,
        bytes_read: int = 0,
        bytes_written: int = 0,
        dtype: str = "float16",
        watts: float | None = None,
        work: Callable[[], Any] | None = None,
    ) -> None:
        """Launches a kernel that lasts exactly `ns` nanoseconds, or, without ns, what the model says of the rest.

        Args:
            name: The kernel's name in the trace.
            ns: How long the kernel lasts, in nanoseconds.
            stream: The stream's number, 1 to 1024.
            count: That many equal kernels in a row under one launch, up to 2**31 - 1.
            flops: Floating-point operations, for the model.
            bytes_read: Bytes, for the model.
            bytes_written: Bytes, for the model.
            dtype: The type that the kernel computes in, for the model: a key of DTYPES.
            watts: What it draws above idle while it runs; by the power model if None.
            work: Called on the device's own thread when the stream comes to the kernel. What it raises is printed. It
                must not wait for the device.
        """
        if dtype not in DTYPES:
            raise ValueError(f"dtype={dtype!r}: expected one of {', '.join(DTYPES)}")
        _native().launch(
            device=self.index,
            stream=_stream(stream),
            name=name,
            ns=-1 if ns is None else _whole("ns", ns, 0, 10**15),
            count=_whole("count", count, 1, 2**31 - 1),
            flops=flops,
            bytes_read=_whole("bytes_read", bytes_read, 0, 2**63),
            bytes_written=_whole("bytes_written", bytes_written, 0, 2**63),
            dtype=DTYPES[dtype],
            watts=0.0 if watts is None else _watts(watts),
            work=work,
        )

    def copy(self, kind: str, nbytes: int, stream: int = 1, blocking: bool = False) -> None:
        """A copy that takes its time and moves nothing. kind: "HtoD", "DtoH" or "PtoP"."""
        if kind not in COPIES:
            raise ValueError(f"kind={kind!r}: expected one of {', '.join(COPIES)}")
        _native().copy(self.index, _stream(stream), COPIES[kind], _size(nbytes), blocking)

    def memset(
        self, nbytes: int, stream: int = 1, address: int | None = None, value: int = 0, blocking: bool = False
    ) -> None:
        """A fill. Without an address it takes its time and writes nothing."""
        _native().fill(
            self.index, _stream(stream), address or 0, _whole("value", value, 0, 255), _size(nbytes), blocking
        )

    def alloc(self, nbytes: int, stream: int = 1) -> int:
        """The address of new device memory; 0 bytes have one, too."""
        return int(_native().alloc(self.index, _stream(stream), _size(nbytes)))

    def free(self, address: int) -> None:
        """Gives memory back. Does not wait for work that may still use it."""
        _native().free(self.index, _whole("address", address, 0, 2**64 - 1))

    def synchronize(self, stream: int | None = None) -> None:
        """Waits, in real time, until the device (or one stream of it) is done."""
        if stream is None:
            _native().synchronize(self.index)
        else:
            _native().synchronize_stream(self.index, _stream(stream))

    def record_call(self, cbid: int, begin_ns: int, end_ns: int, data: int = 0) -> None:
        """Records a host call of this thread under a callback id, from begin to end (ns since the epoch)."""
        _native().record_api(cbid, begin_ns, end_ns, data)

    def clock(self, host_ns: int | None = None) -> int:
        """What the device's clock shows at the host's time `host_ns` (ns since the epoch; now if None): the truth."""
        return int(_native().clock(self.index, _time.time_ns() if host_ns is None else host_ns))

    def energy(self) -> dict[str, Energy]:
        """The truth: by name, what the work took above idle since metrics were asked for. Empty if they were not."""
        return {name: Energy(*found) for name, found in _native().energy(self.index).items()}

    def properties(self) -> dict[str, Any]:
        """name, memory_total and memory_free in bytes, cores, scratchpad_bytes_per_core."""
        return dict(_native().properties(self.index))


def _watts(watts: float) -> float:
    if not 0 < watts <= 1e6:
        raise ValueError(f"watts={watts!r}: expected a number above 0, or None for the power model")
    return float(watts)


def _stream(stream: int) -> int:
    return _whole("stream", stream, 1, 1024)


def _size(nbytes: int) -> int:
    return _whole("nbytes", nbytes, 0, 2**63)
