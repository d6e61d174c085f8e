"""Green blocks: whole or lost, in any order, within bounds."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.bundle.convergence import Reassembly, segments_of
from owlt.agents.ltp.segments import DataSegment, SessionId

BLOCK = random.Random(3).randbytes(2_500)


def taken(reassembly: Reassembly, segments: Iterable[DataSegment]) -> list[bytes]:
    return [block for segment in segments if (block := reassembly.take(segment)) is not None]


def test_a_block_is_cut_and_only_its_last_segment_ends_it() -> None:
    segments = list(segments_of(BLOCK, 7, 1, 2, 1000))

    assert [(segment.offset, len(segment.data), segment.ends_block) for segment in segments] == [
        (0, 1000, False),
        (1000, 1000, False),
        (2000, 500, True),
    ]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 900))
def test_a_block_is_complete_once_whatever_the_order_and_the_repetitions(seed: int, size: int) -> None:
    segments = 2 * list(segments_of(BLOCK, 7, 1, 2, size))
    random.Random(seed).shuffle(segments)

    assert taken(Reassembly(), segments) == [BLOCK]


def test_segments_cut_in_another_way_complete_a_block() -> None:
    mixed = [*list(segments_of(BLOCK, 7, 1, 2, 900))[1:], *list(segments_of(BLOCK, 7, 1, 2, 700))[:2]]

    assert taken(Reassembly(), mixed) == [BLOCK]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_block_that_lost_a_segment_is_never_delivered(lost: int) -> None:
    segments = list(segments_of(BLOCK, 7, 1, 2, 1000))
    del segments[lost]

    assert taken(Reassembly(), segments) == []


def test_the_oldest_of_too_many_blocks_is_forgotten() -> None:
    reassembly = Reassembly(most_blocks=2)
    blocks = [list(segments_of(BLOCK, number, 1, 2, 2000)) for number in range(3)]
    for first, _ in blocks:
        reassembly.take(first)

    assert [reassembly.take(last) is not None for _, last in blocks[::-1]] == [True, True, False]
    assert reassembly.forgotten == 1


def test_tiny_pieces_of_a_block_without_end_take_bounded_room() -> None:
    reassembly = Reassembly(most_bytes=100_000)
    for number in range(1000):
        reassembly.take(DataSegment(SessionId(1, 1), 2, 2 * number, b"x", False))

    assert reassembly.forgotten > 0
    assert reassembly._held_bytes <= 100_000


@pytest.mark.parametrize("offset", [2000, 2**60])
def test_data_behind_the_end_of_a_block_make_it_worthless(offset: int) -> None:
    reassembly = Reassembly()
    reassembly.take(DataSegment(SessionId(1, 1), 2, 1000, b"end", False, ends_block=True))
    reassembly.take(DataSegment(SessionId(1, 1), 2, offset, b"behind", False))

    assert reassembly.forgotten == 1


def test_red_data_are_left_aside() -> None:
    assert Reassembly().take(DataSegment(SessionId(1, 1), 2, 0, b"red", True)) is None
