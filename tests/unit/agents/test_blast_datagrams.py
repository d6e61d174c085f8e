"""The datagrams of a blast, against any bytes that a network may bring."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.blast.datagrams import Pieces, Unreadable, encode
from owlt.agents.blast.sides import Settings
from owlt.agents.endpoint.exit import Unsupported


@given(file_bytes=st.integers(0, 5000), segment_bytes=st.integers(1, 1200))
@settings(max_examples=60, deadline=None)
def test_every_piece_is_read_back_in_its_place(file_bytes: int, segment_bytes: int) -> None:
    content = bytes(at % 251 for at in range(file_bytes))
    pieces = Pieces(file_bytes, segment_bytes)
    offsets = range(0, file_bytes, segment_bytes)

    read = [pieces.decode(encode(offset, content[offset : offset + segment_bytes])) for offset in offsets]

    assert [number for number, _ in read] == list(range(pieces.count))
    assert b"".join(data for _, data in read) == content


def test_an_end_marker_is_the_piece_after_the_last() -> None:
    assert Pieces(2500, 1000).decode(encode(2500, b""))[0] == 3


@given(st.binary(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_piece_of_the_file_or_unreadable(datagram: bytes) -> None:
    pieces = Pieces(100, 10)
    try:
        number, data = pieces.decode(datagram)
    except Unreadable:
        return
    assert encode(10 * number, bytes(data)) == datagram
    assert 10 * number + len(data) <= 100


@pytest.mark.parametrize(
    "datagram",
    [b"", bytes(7), encode(5, bytes(10)), encode(100, bytes(10)), encode(0, bytes(9)), encode(2**64 - 1, b"")],
    ids=["empty", "short", "between", "beyond", "not-whole", "far-beyond"],
)
def test_what_is_no_whole_piece_is_unreadable(datagram: bytes) -> None:
    with pytest.raises(Unreadable):
        Pieces(100, 10).decode(datagram)


@pytest.mark.parametrize("segment_bytes", [0, 65_500])
def test_segments_that_no_datagram_holds_are_unsupported(segment_bytes: int) -> None:
    with pytest.raises(Unsupported, match="a UDP datagram holds 1 to 65499"):
        Pieces(100, segment_bytes)


def test_datagrams_go_one_by_one_where_each_has_its_time() -> None:
    assert Settings(rate_bps=10e6).together == 1


def test_more_go_together_the_faster_the_channel_and_never_more_than_a_call_takes() -> None:
    together = [Settings(rate_bps=rate_bps).together for rate_bps in (10e6, 100e6, 1e9, 100e9)]

    assert all(less < more for less, more in pairwise(together))
    assert max(together) == 64 == Settings(rate_bps=0).together


def test_a_call_takes_65507_bytes() -> None:
    assert Settings(rate_bps=0, segment_bytes=20_000).together == 3


def test_no_pass_at_all_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="0 passes"):
        Settings(rate_bps=0, passes=0)
