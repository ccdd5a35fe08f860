"""Slices laid out in layers in which none crosses another; arrows' ends bound to the slices that they belong to."""

from __future__ import annotations

import json

import numpy as np
from hand_made import BASE, arrow, slice_
from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_spyre.traces import read
from kineto_spyre.traces.nesting import nest

MOST = 12  # few places in time, so that equal ones and touching ones are common


def nested(events):
    trace = read(json.dumps({"traceEvents": events}).encode())
    return trace, nest(trace, np.ones(len(trace), bool))


def slices_of(layer):
    """(slice, begin, end) of a layer's edges; fails if a bracket closes another than the last that was opened."""
    found, stack, before = [], [], -1
    for time, edge in zip(layer.times, layer.edges):
        assert time >= before
        before = time
        if edge >= 0:
            stack.append((edge, time))
        else:
            number, begun = stack.pop()
            assert number == ~edge
            found.append((number, begun, time))
    assert stack == []
    return found


times = st.integers(0, MOST)
crossing = st.lists(st.tuples(st.integers(0, 1), times, times), max_size=14)


@settings(deadline=None, max_examples=300)
@given(crossing)
def test_each_slice_is_in_one_layer_with_its_times(rows):
    _, result = nested([slice_(f"s{i}", "cpu_op", 1, tid, ts, dur) for i, (tid, ts, dur) in enumerate(rows)])
    found = [one for layers in result.layers.values() for layer in layers for one in slices_of(layer)]
    base = round(BASE * 1000)
    expected = {(i, base + ts * 1000, base + (ts + dur) * 1000) for i, (_, ts, dur) in enumerate(rows)}
    assert len(found) == len(rows)
    assert set(found) == expected


@settings(deadline=None, max_examples=300)
@given(crossing)
def test_a_second_layer_is_only_made_where_slices_cross(rows):
    _, result = nested([slice_(f"s{i}", "cpu_op", 1, tid, ts, dur) for i, (tid, ts, dur) in enumerate(rows)])
    spans = {tid: [(ts, ts + dur) for one, ts, dur in rows if one == tid] for tid in (0, 1)}
    crossed = sum(any(a < c < b < d for a, b in mine for c, d in mine) for mine in spans.values())
    assert sum(len(layers) > 1 for layers in result.layers.values()) == crossed


def test_a_slice_that_was_not_kept_is_in_no_layer():
    trace = read(json.dumps({"traceEvents": [slice_("a", "", 1, 1, 0, 5), slice_("b", "", 1, 1, 1, 2)]}).encode())
    result = nest(trace, np.array([False, True]))
    assert [one[0] for layers in result.layers.values() for layer in layers for one in slices_of(layer)] == [1]


def bound(*events):
    """The name of the slice that each end of an arrow belongs to."""
    trace, result = nested(list(events))
    return [None if one < 0 else trace.names[trace.slices["name"][one]] for one in result.flow_slices.tolist()]


OUTER, INNER, LATER = (slice_(*one) for one in (
    ("outer", "", 1, 1, 0, 20), ("inner", "", 1, 1, 4, 6), ("later", "", 1, 1, 12, 2))
)  # fmt: skip


def test_an_end_belongs_to_the_innermost_slice_at_its_time():
    ends = [arrow("s", 1, 1, 1, ts) for ts in (0, 3, 4, 7, 11, 12, 19)]
    assert bound(OUTER, INNER, LATER, *ends) == ["outer", "outer", "inner", "inner", "outer", "later", "outer"]


def test_the_order_in_the_file_does_not_matter():
    assert bound(arrow("f", 1, 1, 1, 7), LATER, INNER, OUTER, arrow("s", 1, 1, 1, 13)) == ["inner", "later"]


def test_an_end_without_bp_belongs_to_the_next_slice_that_starts():
    ends = []
    for ts in (4, 5, 13):
        end = arrow("f", 1, 1, 1, ts)
        del end["bp"]
        ends.append(end)
    assert bound(OUTER, INNER, LATER, *ends) == ["inner", "later", None]


def test_an_end_beside_all_slices_belongs_to_none():
    assert bound(OUTER, arrow("s", 1, 1, 1, 21), arrow("s", 1, 1, 2, 5)) == [None, None]


def test_of_layers_that_cross_the_slice_that_ends_first_is_the_innermost():
    a, b = slice_("a", "", 1, 1, 0, 10), slice_("b", "", 1, 1, 5, 10)
    assert bound(a, b, *(arrow("s", 1, 1, 1, ts) for ts in (2, 7, 12))) == ["a", "a", "b"]
