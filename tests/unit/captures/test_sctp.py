"""SCTP: chunks that scapy and hands made, read as messages, counted, and aimed at."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.sctp import SCTP, SCTPChunkCookieAck, SCTPChunkData, SCTPChunkInit, SCTPChunkSACK, SCTPChunkShutdown
from scapy.packet import Packet as Layer

from owlt.captures.frames.checksums import completed, has_right_checksums, left_to_the_card
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.conversations import propose_session
from owlt.captures.matches.delivery import INTACT
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.others import Sctp
from owlt.captures.protocols.reader import NO_FIELDS, Packet, Unreadable
from owlt.emulator.channel.aimed_fault import compiled
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, ethernet, flip, later, sctp_frame, timed, write_pcap
from tests.unit.emulator.test_aimed_faults import passes

ETHERNET = 1
CHECKSUM_AT = 14 + 20 + 8


def packet(*chunks: Layer, host: str = "sender") -> Packet:
    """A packet with these chunks, behind the common header."""
    payload = b"".join(map(bytes, chunks))
    return Packet(host, payload, len(payload), len(payload), NO_FIELDS)  # type: ignore[arg-type]


def data(number: int, count: int = 100) -> Layer:
    return SCTPChunkData(tsn=number, data=bytes(count), beginning=1, ending=1)


def names(reader: Sctp, *packets: Packet) -> list[str]:
    return [content.name for each in packets for content in reader.read(each)]


def test_each_chunk_of_a_packet_is_a_message() -> None:
    read = Sctp().read(packet(SCTPChunkCookieAck(), SCTPChunkSACK(cumul_tsn_ack=6, a_rwnd=9), data(7, 101), data(8)))

    assert [(each.name, each.detail, each.byte_count) for each in read] == [
        ("COOKIE ACK", "", 0),
        ("SACK", "up to TSN 6", 0),
        ("DATA", "TSN 7, 101 B", 101),
        ("DATA", "TSN 8, 100 B", 100),
    ]


def test_data_with_a_number_that_its_host_has_sent_is_a_retransmission() -> None:
    assert names(Sctp(), packet(data(7)), packet(data(8)), packet(data(7))) == ["DATA", "DATA", "retransmission"]


def test_the_hosts_number_their_data_separately() -> None:
    assert names(Sctp(), packet(data(7)), packet(data(7), host="receiver")) == ["DATA", "DATA"]


def test_a_chunk_of_an_unknown_type_has_its_number() -> None:
    assert names(Sctp(), packet(Layer(bytes([77, 0, 0, 4])))) == ["chunk 77"]


def test_of_a_cut_packet_the_chunks_that_were_captured_are_read() -> None:
    whole = packet(SCTPChunkCookieAck(), data(7))
    cut = replace(whole, payload=whole.payload[:14])

    assert names(Sctp(), cut) == ["COOKIE ACK", "DATA"]


@pytest.mark.parametrize("captured_bytes", range(4 + 16 + 100))
def test_a_packet_that_is_cut_anywhere_is_neither_malformed_nor_a_retransmission(captured_bytes: int) -> None:
    reader, whole = Sctp(), packet(SCTPChunkCookieAck(), data(7))
    first = [content.name for content in reader.read(replace(whole, payload=whole.payload[:captured_bytes]))]
    other = packet(SCTPChunkCookieAck(), data(8))
    second = reader.read(replace(other, payload=other.payload[:captured_bytes]))

    assert [content.name for content in second] == first
    assert set(first) <= {"COOKIE ACK", "DATA", "chunk", "rest of the datagram"}
    assert any(content.unplaced for content in second)


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        bytes(3),
        *(bytes([0, 3, 0, length]) + bytes(12) for length in (0, 1, 3)),
        bytes([0, 3, 0, 8]) + bytes(4),
        bytes([3, 0, 0, 4]) + bytes([11, 0, 0, 4]),
        bytes([0, 3, 255, 255]) + bytes(100),
    ],
    ids=["no chunk", "no header", "length 0", "1", "3", "DATA without TSN", "SACK without TSN", "beyond the packet"],
)
def test_a_chunk_that_violates_the_protocol_is_not_readable(octets: bytes) -> None:
    with pytest.raises(Unreadable):
        Sctp().read(packet(Layer(octets)))


def test_the_last_chunk_needs_no_padding() -> None:
    assert names(Sctp(), packet(data(7), Layer(bytes([0, 3, 0, 17]) + bytes(13)))) == ["DATA", "DATA"]


def test_another_association_numbers_its_data_anew() -> None:
    first, second = (replace(packet(data(7)), fields={"sctp.verification_tag": tag}) for tag in ("0x1", "0x2"))

    assert names(Sctp(), first, second, second) == ["DATA", "DATA", "retransmission"]


def test_the_payload_is_what_follows_the_common_header_over_both_versions_of_ip(tmp_path: Path) -> None:
    segment = SCTP(sport=40000, dport=5224) / data(1)
    frames = [bytes(ethernet() / IP() / segment), bytes(ethernet() / IPv6() / segment)]

    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed(frames)))

    assert columns.payload_bytes.tolist() == [16 + 100] * 2


def test_the_session_of_a_capture_without_a_description_has_its_sctp_port(tmp_path: Path) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed([sctp_frame(bytes(99), number=n) for n in range(3)])))

    session = propose_session([columns])

    assert (str(session.sender_address), session.ports) == (SENDER, {"sctp": (5224,)})


def test_a_checksum_is_right_until_a_bit_of_the_packet_is_flipped() -> None:
    frame = sctp_frame(bytes(range(100)))

    assert all(is_right for _, is_right in has_right_checksums(frame, frame))
    for bit in range(8 * (14 + 20), 8 * len(frame)):
        assert [is_right for _, is_right in has_right_checksums(flip(frame, bit), frame)] == [True, False]


@pytest.mark.parametrize("bit", [0, 5, 15])
def test_equal_flips_in_both_halves_of_a_checksum_are_damage(tmp_path: Path, bit: int) -> None:
    frames = [sctp_frame(bytes(99), number=n) for n in range(3)]
    hit = flip(flip(frames[1], 8 * CHECKSUM_AT + bit), 8 * CHECKSUM_AT + 16 + bit)
    sent = read_columns(write_pcap(tmp_path / "sent.pcap", timed(frames)))
    arrived = read_columns(write_pcap(tmp_path / "arrived.pcap", later(timed([frames[0], hit, frames[2]]), 1000)))

    assert (match_captures(sent, arrived, SESSION).forward.flipped_bit != INTACT).tolist() == [False, True, False]


def test_only_the_checksum_0_was_left_to_a_card() -> None:
    frame = sctp_frame(bytes(99))
    pseudo_header = IP(frame[14:34])
    words = [*struct.unpack(">4H", bytes(pseudo_header)[12:20]), 132, len(frame) - 34]

    assert left_to_the_card(0, frame, len(frame), ETHERNET)
    assert not left_to_the_card(sum(words) % 0xFFFF, frame, len(frame), ETHERNET)


def test_a_checksum_that_was_left_to_a_card_is_completed() -> None:
    frame = sctp_frame(bytes(range(100)))
    left = frame[:CHECKSUM_AT] + bytes(4) + frame[CHECKSUM_AT + 4 :]

    assert completed(left, len(left), ETHERNET) == frame


@pytest.mark.parametrize(
    ("name", "chunk"),
    [("data", data(1)), ("init", SCTPChunkInit()), ("sack", SCTPChunkSACK()), ("shutdown", SCTPChunkShutdown())],
)
def test_an_aim_at_a_chunk_passes_it_and_no_other(name: str, chunk: Layer) -> None:
    frame = ethernet() / IP(src=SENDER, dst=RECEIVER) / SCTP(sport=1, dport=2) / chunk
    other = ethernet() / IP(src=SENDER, dst=RECEIVER) / SCTP(sport=1, dport=2) / SCTPChunkCookieAck()

    assert passes(compiled(f"sctp.{name}"), frame)
    assert not passes(compiled(f"sctp.{name}"), other)


def test_an_aim_at_a_chunk_passes_it_over_ipv6_too() -> None:
    frame = ethernet() / IPv6() / SCTP(sport=1, dport=2) / SCTPChunkInit()

    assert passes(compiled("sctp.init"), frame)
