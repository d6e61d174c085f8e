"""Sets of byte positions, held against sets of numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.saratoga.spans import Spans

SPACE = 40
spans = st.tuples(st.integers(0, SPACE), st.integers(0, SPACE))
steps = st.lists(st.tuples(st.booleans(), spans), max_size=30)


def after(steps: list[tuple[bool, tuple[int, int]]]) -> tuple[Spans, set[int]]:
    found, wanted = Spans(), set[int]()
    for adds, (start, end) in steps:
        if adds:
            found.add(start, end)
            wanted |= set(range(start, end))
        else:
            found.remove(start, end)
            wanted -= set(range(start, end))
    return found, wanted


@settings(max_examples=300, deadline=None)
@given(steps)
def test_adding_and_removing_is_that_of_sets(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    found, wanted = after(steps)

    assert {place for start, end in found for place in range(start, end)} == wanted
    assert found.total_bytes == len(wanted)
    assert found.end == max(wanted, default=-1) + 1


@settings(max_examples=100, deadline=None)
@given(steps)
def test_spans_are_sorted_and_do_not_touch(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    edges = [edge for span in after(steps)[0] for edge in span]

    assert all(one < other for one, other in pairwise(edges))


@settings(max_examples=100, deadline=None)
@given(steps, spans)
def test_covering_is_that_of_sets(steps: list[tuple[bool, tuple[int, int]]], span: tuple[int, int]) -> None:
    found, wanted = after(steps)

    assert found.covers(*span) == (set(range(*span)) <= wanted)


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(0, SPACE))
def test_gaps_are_what_is_missing(steps: list[tuple[bool, tuple[int, int]]], end: int) -> None:
    found, wanted = after(steps)

    assert {place for start, stop in found.gaps(end) for place in range(start, stop)} == set(range(end)) - wanted


def test_a_span_is_taken_out_piece_by_piece() -> None:
    found = Spans([(0, 25), (40, 45)])

    assert [found.pop(10) for _ in range(4)] == [(0, 10), (10, 20), (20, 25), (40, 45)]
    assert not found
    with pytest.raises(IndexError):
        found.pop(10)
