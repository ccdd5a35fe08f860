"""`torch.spyre.random`: seeds and states of the devices' generators.

A device's generator gives the numbers that the CPU's gives for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ... import _device
from ._index import DeviceLike, index_of

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: DeviceLike) -> torch.Generator:
    generator: torch.Generator = _device.default_generator(index_of(device))
    return generator


def _all() -> list[torch.Generator]:
    return [_generator(i) for i in range(_device.device_count())]


class _DefaultGenerators:
    """The devices' default generators, by index."""

    def __len__(self) -> int:
        return len(_all())

    def __getitem__(self, index: int) -> torch.Generator:
        return _all()[index]


default_generators = _DefaultGenerators()


def get_rng_state(device: DeviceLike = "spyre") -> torch.Tensor:
    """The state of the device's generator, a CPU ByteTensor."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "spyre") -> None:
    _generator(device).set_state(new_state.clone(memory_format=torch.contiguous_format))


def get_rng_state_all() -> list[torch.Tensor]:
    return [g.get_state() for g in _all()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. torch.manual_seed does this too."""
    for generator in _all():
        generator.manual_seed(int(seed))


def seed() -> int:
    """Seeds the current device's generator with a number that can't be foretold, and returns it."""
    return _generator(None).seed()


def seed_all() -> None:
    """Seeds every device's generator with one number that can't be foretold."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()
