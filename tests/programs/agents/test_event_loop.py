"""The loop between a party and its socket: it sleeps for what is due, and for nothing else."""

import math
import signal
import time
from collections.abc import Iterator

import pytest

from owlt.agents.endpoint.event_loop import CancelSignal, Pacer, converse, frame_bytes
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.udp import Address, Endpoint
from tests.calls import calls_limited_to

HERE, THERE = Address("127.0.0.1", 25020), Address("127.0.0.1", 25021)


class Talker:
    """Sends what it is given, hears what comes, and ends at a time."""

    def __init__(self, messages: list[bytes], ends_at_s: float) -> None:
        self.messages = messages
        self.heard: list[bytes] = []
        self.calls = 0
        self.ended = False
        self.wakes_at_s = ends_at_s

    def advance(self, now_s: float) -> None:
        self.calls += 1
        self.ended = now_s >= self.wakes_at_s

    def hear(self, datagram: bytes, now_s: float) -> None:
        self.heard.append(datagram)

    def has_datagram(self) -> bool:
        return bool(self.messages)

    def next_datagram(self, now_s: float) -> bytes:
        return self.messages.pop(0)

    def facts(self) -> str:
        return f"heard={len(self.heard)}"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(HERE, THERE) as bound:
        yield bound


def test_a_party_without_work_is_asked_only_when_it_wanted_to_be(endpoint: Endpoint) -> None:
    talker = Talker([], time.monotonic() + 0.3)

    converse(talker, endpoint, Pacer(0))

    assert talker.calls <= 3


def test_a_party_without_work_is_waited_for_and_not_polled(endpoint: Endpoint) -> None:
    """A loop that does not sleep makes more than 100,000 calls in half a second."""
    with calls_limited_to(1000):
        converse(Talker([], time.monotonic() + 0.5), endpoint, Pacer(0))


def test_a_paced_party_is_asked_about_once_for_each_packet(endpoint: Endpoint) -> None:
    talker = Talker([bytes(100)] * 50, time.monotonic() + 1.5)

    converse(talker, endpoint, Pacer(50 * 8 * frame_bytes(100) / 0.2))

    assert 50 <= talker.calls <= 110


