"""The compiler's ideal cycles, in the folder form that acelyzer takes with `-c`.

In: a folder that holds `inductor-spyre/KERNEL/perf/ideal_cycles.json`, or the folder `inductor-spyre` itself. Out:
cycles of the core clock by kernel: as acelyzer reads it, the first entry of a file that is not 0. Errors: IdealError.
"""

from __future__ import annotations

import json
import os
import pathlib


class IdealError(Exception):
    """The ideal cycles can't be read; the text is a sentence that says why."""


def ideal_cycles(folder: str | os.PathLike[str]) -> dict[str, float]:
    """Cycles by kernel.

    Raises:
        IdealError: there is no such folder, no file in it, or a file is none of the compiler's.
    """
    base = pathlib.Path(folder)
    if (base / "inductor-spyre").is_dir():
        base = base / "inductor-spyre"
    files = sorted(base.glob("*/perf/ideal_cycles.json"))
    if not files:
        raise IdealError(
            f"{folder} holds no inductor-spyre/KERNEL/perf/ideal_cycles.json. Name the folder in which torch-spyre's "
            "compiler wrote its kernels."
        )
    found = {}
    for path in files:
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            cycles = [float(entry["ideal_cycles"]) for entry in entries]
        except OSError as error:
            raise IdealError(f"{path} can't be read ({error.strerror or error}).") from None
        except (ValueError, TypeError, KeyError):
            raise IdealError(f"{path} is no list of objects with ideal_cycles, as the compiler writes it.") from None
        if kept := [one for one in cycles if one > 0]:
            found[path.parent.parent.name] = kept[0]
    return found
