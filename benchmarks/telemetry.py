"""What sampling costs: 8 cards at 10 Hz for some seconds. Prints the part of a core, and what was missed.

usage: python benchmarks/telemetry.py [SECONDS]
"""

from __future__ import annotations

import sys
import tempfile
import time

from kineto_spyre import emulator, telemetry


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        emulator.enable(devices=8, metrics=folder)
        with telemetry.Sampler(emulator.metrics_files(), hz=10) as sampler:
            time.sleep(seconds)
        used = sampler.busy_ns / (seconds * 1e9)
        taken = sum(len(card.samples) for card in sampler.cards)
        missed = sum(card.missed for card in sampler.cards)
        failed = sum(card.failed for card in sampler.cards)
        print(
            f"8 cards at 10 Hz for {seconds:g} s: {used:.3%} of a core; "
            f"{taken} samples, {missed} missed, {failed} failed"
        )
        emulator.enable(devices=8, metrics=False)


if __name__ == "__main__":
    main()
