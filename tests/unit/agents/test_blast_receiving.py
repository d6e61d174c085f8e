"""The receiver of a blast without sockets: what it keeps, when it ends, what it says."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.agents.blast.datagrams import Pieces, encode
from owlt.agents.blast.sides import Patience, Receiving
from owlt.agents.endpoint.exit import Failed

CONTENT = random.Random(1).randbytes(10_500)
END_MARKER = encode(len(CONTENT), b"")
PATIENCE = Patience(first_s=60, silence_s=30, after_end_s=0.5)


def datagrams() -> list[bytes]:
    return [encode(offset, CONTENT[offset : offset + 1000]) for offset in range(0, len(CONTENT), 1000)]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def receiving(output: Path) -> Iterator[Receiving]:
    with Receiving(output, Pieces(len(CONTENT), 1000), PATIENCE, now_s=100) as party:
        yield party


def ends(receiving: Receiving, told: list[bytes], at_s: float = 100) -> bool:
    """Whether it has ended once it was told that."""
    for datagram in told:
        receiving.hear(datagram, at_s)
    receiving.advance(at_s)
    return receiving.ended


def test_pieces_in_any_order_and_more_than_once_make_the_file(receiving: Receiving, output: Path) -> None:
    told = datagrams() + datagrams()
    random.Random(2).shuffle(told)

    assert ends(receiving, told)
    assert receiving.facts().startswith("11 of 11 datagrams came; again=11 ")
    assert output.read_bytes() == CONTENT


def test_it_ends_as_soon_as_the_file_is_complete(receiving: Receiving) -> None:
    assert not ends(receiving, datagrams()[:-1])
    assert ends(receiving, datagrams()[-1:])


def test_a_file_with_a_gap_fails_with_what_came_and_does_not_appear(receiving: Receiving, output: Path) -> None:
    ends(receiving, [*datagrams()[:4], *datagrams()[6:], END_MARKER])

    assert ends(receiving, [], at_s=100.5)
    with pytest.raises(Failed, match="file incomplete: 9 of 11 datagrams came"):
        receiving.facts()
    assert not output.exists()


def test_after_an_end_marker_it_waits_for_what_is_out_of_order(receiving: Receiving, output: Path) -> None:
    *most, last = datagrams()

    assert not ends(receiving, [*most, END_MARKER])
    assert receiving.wakes_at_s == 100.5
    assert ends(receiving, [last], at_s=100.4)
    assert receiving.facts()
    assert output.read_bytes() == CONTENT


def test_a_pause_before_the_end_marker_is_waited_for(receiving: Receiving) -> None:
    ends(receiving, datagrams()[:3], at_s=110)

    assert receiving.wakes_at_s == 140


def test_it_ends_when_nothing_ever_comes(receiving: Receiving) -> None:
    assert not ends(receiving, [], at_s=159)
    assert ends(receiving, [], at_s=160)
    with pytest.raises(Failed, match="0 of 11 datagrams came"):
        receiving.facts()


def test_what_cannot_be_read_is_counted_and_buys_no_time(receiving: Receiving) -> None:
    ends(receiving, [b"", bytes(5000), encode(2**63, bytes(1000))], at_s=150)

    assert receiving.wakes_at_s == 160
    with pytest.raises(Failed, match="unreadable=3"):
        receiving.facts()


def test_an_empty_file_is_complete_with_its_end_marker(output: Path) -> None:
    receiving = Receiving(output, Pieces(0, 1000), PATIENCE, now_s=0)

    assert not ends(receiving, [], at_s=0)
    assert ends(receiving, [encode(0, b"")], at_s=0)
    assert receiving.facts()
    assert output.read_bytes() == b""


def test_patience_grows_with_the_light_time_and_the_time_of_a_packet() -> None:
    near = Patience.of(rate_bps=10e6, one_way_delay_s=0.025, segment_bytes=1000, idle_limit_s=None)
    far = Patience.of(rate_bps=1e3, one_way_delay_s=600, segment_bytes=1000, idle_limit_s=None)

    assert near.after_end_s < 1 < far.after_end_s
    assert near.first_s < 60 < 600 < far.first_s
