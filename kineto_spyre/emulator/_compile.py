"""What torch.compile asks about the device "spyre": Dynamo's device interface.

It is registered when torch._dynamo.device_interface is imported, so that enable() imports no compiler. Inductor's code
generator is in the package inductor beside this.
"""

from __future__ import annotations

from types import ModuleType

import torch

from . import _device_module as spyre
from ._device_module._index import DeviceLike
from ._lazy import when_imported


def register() -> None:
    """Has torch._dynamo.device_interface.get_interface_for_device("spyre") find the device."""
    when_imported("torch._dynamo.device_interface", _register_interface)


def _register_interface(module: ModuleType) -> None:
    # Over 60 lines because the class can be written only where its base, `module.DeviceInterface`, is known.
    class Interface(module.DeviceInterface):  # type: ignore[name-defined,misc]
        """The device "spyre", as Dynamo and Inductor ask for it."""

        device = spyre.device
        Event = spyre.Event
        Stream = spyre.Stream

        class Worker:
            """What a compile worker asks; such a process does not use the device."""

            @staticmethod
            def set_device(device: int) -> None:
                module.caching_worker_current_devices["spyre"] = device

            @staticmethod
            def current_device() -> int:
                cached = module.caching_worker_current_devices.get("spyre")
                return spyre.current_device() if cached is None else int(cached)

            @staticmethod
            def get_device_properties(device: DeviceLike = None) -> spyre.DeviceProperties:
                return spyre.get_device_properties(device)

        is_available = staticmethod(spyre.is_available)
        device_count = staticmethod(spyre.device_count)
        current_device = staticmethod(spyre.current_device)
        set_device = staticmethod(spyre.set_device)
        stream = staticmethod(spyre.stream)
        current_stream = staticmethod(spyre.current_stream)
        set_stream = staticmethod(spyre.set_stream)
        synchronize = staticmethod(spyre.synchronize)
        get_device_properties = staticmethod(spyre.get_device_properties)
        memory_allocated = staticmethod(spyre.memory_allocated)
        is_bf16_supported = staticmethod(spyre.is_bf16_supported)

        @staticmethod
        def exchange_device(device: int) -> int:
            return int(torch._C._accelerator_exchangeDevice(device)) if device >= 0 else -1

        @staticmethod
        def maybe_exchange_device(device: int) -> int:
            return int(torch._C._accelerator_exchangeDevice(device)) if device >= 0 else -1

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            spyre.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            """The id of the current stream; the device's generated code takes it as a number."""
            return spyre.current_stream(device_idx).stream_id

        @staticmethod
        def get_compute_capability(device: DeviceLike = None) -> str:
            """Empty: the emulated device belongs to no generation of the hardware."""
            return ""

    module.register_interface_for_device("spyre", Interface)
    for index in range(spyre.device_count()):
        module.register_interface_for_device(f"spyre:{index}", Interface)
