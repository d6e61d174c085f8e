"""Handshake packets of QUIC: which are needed, which are needless repeats, and when the file begins to arrive."""

from __future__ import annotations

import pytest

from owlt.captures.protocols.quic_handshake import (
    FIRST_FLIGHT_NS,
    SECRETS_LINE,
    HandshakeCounts,
    QuicDatagram,
    QuicPacket,
    count_handshake,
    parse_pdml,
)

HELLO = QuicPacket("Initial", crypto=((0, 300),))
PING = QuicPacket("Initial", has_ping=True)
ACK = QuicPacket("Initial")
SECOND_NS = 1_000_000_000


def sent(
    *packets: QuicPacket, at_s: float = 0, lost: bool = False, arrived_s: float | None = None, connection: int = 0
) -> QuicDatagram:
    """A datagram of the sender; without a time of arrival, it is lost or still under way."""
    arrived_at_ns = None if arrived_s is None else round(arrived_s * SECOND_NS)
    return QuicDatagram("sender", round(at_s * SECOND_NS), 1262, packets, connection, arrived_at_ns, lost)


def counted(*datagrams: QuicDatagram) -> HandshakeCounts:
    return count_handshake(datagrams).sender


def test_a_packet_with_new_octets_is_needed() -> None:
    counts = counted(sent(HELLO), sent(QuicPacket("Initial", crypto=((300, 500),))))

    assert (counts.packets, counts.needed, counts.useless, counts.bytes) == (2, 2, 0, 2 * 1262)


def test_octets_sent_again_after_the_first_arrived_are_useless() -> None:
    counts = counted(sent(HELLO, arrived_s=60), sent(HELLO, at_s=1, arrived_s=61))

    assert (counts.needed, counts.useless, counts.useless_bytes) == (1, 1, 1262)


def test_octets_sent_again_while_the_first_are_under_way_are_useless() -> None:
    assert counted(sent(HELLO), sent(HELLO, at_s=1)).useless == 1


def test_octets_sent_again_after_the_first_were_lost_are_needed() -> None:
    counts = counted(sent(HELLO, lost=True), sent(HELLO, at_s=1), sent(HELLO, at_s=3))

    assert (counts.needed, counts.useless) == (2, 1)


def test_octets_divided_in_another_way_are_the_same_octets() -> None:
    parts = QuicPacket("Initial", crypto=((0, 299),)), QuicPacket("Initial", crypto=((299, 300),))

    assert counted(sent(HELLO), *(sent(part, at_s=1) for part in parts)).useless == 2


def test_one_new_octet_makes_a_packet_needed() -> None:
    assert counted(sent(HELLO), sent(QuicPacket("Initial", crypto=((0, 301),)))).needed == 2


def test_initial_and_handshake_packets_have_octets_of_their_own() -> None:
    assert counted(sent(HELLO, QuicPacket("Handshake", crypto=((0, 300),)))).needed == 1
    assert counted(sent(HELLO), sent(QuicPacket("Handshake", crypto=((0, 300),)))).needed == 2


def test_a_new_connection_begins_anew() -> None:
    assert counted(sent(HELLO), sent(HELLO, at_s=10, connection=1)).needed == 2


def test_an_acknowledgement_is_an_answer_and_no_repeat() -> None:
    counts = counted(sent(HELLO), sent(ACK, at_s=60), sent(ACK, at_s=61))

    assert (counts.packets, counts.useless, counts.answers) == (3, 0, 2)


@pytest.mark.parametrize(("lost", "useless"), [(False, 1), (True, 0)])
def test_a_ping_is_useless_unless_something_was_lost(lost: bool, useless: int) -> None:
    assert counted(sent(HELLO, lost=lost), sent(PING, at_s=1)).useless == useless


def test_of_packets_that_cannot_be_decrypted_those_after_the_first_flight_are_repeats() -> None:
    sealed = QuicPacket("Handshake", is_readable=False)
    within, after = FIRST_FLIGHT_NS / SECOND_NS, 2 * FIRST_FLIGHT_NS / SECOND_NS
    datagrams = [sent(sealed), sent(sealed, at_s=within), sent(sealed, at_s=after)]

    assert (counted(*datagrams).needed, counted(*datagrams).useless) == (2, 1)
    assert count_handshake(datagrams).unreadable == 3


def test_packets_with_short_headers_are_no_handshake_packets() -> None:
    data = QuicPacket("1-RTT", crypto=((0, 100),), streams=(0,))

    assert counted(sent(HELLO), sent(data, at_s=1)).packets == 1
    assert counted(sent(HELLO, data)).packets == 1, "in one datagram with a long header"


def test_the_file_begins_with_the_first_byte_that_arrives() -> None:
    data, settings = QuicPacket("1-RTT", streams=(0,)), QuicPacket("1-RTT", streams=(3,))
    handshake = count_handshake(
        [
            sent(HELLO, arrived_s=60),
            sent(settings, at_s=61, arrived_s=121),
            sent(data, at_s=120, lost=True),
            sent(data, at_s=130, arrived_s=200),
            sent(data, at_s=131, arrived_s=191),
        ]
    )

    assert handshake.first_byte_s == 191


def test_without_a_byte_of_the_file_there_is_no_time() -> None:
    assert count_handshake([sent(HELLO, arrived_s=60)]).first_byte_s is None


PDML = b"""<pdml><packet>
<proto name="geninfo"><field name="num" show="7"/></proto>
<proto name="quic"><field name=""><field name="quic.connection.number" show="2"/></field>
  <field name="quic.long.packet_type" show="0"/>
  <field name="quic.frame"><field name="quic.frame_type" show="6"/>
    <field name="quic.crypto.offset" show="40"/><field name="quic.crypto.length" show="60"/></field>
  <field name="quic.frame"><field name="quic.frame_type" show="1"/></field></proto>
<proto name="quic"><field name="quic.long.packet_type" show="2"/></proto>
<proto name="quic"><field name="quic.frame"><field name="quic.frame_type" show="10"/>
    <field name="quic.stream.stream_id" show="4"/></field></proto>
</packet></pdml>"""


def test_the_packets_of_a_datagram_are_those_of_tsharks_xml() -> None:
    packets = (
        QuicPacket("Initial", crypto=((40, 100),), has_ping=True),
        QuicPacket("Handshake", is_readable=False),
        QuicPacket("1-RTT", streams=(4,)),
    )

    assert list(parse_pdml(PDML)) == [(7, 2, packets)]


def test_only_lines_of_the_key_log_format_are_secrets() -> None:
    line = b"CLIENT_HANDSHAKE_TRAFFIC_SECRET " + b"0a" * 32 + b" " + b"1b" * 48
    output = b"listening on [::1]:4433\n" + line + b"\nCLIENT_RANDOM 12 34\n"

    assert [found.strip() for found in SECRETS_LINE.findall(output)] == [line]
