"""Segment requests: which a sender answers, and in what pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.cfdp.entity import in_segments, is_answerable

REQUESTS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)).map(lambda pair: tuple(sorted(pair))))


@settings(max_examples=100, deadline=None)
@given(REQUESTS, st.integers(1, 3000))
def test_the_pieces_hold_the_same_bytes_and_none_is_longer_than_a_segment(
    requests: list[tuple[int, int]], segment_bytes: int
) -> None:
    pieces = in_segments(requests, segment_bytes)

    assert all(end - start <= segment_bytes for start, end in pieces)
    assert [byte for piece in pieces for byte in range(*piece)] == [
        byte for asked in requests for byte in range(*asked)
    ]


def test_a_request_for_the_metadata_stays() -> None:
    assert in_segments([(0, 0), (0, 5)], 2) == [(0, 0), (0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize("requests", [[], [(0, 0)], [(0, 100)], [(0, 0), (0, 40), (60, 100)]])
def test_requests_within_the_file_are_answerable(requests: list[tuple[int, int]]) -> None:
    assert is_answerable(requests, 100)


@pytest.mark.parametrize("requests", [[(0, 101)], [(5, 4)], [(0, 100), (0, 1)], [(0, 60), (40, 100)]])
def test_requests_beyond_or_for_more_than_the_file_are_not(requests: list[tuple[int, int]]) -> None:
    assert not is_answerable(requests, 100)
