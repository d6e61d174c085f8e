"""What a host received after its own last packet, and did not answer."""

from __future__ import annotations

from owlt.captures.frames.session import Host
from owlt.captures.protocols.ladder import Kind, Rung, unanswered
from owlt.captures.protocols.messages import Message

DELAY_NS = 1000


def rung(frame: int, host: Host, name: str, is_lost: bool = False, is_damaged: bool = False) -> Rung:
    """A message that leaves at its frame's number, in µs."""
    left_ns = frame * 1_000_000
    kind: Kind = "of the sender" if host == "sender" else "of the receiver"
    message = Message(frame, left_ns, host, 100, 60, name)
    return Rung(message, left_ns, () if is_lost else (left_ns + DELAY_NS,), is_damaged, kind)


def test_a_receiver_that_sends_nothing_at_all_is_named_with_the_first_packet() -> None:
    left = unanswered([rung(1, "sender", "metadata"), rung(2, "sender", "EOF"), rung(3, "sender", "EOF")])

    assert left is not None
    assert left.text == (
        "the receiver sent nothing, although these arrived: 1 metadata, 2 EOF; the first is metadata, frame 1 of "
        "sender.pcap"
    )


def test_a_host_that_stops_is_named_with_its_own_last_packet() -> None:
    left = unanswered([rung(1, "sender", "data"), rung(2, "receiver", "NAK"), rung(3, "sender", "EOF")])

    assert left is not None
    assert left.text == (
        "the receiver sent nothing after its NAK, frame 2 of its capture, although these arrived: 1 EOF; the first is "
        "EOF, frame 3 of sender.pcap"
    )


def test_packets_that_were_lost_or_damaged_need_no_answer() -> None:
    lost = [rung(3, "sender", "EOF", is_lost=True), rung(4, "sender", "EOF", is_damaged=True)]

    assert unanswered([rung(1, "sender", "data"), rung(2, "receiver", "ack"), *lost]) is None


def test_an_error_message_of_a_kernel_is_no_answer() -> None:
    left = unanswered([rung(1, "sender", "data"), rung(2, "receiver", "ICMP port unreachable")])

    assert left is not None
    assert (left.host, left.last) == ("receiver", None)


def test_of_two_hosts_the_one_that_left_more_unanswered_is_named() -> None:
    rungs = [rung(1, "sender", "data"), rung(2, "receiver", "report"), rung(3, "receiver", "report")]

    left = unanswered(rungs)

    assert left is not None
    assert (left.host, len(left.messages)) == ("sender", 2)


def test_further_kinds_of_packets_are_counted() -> None:
    left = unanswered([rung(number, "sender", f"kind {number}") for number in range(1, 6)])

    assert left is not None
    assert "1 kind 1, 1 kind 2, 1 kind 3 and 2 others; the first is kind 1" in left.text
