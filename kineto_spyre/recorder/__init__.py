"""The flight recorder: the last seconds of a program, without a torch.profiler session.

>>> import kineto_spyre
>>> kineto_spyre.emulator.enable(devices=1)         # or a real Spyre, once it is in use
>>> recorder = kineto_spyre.record(seconds=30)
>>> serve_requests()
>>> recorder.dump("before-the-slow-request.json").complete
True

Device records, ops with their names, and `torch.profiler.record_function` ranges go round in memory of a fixed size; a
dump writes what is kept. torch.profiler sessions may run meanwhile: both get everything. The C++ side is
csrc/kineto/recorder.h. Imports no torch until a function is called.

    _recorder.py   record(), the recorder, its dumps
    _autostart.py  KINETO_SPYRE_RECORD
"""

from __future__ import annotations

from ._dumps import Dumps, RateLimited
from ._recorder import Dump, Recorder, Status, record

__all__ = ["Dump", "Dumps", "RateLimited", "Recorder", "Status", "record"]
