"""The build backend: scikit-build-core's, and what it can't know of PyTorch.

A wheel serves exactly the minor release of PyTorch that it was built against, since the vtables of Kineto's classes
change between them. So
- the wheel depends on ``torch ==X.Y.*``, the release found at build time (`dynamic_metadata`, which pyproject.toml
  names as the provider of the field);
- the build takes the torch that is installed, and asks for the default one only where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import find_torch
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from scikit_build_core.build import get_requires_for_build_editable as _requires_for_editable
from scikit_build_core.build import get_requires_for_build_wheel as _requires_for_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "dynamic_metadata",
    "dynamic_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

DEFAULT_TORCH = "2.13.0"
# What reads traces and prints reports: the commands and functions that need them import them, the package does not.
PLAIN_DEPENDENCIES = ["msgspec>=0.19", "numpy>=1.26", "pyelftools>=0.29", "rich>=13"]


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Provides `dependencies`: the minor release of the torch that this build compiles against."""
    directory = find_torch.torch_dir()
    version = find_torch.torch_version(directory) if directory else DEFAULT_TORCH
    major, minor, _ = version.split(".")
    return {"dependencies": [f"torch =={major}.{minor}.*", *PLAIN_DEPENDENCIES]}


def dynamic_wheel(settings: Mapping[str, Any]) -> dict[str, bool]:
    """The sdist's dependency is not the wheel's: each wheel has that of the torch beside it."""
    return {"dependencies": True}


def _torch_if_none() -> list[str]:
    return [] if find_torch.torch_dir() else [f"torch=={DEFAULT_TORCH}"]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*_requires_for_wheel(config_settings), *_torch_if_none()]


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*_requires_for_editable(config_settings), *_torch_if_none()]
