"""`torch.spyre.streams`: streams and events, as torch-spyre documents them.

A stream's id is 0 for the device's default stream, 1 to 32 for those of normal priority and 33 to 64 for those of high
priority. In a trace, the stream with id n is the track n + 1 of its device.
"""

from __future__ import annotations

from typing import Any

import torch

from ._index import DeviceLike, index_of

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"]

_FIRST_OF_HIGH_PRIORITY = 33


class _StreamDevice(str):
    """A stream's device: read as PyTorch reads `stream.device`, or called as torch-spyre documents `stream.device()`.

    It is a text ("spyre:0") because torch.device can't be subclassed and PyTorch takes a text wherever it takes a
    device. It equals the torch.device of that name.
    """

    __slots__ = ()

    def __call__(self) -> torch.device:
        return torch.device(str(self))

    @property
    def type(self) -> str:
        return self().type

    @property
    def index(self) -> int:  # type: ignore[override]  # a device's, not str.index
        index = self().index
        assert index is not None
        return index

    def __eq__(self, other: object) -> bool:
        return self() == other if isinstance(other, torch.device) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self())

    def __repr__(self) -> str:
        return repr(self())


class Stream(torch.Stream):
    """A stream of a spyre. It is a torch.Stream and takes its place everywhere.

    Args:
        device: The stream's device; the current one if None.
        priority: 0 takes a stream of normal priority, any negative number one of high priority. Each device has 32 of
            either, handed out in turn.
        **kwargs: `stream_id`, `device_index` and `device_type` of a stream that exists.

    Raises:
        RuntimeError: There is no such device, or this process was forked from one that uses it.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("spyre", index_of(device)), priority=priority)

    @property
    def id(self) -> int:
        """The stream's id within its device."""
        return self.stream_id

    @property
    def priority(self) -> int:
        """-1 for a stream of high priority, 0 for any other. The number that was asked for is not kept."""
        return -1 if self.stream_id >= _FIRST_OF_HIGH_PRIORITY else 0

    @property
    def device(self) -> _StreamDevice:  # type: ignore[override]
        """The stream's device, as an attribute or by a call: `stream.device` and `stream.device()`."""
        return _StreamDevice(f"spyre:{self.device_index}")


class Event(torch.Event):
    """An event of a spyre: torch.Event(device="spyre")."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(
            cls, device="spyre", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def _as_spyre(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's current stream on `device`."""
    return _as_spyre(torch._C._accelerator_getStream(index_of(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The device's default stream: id 0, track 1 in a trace."""
    current = torch._C._accelerator_getStream(index_of(device))
    return Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` the calling thread's current one on its device. None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class stream:
    """Within it, `stream` and its device are current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        return None if self.stream is None else self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)
