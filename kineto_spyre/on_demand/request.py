"""What is asked for: how long, how many steps, what is recorded, and the text in which Kineto is told."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000}
SHORTEST_MS, LONGEST_MS = 1, 600_000

# Without this line Kineto's default list has no PrivateUse1 work in it; one name that it doesn't know refuses the text.
_ACTIVITY_TYPES = (
    "cpu_op",
    "user_annotation",
    "gpu_user_annotation",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "privateuse1_runtime",
    "privateuse1_driver",
)


def parse_duration(text: str) -> int:
    """A duration in milliseconds, from "500ms", "2s", "1.5s" or "1min".

    Raises:
        ValueError: it is no duration, has no unit, or is not between 1 ms and 10 minutes.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a number with its unit, such as 500ms, 2s or 1min")
    milliseconds = round(float(match[1]) * _UNITS[match[2]])
    if not SHORTEST_MS <= milliseconds <= LONGEST_MS:
        raise ValueError(f"{text!r} is not between 1ms and 10min")
    return milliseconds


@dataclass(frozen=True)
class Request:
    """A profile that a running program shall take."""

    duration_ms: int = 500
    iterations: int = 0  # steps (of an optimizer, or torch.profiler's) instead of a duration; 0: by duration
    warmup_s: int = 0  # seconds between the answer and the begin, in which Kineto prepares
    shapes: bool = False
    stacks: bool = False
    memory: bool = False

    def text(self, path: str) -> str:
        """The configuration as Kineto reads it, a KEY=VALUE a line.

        Args:
            path: the trace's file, with the ending ".json"; Kineto puts `_<pid>` before that.
        """
        lines = {"ACTIVITIES_LOG_FILE": path, "ACTIVITY_TYPES": ",".join(_ACTIVITY_TYPES)}
        if self.iterations:
            lines |= {"PROFILE_START_ITERATION_ROUNDUP": "1", "ACTIVITIES_ITERATIONS": str(self.iterations)}
        else:
            lines |= {"ACTIVITIES_DURATION_MSECS": str(self.duration_ms)}
        lines["ACTIVITIES_WARMUP_PERIOD_SECS"] = str(self.warmup_s)
        for wanted, key in (
            (self.shapes, "PROFILE_REPORT_INPUT_SHAPES"),
            (self.stacks, "PROFILE_WITH_STACK"),
            (self.memory, "PROFILE_PROFILE_MEMORY"),
        ):
            if wanted:
                lines[key] = "true"
        return "".join(f"{key}={value}\n" for key, value in lines.items())
