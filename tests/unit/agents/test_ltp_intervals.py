"""Stretches of bytes, against a plain set of numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ltp.intervals import Intervals

PLACES = st.integers(0, 40)
PAIRS = st.lists(st.tuples(PLACES, PLACES), max_size=20)


@settings(max_examples=300, deadline=None)
@given(PAIRS, PLACES, PLACES)
def test_stretches_are_what_a_set_of_numbers_would_be(pairs: list[tuple[int, int]], lower: int, upper: int) -> None:
    intervals, numbers = Intervals(), set[int]()
    for start, end in pairs:
        new = set(range(start, end)) - numbers
        assert intervals.add(start, end) == len(new)
        numbers |= new

    asked = set(range(lower, upper))
    assert {number for pair in intervals.within(lower, upper) for number in range(*pair)} == numbers & asked
    assert {number for pair in intervals.gaps(lower, upper) for number in range(*pair)} == asked - numbers
    assert intervals.covers(lower, upper) == (asked <= numbers)
    assert intervals.total == len(numbers)
    assert intervals.end == max(numbers, default=-1) + 1


def test_stretches_that_touch_are_one() -> None:
    intervals = Intervals()
    for start, end in [(10, 20), (30, 40), (20, 30)]:
        intervals.add(start, end)

    assert list(intervals.within(0, 100)) == [(10, 40)]
