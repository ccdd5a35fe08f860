"""`kineto-spyre check` on the demo's trace: no fault, and nothing to note but what PyTorch writes itself."""

from __future__ import annotations

from kineto_spyre.traces import check


def test_the_demos_trace_is_sound(trace_path):
    report = check(str(trace_path))
    assert report["spyre"] and report["sound"], report["findings"]
    # What is left is what other tools make of PyTorch's own events: see each rule.
    notes = {"contract-memory", "contract-ranges", "contract-steps", "estimate-overlap"}
    assert {finding["rule"] for finding in report["findings"]} <= notes
