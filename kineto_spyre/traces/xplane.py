"""A trace as XProf's protobuf (XSpace), which XProf's Trace Viewer shows inside TensorBoard without internet.

Out go the bytes of tensorflow.profiler.XSpace, whose messages are few: the numbers of their fields are here, as published
in xplane.proto, since no package that is small has them. XProf itself reads the files in the tests.

    planes     /host:CPU for the processes of the host, /device:CUSTOM:NAME for each device (NAME is its label)
    lines      a thread or a track each; slices that cross others of their line are on a further line beside it
    events     begin and duration in ps from the line's start; the name is written once a plane
    stats      correlation, External id, stream, bytes and Input Dims, as far as an event has them; its category

Times are whole ns in a Trace, so nothing is rounded. Arrows and counters have no place in the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from kineto_spyre.traces.nesting import nest
from kineto_spyre.traces.trace import Trace

_PS = 1000  # in a ns
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
# (column, name of the stat, none)
_NUMBERS = (("correlation", "correlation"), ("external_id", "External id"), ("stream", "stream"), ("bytes", "bytes"))
