"""The receiver of a blast for a time, without sockets: what it counts, and when it ends."""

from __future__ import annotations

import pytest

from owlt.agents.blast.datagrams import Stream, encode
from owlt.agents.blast.sides import Counting, Patience
from owlt.agents.endpoint.exit import Failed

PATIENCE = Patience(first_s=60, silence_s=30, after_end_s=0.5)


def piece(number: int) -> bytes:
    return encode(1000 * number, bytes(1000))


@pytest.fixture
def party() -> Counting:
    return Counting(Stream(1000), duration_s=2, patience=PATIENCE, now_s=100)


def test_each_piece_counts_once(party: Counting) -> None:
    for number in (0, 1, 1, 3, 0):
        party.hear(piece(number), 100)

    assert party.facts().startswith("received_bytes=3000 datagrams=3 late=0 again=2 ")


def test_pieces_later_than_the_duration_after_the_first_do_not_count(party: Counting) -> None:
    party.hear(piece(0), 150)
    party.hear(piece(1), 152)
    party.hear(piece(2), 152.001)

    assert party.facts().startswith("received_bytes=2000 datagrams=2 late=1 ")


def test_it_ends_soon_after_an_end_marker(party: Counting) -> None:
    party.hear(piece(0), 100)
    party.hear(encode(1000, b""), 101)
    party.advance(101.4)
    assert not party.ended

    party.advance(101.5)
    assert party.ended


def test_a_damaged_length_or_offset_is_no_piece(party: Counting) -> None:
    for datagram in (b"short", piece(0)[:-1], encode(1, bytes(1000))):
        party.hear(datagram, 100)

    with pytest.raises(Failed, match=r"no data arrived: .* unreadable=3 "):
        party.facts()
