"""The process that a library may hang or crash: it does the probes, and tells what it saw as lines of JSON.

    python -m kineto_spyre.selftest._child REQUEST

REQUEST is a JSON object: `library` (a path), `emulated`, `probes` (names, in order), `out` (a file descriptor). Lines:

    {"step": S}                     S begins: "setup", a probe's name
    {"call": F}                     the library's function F is about to be called
    {"facts": P, "values": {...}}   what the probe P found
    {"trouble": P, "error": E}      the probe P could not be done: the exception's type, and its text
    {"unusable": SENTENCE}          nothing can be done here
    {"done": true}                  all probes were done
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

from .probes import PROBES, Driver


def _tell(out: int, line: dict[str, Any]) -> None:
    os.write(out, json.dumps(line).encode() + b"\n")


def _backend(emulated: bool) -> str:
    """Starts the device; returns the name that PyTorch knows it by. Raises RuntimeError with a sentence."""
    import torch

    if emulated:
        from .. import emulator

        emulator.enable()
    name: str = torch._C._get_privateuse1_backend_name()
    if name == "privateuseone":
        try:
            __import__("torch_spyre")
        except ImportError:
            raise RuntimeError(
                "PyTorch has no Spyre device in this environment. Install torch-spyre, or run `kineto-spyre selftest "
                "--emulated`."
            ) from None
        name = torch._C._get_privateuse1_backend_name()
    module = getattr(torch, name, None)
    if module is None or not module.is_available():
        raise RuntimeError(f"PyTorch's device '{name}' is not available here: no card was found, or it is in use.")
    return name


def main() -> int:
    request = json.loads(sys.argv[1])
    out = int(request["out"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a hanging library must not outlive who asked
    _tell(out, {"step": "setup"})
    try:
        driver = Driver(request["library"], lambda function: _tell(out, {"call": function}))
        driver.setup(_backend(request["emulated"]))
    except Exception as error:
        sentence = str(error) if type(error) is RuntimeError else f"The device can't be used: {error!r}"
        _tell(out, {"unusable": sentence.splitlines()[0]})
        return 2
    for name in request["probes"]:
        _tell(out, {"step": name})
        try:
            driver.open(name)
            _tell(out, {"facts": name, "values": PROBES[name](driver)})
        except Exception as error:
            _tell(out, {"trouble": name, "error": f"{type(error).__name__}: {error}"})
        finally:
            driver.rest()
    _tell(out, {"done": True})
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # what the library does at the process's end is not our question
