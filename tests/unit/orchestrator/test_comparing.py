"""What of a file the receiver has, told from the bytes of both."""

from __future__ import annotations

import random

import pytest

from owlt.orchestrator.run.left_files import SHORTEST_GAP_BYTES, Comparison, compare

SENT = random.Random(12).randbytes(100_000)


def compared(received: bytes, size_bytes: int | None = None) -> Comparison:
    """A received file beside SENT; as much of it is read as was sent."""
    return compare(received[: len(SENT)], SENT, len(received) if size_bytes is None else size_bytes)


def with_gaps(*gaps: tuple[int, int]) -> bytes:
    """SENT as a receiver has it that allocated the file before, and to which these parts never came."""
    received = bytearray(SENT)
    for start, end in gaps:
        received[start:end] = bytes(end - start)
    return bytes(received)


def test_the_same_file_is_complete() -> None:
    assert compared(SENT).is_complete


def test_the_beginning_of_the_file_is_a_part_of_it() -> None:
    received = compared(SENT[:61_440])

    assert (received.is_part, received.is_complete, received.present_bytes) == (True, False, 61_440)


def test_the_beginning_of_the_file_is_reported_with_both_sizes() -> None:
    assert compared(SENT[:61_440]).text == "the receiver has the first 61,440 of 100,000 bytes"


def test_a_file_allocated_before_that_has_the_beginning_alone_is_a_part() -> None:
    received = compared(with_gaps((61_440, 100_000)))

    assert received.is_part
    assert received.text == "the receiver has the first 61,440 of 100,000 bytes; zeros follow"


def test_a_file_with_gaps_of_zeros_is_a_part_and_tells_the_first() -> None:
    received = compared(with_gaps((4_096, 8_192), (50_000, 51_000)))

    assert received.is_part
    assert received.text == "the receiver has 94,904 of 100,000 bytes; the first that is missing is at 4,096"


def test_a_short_file_with_a_gap_is_a_part() -> None:
    received = compared(with_gaps((1_000, 2_000))[:5_000])

    assert (received.is_part, received.present_bytes, received.first_gap) == (True, 4_000, 1_000)


def test_a_short_last_segment_that_is_missing_is_a_gap() -> None:
    assert compared(with_gaps((99_999, 100_000))).is_part


@pytest.mark.parametrize("content", [b"", bytes(100_000)], ids=["empty", "all zeros"])
def test_a_file_without_a_byte_of_the_sent_one_is_no_part(content: bytes) -> None:
    received = compared(content)

    assert (received.is_part, received.first_wrong) == (False, None)
    assert received.text == "the receiver has none of 100,000 bytes"


@pytest.mark.parametrize("place", [0, 777, 99_998])
def test_one_damaged_byte_is_wrong_and_reported_with_its_place(place: int) -> None:
    damaged = bytearray(SENT)
    damaged[place] ^= 0x10

    received = compared(bytes(damaged))

    assert (received.is_part, received.first_wrong) == (False, place)
    assert f"the first wrong one is at {place:,}" in received.text


def test_a_byte_that_was_damaged_to_zero_is_wrong_and_no_gap() -> None:
    place = next(at for at, value in enumerate(SENT) if value == 0x40)
    damaged = bytearray(SENT)
    damaged[place] = 0

    assert compared(bytes(damaged)).first_wrong == place


def test_fewer_zeros_than_the_shortest_gap_are_wrong_bytes() -> None:
    assert compared(with_gaps((500, 500 + SHORTEST_GAP_BYTES - 1))).first_wrong is not None


def test_wrong_bytes_in_a_prefix_make_it_another_file() -> None:
    assert compared(SENT[:5_000] + b"x" * 500).first_wrong is not None


def test_a_file_that_goes_on_behind_the_sent_one_is_another_file() -> None:
    received = compared(SENT + b"more")

    assert (received.is_part, received.first_wrong) == (False, 100_000)


def test_zeros_of_a_longer_file_are_no_gaps() -> None:
    assert compared(bytes(1_000_000)).first_wrong == 0


def test_a_gap_beside_a_zero_that_was_sent_is_placed_behind_it() -> None:
    at = SENT.index(0, 10)

    received = compared(with_gaps((at + 1, at + 1_000)))

    assert (received.first_gap, received.present_bytes) == (at + 1, 100_000 - 999)