def test_the_clock_is_read_once_for_each_turn(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    monotonic = time.monotonic
    talker = Talker([bytes(100)] * 50, monotonic() + 0.3)

    def note() -> float:
        reads.append(monotonic())
        return reads[-1]

    monkeypatch.setattr(time, "monotonic", note)
    converse(talker, endpoint, Pacer(50 * 8 * frame_bytes(100) / 0.2))

    assert len(reads) == talker.calls


def test_what_is_sent_after_a_datagram_was_heard_is_sent_at_the_time_after_it(endpoint: Endpoint) -> None:
    class Slow(Talker):
        heard_at_s = sent_at_s = math.nan

        def hear(self, datagram: bytes, now_s: float) -> None:
            time.sleep(0.05)
            self.messages.append(b"answer")
            self.heard_at_s = time.monotonic()

        def next_datagram(self, now_s: float) -> bytes:
            self.sent_at_s = now_s
            return super().next_datagram(now_s)

    with Endpoint(THERE, HERE) as peer:
        peer.send(b"question")
        talker = Slow([], time.monotonic() + 0.2)
        converse(talker, endpoint, Pacer(0))

    assert talker.sent_at_s >= talker.heard_at_s


def test_what_the_peer_sends_is_heard_in_order(endpoint: Endpoint) -> None:
    with Endpoint(THERE, HERE) as peer:
        for number in range(10):
            peer.send(bytes([number]))
        talker = Talker([], time.monotonic() + 0.1)
        converse(talker, endpoint, Pacer(0))

    assert talker.heard == [bytes([number]) for number in range(10)]


def test_the_peer_is_heard_from_any_of_its_ports(endpoint: Endpoint) -> None:
    """ION sends from another port than the one that it listens on."""
    with Endpoint(Address("127.0.0.1", 25022), HERE) as other_port:
        other_port.send(b"hello")
        talker = Talker([], time.monotonic() + 0.1)
        facts = converse(talker, endpoint, Pacer(0))

    assert talker.heard == [b"hello"]
    assert facts == "heard=1 from_other_addresses=0"


def test_the_peer_is_answered_on_its_configured_port_whatever_port_it_sends_from(endpoint: Endpoint) -> None:
    with Endpoint(THERE, HERE) as listens, Endpoint(Address("127.0.0.1", 25022), HERE) as sends:
        sends.send(b"question")
        converse(Talker([b"answer"], time.monotonic() + 0.1), endpoint, Pacer(0))

        assert list(listens.received()) == [b"answer"]
        assert list(sends.received()) == []


def test_the_peer_is_answered_on_the_port_of_its_first_datagram_if_that_is_learnt() -> None:
    with (
        Endpoint(HERE, THERE, learns_port=True) as server,
        Endpoint(THERE, HERE) as listens,
        Endpoint(Address("127.0.0.1", 25022), HERE) as sends,
    ):
        sends.send(b"question")
        assert server.wait(1.0)
        assert server.received() == [b"question"]
        server.send(b"answer")

        assert sends.wait(1.0)
        assert list(sends.received()) == [b"answer"]
        assert list(listens.received()) == []


def test_datagrams_from_other_addresses_are_dropped_and_counted(endpoint: Endpoint) -> None:
    with Endpoint(Address("127.0.0.2", THERE.port), HERE) as stranger, Endpoint(THERE, HERE) as peer:
        for _ in range(3):
            stranger.send(b"not yours")
        peer.send(b"yours")
        talker = Talker([], time.monotonic() + 0.1)
        facts = converse(talker, endpoint, Pacer(0))

    assert talker.heard == [b"yours"]
    assert facts == "heard=1 from_other_addresses=3"


def test_a_failure_says_how_many_datagrams_came_from_other_addresses(endpoint: Endpoint) -> None:
    class Failing(Talker):
        def advance(self, now_s: float) -> None:
            super().advance(now_s)
            if self.ended:
                raise Failed("the peer was silent")

    with Endpoint(Address("127.0.0.2", THERE.port), HERE) as stranger:
        stranger.send(b"not yours")
        with pytest.raises(Failed, match=r"^the peer was silent from_other_addresses=1$"):
            converse(Failing([], time.monotonic() + 0.1), endpoint, Pacer(0))


def test_an_absent_peer_is_no_error(endpoint: Endpoint) -> None:
    talker = Talker([b"anyone?"] * 5, time.monotonic() + 0.1)

    converse(talker, endpoint, Pacer(0))

    assert talker.messages == []


def test_a_port_in_use_is_named(endpoint: Endpoint) -> None:
    with pytest.raises(Failed, match=r"cannot listen on 127\.0\.0\.1:25020: Address already in use"):
        Endpoint(HERE, THERE)


@pytest.mark.parametrize("text", ["10.77.0.1", "10.77.0.1:", ":2501", "10.77.0.1:0", "10.77.0.1:65536", "a:b"])
def test_an_address_without_its_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected ADDRESS:PORT such as 10\.77\.0\.1:2501"):
        Address.parse(text)


def test_an_address_reads_back_as_it_was_written() -> None:
    assert str(Address.parse("10.77.0.1:2501")) == "10.77.0.1:2501"


def test_infinity_means_that_only_a_datagram_wakes(endpoint: Endpoint) -> None:
    class Listener(Talker):
        def advance(self, now_s: float) -> None:
            self.ended = bool(self.heard)

    with Endpoint(THERE, HERE) as peer:
        peer.send(b"wake up")
        listener = Listener([], math.inf)
        converse(listener, endpoint, Pacer(0))

    assert listener.heard == [b"wake up"]


@pytest.fixture
def request_to_cancel(endpoint: Endpoint) -> Iterator[CancelSignal]:
    handler = signal.getsignal(signal.SIGHUP)
    with CancelSignal() as request:
        endpoint.wait.end_on(request.alarm)
        yield request
    signal.signal(signal.SIGHUP, handler)


def test_a_signal_just_before_the_loop_sleeps_ends_the_sleep(
    endpoint: Endpoint, request_to_cancel: CancelSignal
) -> None:
    assert not request_to_cancel()
    begin_s = time.monotonic()
    signal.raise_signal(signal.SIGHUP)

    assert not endpoint.wait(600.0)
    assert time.monotonic() - begin_s < 60
    assert request_to_cancel()


def test_a_signal_ends_one_sleep_and_is_no_datagram(endpoint: Endpoint, request_to_cancel: CancelSignal) -> None:
    signal.raise_signal(signal.SIGHUP)
    assert not endpoint.wait(600.0)
    begin_s = time.monotonic()

    assert not endpoint.wait(0.1)
    assert time.monotonic() - begin_s >= 0.1


def test_a_datagram_is_readable_after_a_signal(endpoint: Endpoint, request_to_cancel: CancelSignal) -> None:
    with Endpoint(THERE, HERE) as peer:
        peer.send(b"hello")
    signal.raise_signal(signal.SIGHUP)

    assert endpoint.wait(600.0)
