"""What the probes of a selftest see of several variations of the emulated library, in one process, so that PyTorch is
imported once.

    python each_variation.py FAULTS...

prints one JSON object: by FAULTS, what each probe saw. "" is the library without a fault.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kineto_spyre import _library, emulator
from kineto_spyre.selftest.probes import PROBES, Driver


def main() -> None:
    emulator.enable()
    driver = Driver(str(_library.EMULATED), lambda function: None)
    driver.setup("spyre")
    seen: dict[str, dict[str, Any]] = {}
    for faults in sys.argv[1:]:
        seen[faults] = {}
        with emulator.faults(faults):
            for name, probe in PROBES.items():
                driver.open(name)
                seen[faults][name] = probe(driver)
                driver.rest()
        driver.flush()  # what a fault may have kept back
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
