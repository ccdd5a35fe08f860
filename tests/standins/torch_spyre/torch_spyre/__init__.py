"""Plays torch-spyre in our tests: the entry point, the backend's name, `torch.spyre`, and a profiler of its own.

STANDIN_NAME: the backend's name, "spyre" unless set. STANDIN_FACTORY: a compiled factory.cpp, registered if set.
"""

import ctypes
import os
import types

import torch

synchronized = 0


def _synchronize(device=None):
    global synchronized
    synchronized += 1


def register_factory():
    """Loads the library in STANDIN_FACTORY, whose static initialiser registers a PrivateUse1 profiler."""
    return ctypes.CDLL(os.environ["STANDIN_FACTORY"])


def _autoload():
    name = os.environ.get("STANDIN_NAME", "spyre")
    torch.utils.rename_privateuse1_backend(name)
    module = types.ModuleType(f"torch.{name}")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.synchronize = _synchronize
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    torch._register_device_module(name, module)
    if os.environ.get("STANDIN_FACTORY") and os.environ.get("STANDIN_LATE") != "1":
        register_factory()
