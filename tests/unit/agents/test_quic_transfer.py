"""QUIC transfers between the two parties on a simulated link, where light minutes cost nothing."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.connection import Logs, client_configuration, server_configuration
from owlt.agents.quic.push import Receiving, Sending
from owlt.agents.quic.settings import Settings
from tests.unit.agents.simulated_link import Link, Loses, at_random, nothing

CHOSEN = Settings(rate_bps=10e6, rtt_s=0.05)


class Pair(NamedTuple):
    """Two parties, their link and their files."""

    sender: Sending
    receiver: Receiving
    link: Link
    file: Path
    output: Path

    def run(self, until_s: float = float("inf")) -> None:
        self.link.run({"receiver": self.receiver, "sender": self.sender}, until_s=until_s)

    def sent(self, side: str) -> list[bytes]:
        return [datagram for of, _, datagram in self.link.sent if of == side]


Make = Callable[..., Pair]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as closing:
        yield _maker(tmp_path, closing)


def _maker(tmp_path: Path, closing: ExitStack) -> Make:
    def make(size_bytes: int = 100_000, owlt_s: float = 0.025, loses: Loses = nothing, **changes: object) -> Pair:
        file, output = tmp_path / "file", tmp_path / "output"
        file.write_bytes(random.Random(1).randbytes(size_bytes))
        chosen = replace(CHOSEN, rtt_s=2 * owlt_s, **changes)  # type: ignore[arg-type]
        link = Link(owlt_s, loses)
        source, store = closing.enter_context(file.open("rb")), closing.enter_context((tmp_path / "part").open("wb"))
        sender = Sending(source, chosen, client_configuration(chosen, Logs()), link.now_s)
        receiver = Receiving(output, store, chosen, server_configuration(chosen, Logs()), link.now_s)
        return Pair(sender, receiver, link, file, output)

    return make


def assert_complete(pair: Pair) -> None:
    assert pair.output.read_bytes() == pair.file.read_bytes()
    assert pair.sender.facts().startswith("sent=")
    assert pair.receiver.facts().startswith("sent=")


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, 2 << 20])
def test_a_clean_transfer_is_complete_and_sends_nothing_twice(pair: Make, size_bytes: int) -> None:
    both = pair(size_bytes)
    both.run()

    assert_complete(both)
    assert sum(map(len, both.sent("sender"))) < 1.04 * size_bytes + 3000


@pytest.mark.parametrize("congestion_control", ["reno", "cubic"])
@pytest.mark.parametrize("seed", range(4))
def test_one_datagram_in_ten_lost_both_ways_stops_no_transfer(pair: Make, seed: int, congestion_control: str) -> None:
    both = pair(owlt_s=1.25, loses=at_random(0.1, seed), congestion_control=congestion_control)
    both.run()

    assert_complete(both)


def test_a_handshake_over_light_minutes_repeats_nothing(pair: Make) -> None:
    both = pair(owlt_s=1250)
    begin_s = both.link.now_s
    both.run()

    assert_complete(both)
    first = [datagram for side, at_s, datagram in both.link.sent if side == "sender" and at_s < begin_s + 2500]
    assert len(first) == 1
    assert len(both.sent("sender")) < 100_000 / 1100 + 15


def test_the_first_timer_is_given_the_round_trip(pair: Make) -> None:
    """Two of them, RFC 9002 section 6.2.2."""
    both = pair(owlt_s=100, loses=lambda _side, _datagram: True)
    both.run(until_s=both.link.now_s + 1000)

    first_s, second_s = (at_s for side, at_s, _ in both.link.sent[:2])
    assert second_s - first_s == pytest.approx(2 * replace(CHOSEN, rtt_s=200).first_rtt_s)


def test_the_output_appears_when_it_is_complete(pair: Make) -> None:
    both = pair(owlt_s=0.025)
    both.run(until_s=both.link.now_s + 0.1)

    assert not both.output.exists()


def test_a_sender_without_a_receiver_ends_by_itself(pair: Make) -> None:
    both = pair(loses=lambda _side, _datagram: True)
    begin_s = both.link.now_s

    with pytest.raises(Failed, match=r"the connection ended \(Idle timeout, error 0x1\) before the receiver had"):
        both.link.run({"sender": both.sender})
    assert both.link.now_s - begin_s < 2 * replace(CHOSEN).idle_timeout_s


def test_a_receiver_to_whom_nobody_comes_ends_by_itself(pair: Make) -> None:
    both = pair()

    with pytest.raises(Failed, match=r"no connection for [0-9.]+ s"):
        both.link.run({"receiver": both.receiver})


@pytest.mark.parametrize("left", ["sender", "receiver"])
def test_a_side_whose_peer_vanishes_ends_by_itself(pair: Make, left: str) -> None:
    both = pair(size_bytes=1_000_000)
    both.run(until_s=both.link.now_s + 0.2)
    both.link.loses = lambda _side, _datagram: True

    with pytest.raises(Failed, match="Idle timeout"):
        both.link.run({left: getattr(both, left)})


def test_a_lost_connection_close_is_sent_again_to_a_receiver_that_asks(pair: Make) -> None:
    lost: list[bytes] = []

    def close_once(side: str, datagram: bytes) -> bool:
        if side == "sender" and both.output.exists() and not lost:
            lost.append(datagram)
            return True
        return False

    both = pair(loses=close_once)
    begin_s = both.link.now_s
    both.run()

    assert lost
    assert_complete(both)
    assert both.sent("sender").count(lost[0]) == 2
    assert both.link.now_s - begin_s < 20 * 0.15


def test_a_sender_says_so_when_the_receiver_has_stored_something_else(pair: Make) -> None:
    both = pair()
    both.receiver._digest.update(b"!")
    both.run()

    with pytest.raises(Failed, match="the receiver has stored other data"):
        both.sender.facts()


def test_nobody_is_woken_without_need(pair: Make) -> None:
    """Once for each datagram of either side, and once for each timer."""
    both = pair(size_bytes=1_000_000)
    both.run()

    assert both.link.steps < 4 * len(both.link.sent)


def test_the_largest_datagram_is_the_one_chosen(pair: Make) -> None:
    both = pair(datagram_bytes=1400)
    both.run()

    assert max(map(len, both.sent("sender"))) == 1400


@given(strategies.binary(max_size=1500), strategies.sampled_from([b"", b"\xc0\0\0\0\1\x08", b"\xc3\0\0\0\1\x14"]))
@settings(max_examples=200, deadline=None)
def test_a_datagram_that_is_no_handshake_begins_no_connection(tail: bytes, head: bytes) -> None:
    receiver = Receiving(Path("nowhere"), BytesIO(), CHOSEN, server_configuration(CHOSEN, Logs()), 0.0)

    receiver.hear(head + tail + bytes(1200), 0.0)
    receiver.advance(0.0)

    assert not receiver.has_datagram()
    assert "strange=1" in receiver.facts()


def test_damaged_datagrams_change_nothing(pair: Make) -> None:
    """Every third datagram comes a second time, with a byte of it flipped, before the whole one."""
    draws = random.Random(5)
    both = pair()
    for party in (both.sender, both.receiver):
        party.hear = _hearing_damage(party.hear, draws)  # type: ignore[method-assign, assignment]
    both.run()

    assert_complete(both)


def _hearing_damage(hear: Callable[[bytes, float], None], draws: random.Random) -> Callable[[bytes, float], None]:
    def damaged_first(datagram: bytes, now_s: float) -> None:
        if draws.random() < 0.3:
            place = draws.randrange(len(datagram))
            hear(datagram[:place] + bytes([datagram[place] ^ 1 << draws.randrange(8)]) + datagram[place + 1 :], now_s)
        hear(datagram, now_s)

    return damaged_first
