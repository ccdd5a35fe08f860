"""`kineto-spyre check` on the demo's trace: no fault, and nothing to note but what PyTorch writes itself."""

from __future__ import annotations

from kineto_spyre.check import check


def test_the_demos_trace_is_sound(trace_path):
    report = check(str(trace_path))
    assert report["spyre"] and report["sound"], report["findings"]
    # PyTorch names the device's type 20; launches without work are calls whose work lies outside the window.
    assert {finding["rule"] for finding in report["findings"]} <= {"contract-memory", "stack-overlap"}
