"""The user's own metadata of a trace, whatever is in it.

Kineto writes metadata into the file as it is, but turns each backslash into a slash, so a value with an escape sequence
is not JSON afterwards. So ours is kept here, and written into the finished file: behind its first brace, where a list
in it does not disturb viewers that look for the last bracket of the events.
"""

from __future__ import annotations

import json
from typing import Any

# What the trace itself, PyTorch and kineto_spyre write at the top level.
RESERVED = frozenset(
    "schemaVersion deviceProperties traceEvents traceName displayTimeUnit baseTimeNanoseconds trace_id kineto_spyre "
    "kineto_spyre_layers kineto_spyre_smi distributedInfo record_shapes with_stack with_flops with_modules "
    "profile_memory".split()
)


class UserMetadata:
    """Keys and values that were added, each once."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, key: str, value: Any) -> None:
        """Adds a value, in place of an earlier one of that key.

        Raises:
            ValueError: the trace itself uses the key.
        """
        if key in RESERVED:
            raise ValueError(f"The trace itself uses the metadata key {key!r}. Choose another key.")
        self._values[key] = value

    def add_json(self, key: str, text: str) -> None:
        """Adds a value that is given as JSON.

        Raises:
            ValueError: the text is not JSON, or the trace itself uses the key.
        """
        try:
            value = json.loads(text, parse_constant=_not_json)
        except ValueError as error:
            raise ValueError(
                f"The metadata {key!r} is not JSON ({error}). Pass json.dumps(value), or use add_metadata for text."
            ) from error
        self.add(key, value)

    @property
    def values(self) -> dict[str, Any]:
        """All of them."""
        return dict(self._values)


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")
