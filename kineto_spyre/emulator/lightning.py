"""Lightning's accelerator for the emulated Spyre. Importing this module imports Lightning; nothing else here does.

>>> import kineto_spyre
>>> kineto_spyre.emulator.enable(devices=1)
>>> import kineto_spyre.emulator.lightning  # registers the names "spyre", "single_spyre" and "ddp_spyre"
>>> trainer = lightning.Trainer(accelerator="spyre", strategy="single_spyre", devices=1)

The strategy must be named, because Lightning's own assume the CPU or CUDA for an accelerator that is not its own.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _device_module as spyre
from ._device_module._index import index_of
from ._machine import device_count, is_enabled

try:
    from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
    from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, StrategyRegistry
except ImportError:
    try:
        from pytorch_lightning.accelerators import Accelerator, AcceleratorRegistry
        from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy, StrategyRegistry
    except ImportError as error:
        raise ImportError(
            "kineto_spyre.emulator.lightning needs Lightning, which is not installed. Run: pip install lightning"
        ) from error

__all__ = ["DDPSpyreStrategy", "SingleSpyreStrategy", "SpyreAccelerator"]


class SpyreAccelerator(Accelerator):  # type: ignore[misc]  # untyped where Lightning is not installed
    """The devices of the emulated Spyre, for Trainer(accelerator="spyre")."""

    def setup_device(self, device: torch.device) -> None:
        """Makes `device` the current one.

        Raises:
            ValueError: The device is not a spyre, because the Trainer was given no strategy.
        """
        if device.type != "spyre":
            raise ValueError(
                f"Lightning chose the device {device} for the accelerator 'spyre', because it has no strategy for it. "
                "Use Trainer(accelerator='spyre', strategy='single_spyre') for one device, or strategy='ddp_spyre'."
            )
        spyre.set_device(device)

    def teardown(self) -> None:
        """Gives memory that no tensor holds back to the devices."""
        spyre.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """Counters of the device's memory, in bytes and blocks, as torch.spyre.memory_stats() names them."""
        return spyre.memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """The indices that Trainer(devices=...) means: a count, -1 or "auto" for all, "0,1", or a list of indices.

        Raises:
            ValueError: The devices can't be read, or there are not so many.
        """
        count = device_count()
        indices: list[int] | None = None
        if isinstance(devices, (list, tuple)):
            indices = [int(index) for index in devices]
        elif isinstance(devices, int):
            indices = list(range(count if devices == -1 else devices))
        elif devices in ("auto", "-1"):
            indices = list(range(count))
        elif all(part.strip().isdecimal() for part in devices.split(",")):
            parts = [int(part) for part in devices.split(",") if part.strip()]
            indices = parts if "," in devices else list(range(parts[0]))
        if not indices or len(set(indices)) != len(indices) or not all(0 <= index < count for index in indices):
            raise ValueError(
                f"devices={devices!r}: expected a count or indices of the {count} emulated devices. Start more with "
                "kineto_spyre.emulator.enable(devices=...)."
            )
        return indices

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        """The torch.device of each index."""
        return [torch.device("spyre", index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        """How many devices the emulated machine has."""
        return device_count()

    @staticmethod
    def is_available() -> bool:
        """Whether kineto_spyre.emulator.enable() was called in this process."""
        return is_enabled()

    @staticmethod
    def name() -> str:
        """The name for Trainer(accelerator=...)."""
        return "spyre"

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Adds the name "spyre" to Lightning's registry."""
        accelerator_registry.register(cls.name(), cls, description="The emulated IBM Spyre of kineto-spyre")


class SingleSpyreStrategy(SingleDeviceStrategy):  # type: ignore[misc]
    """Training on one emulated device, for Trainer(strategy="single_spyre").

    Args:
        device: Which one, as "spyre:1" or an index.
        **kwargs: What Lightning's SingleDeviceStrategy takes.
    """

    strategy_name = "single_spyre"

    def __init__(self, device: str | int | torch.device = 0, **kwargs: Any) -> None:
        super().__init__(device=torch.device("spyre", index_of(device)), **kwargs)

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Adds the name "single_spyre" to Lightning's registry."""
        strategy_registry.register(cls.strategy_name, cls, description="One device of the emulated IBM Spyre")


class DDPSpyreStrategy(DDPStrategy):  # type: ignore[misc]
    """Training on several emulated devices, a process each, over gloo: Trainer(strategy="ddp_spyre", devices=2)."""

    strategy_name = "ddp_spyre"

    def determine_ddp_device_ids(self) -> None:
        """None: the module is on its device already. With indices, Lightning would make a stream of CUDA."""

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Adds the name "ddp_spyre" to Lightning's registry."""
        strategy_registry.register(cls.strategy_name, cls, description="Devices of the emulated IBM Spyre, by DDP")


for _strategy in (SingleSpyreStrategy, DDPSpyreStrategy):
    if _strategy.strategy_name not in StrategyRegistry:
        _strategy.register_strategies(StrategyRegistry)
if SpyreAccelerator.name() not in AcceleratorRegistry:
    SpyreAccelerator.register_accelerators(AcceleratorRegistry)
