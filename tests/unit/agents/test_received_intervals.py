"""Sets of whole numbers as stretches, held against plain sets."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.endpoint.intervals import Intervals

PLACES = st.integers(0, 40)
STRETCHES = st.tuples(PLACES, PLACES)
STEPS = st.lists(st.tuples(st.booleans(), STRETCHES), max_size=30)
Steps = list[tuple[bool, tuple[int, int]]]


def after(steps: Steps) -> tuple[Intervals, set[int]]:
    """What adding (True) and removing (False) makes of an empty set, both ways."""
    intervals, numbers = Intervals(), set[int]()
    for adds, (start, end) in steps:
        if adds:
            new = set(range(start, end)) - numbers
            assert intervals.add(start, end) == len(new)
            numbers |= new
        else:
            intervals.remove(start, end)
            numbers -= set(range(start, end))
    return intervals, numbers


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_adding_and_removing_is_that_of_sets(steps: Steps) -> None:
    intervals, numbers = after(steps)

    assert {number for start, end in intervals for number in range(start, end)} == numbers
    assert intervals.total == len(numbers)
    assert intervals.end == max(numbers, default=-1) + 1


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_stretches_are_in_order_and_do_not_touch(steps: Steps) -> None:
    intervals, _ = after(steps)
    edges = [edge for stretch in intervals for edge in stretch]

    assert all(one < other for one, other in pairwise(edges))
    assert len(edges) == 2 * len(intervals)


@settings(max_examples=300, deadline=None)
@given(STEPS, PLACES, PLACES)
def test_what_lies_between_bounds_is_that_of_sets(steps: Steps, lower: int, upper: int) -> None:
    intervals, numbers = after(steps)
    asked = set(range(lower, upper))

    assert {number for pair in intervals.within(lower, upper) for number in range(*pair)} == numbers & asked
    assert {number for pair in intervals.gaps(lower, upper) for number in range(*pair)} == asked - numbers
    assert intervals.covers(lower, upper) == (asked <= numbers)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(1, 10))
def test_what_is_taken_out_in_order_is_the_first_of_a_set(steps: Steps, most: int) -> None:
    intervals, numbers = after(steps)
    while intervals:
        taken = set(range(*intervals.pop(most)))
        assert 0 < len(taken) <= most
        assert taken == set(sorted(numbers)[: len(taken)])
        numbers -= taken
        assert intervals.total == len(numbers)

    assert not numbers


def test_a_stretch_is_taken_out_piece_by_piece() -> None:
    intervals = Intervals([(0, 25), (40, 45)])

    assert [intervals.pop(10) for _ in range(4)] == [(0, 10), (10, 20), (20, 25), (40, 45)]
    assert not intervals
    with pytest.raises(IndexError):
        intervals.pop(10)


def test_stretches_that_touch_are_one() -> None:
    assert list(Intervals([(10, 20), (30, 40), (20, 30)])) == [(10, 40)]


def test_nothing_lies_between_crossed_bounds_and_nothing_is_missing() -> None:
    intervals = Intervals([(0, 10)])

    assert list(intervals.within(8, 2)) == list(intervals.gaps(8, 2)) == []
    assert intervals.covers(8, 2)
