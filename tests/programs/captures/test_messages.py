"""Messages of small captures that are written here octet by octet: their names, and what of the file they carry."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkCookieAck, SCTPChunkData
from scapy.packet import Packet, Raw

from owlt.agents.ltp.segments import Cancel, CancelAck, Checkpoint, Claim, DataSegment, Report, ReportAck
from owlt.agents.ltp.segments import encode as ltp
from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Data, Metadata, Request, Status
from owlt.captures.frames.session import Session
from owlt.captures.protocols.messages import (
    Message,
    carried_file_bytes,
    message_bytes,
    message_counts,
    messages,
    repeated_file_bytes,
)
from tests.unit.captures.making import (
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SENDER_6,
    SESSION,
    SESSION_6,
    ethernet,
    flip,
    timed,
    write_pcap,
)
from tests.unit.captures.octets import (
    AGGREGATE,
    BLOCK,
    BUNDLES,
    BUNDLES_OVER_LTP,
    CFDP,
    CFDP_RUN,
    CUSTODY_RUN,
    FINISHED,
    LTP,
    NORM,
    RECEIVER_SAYS,
    SARATOGA,
    TCP_FILE,
    bundle,
    cfdp_data,
    damaged_syn,
    eof,
    fragments,
    frame,
    handshake,
    metadata,
    nak,
    norm_ack_of_flush,
    norm_command,
    norm_data,
    pdu,
    red,
    saratoga_data,
    segment,
)


def read(
    tmp_path: Path, frames: Sequence[bytes], dissector: Sequence[str], snaplen: int = 262_144, **more: object
) -> list[Message]:
    capture = write_pcap(tmp_path / "x.pcap", timed(frames), snaplen=snaplen)
    return messages(capture, SESSION, dissector, **more)  # type: ignore[arg-type]


def content(found: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message.name, message.detail) for message in found]


def pieces(found: Sequence[Message]) -> list[tuple[int | None, int]]:
    return [(message.first_byte, message.byte_count) for message in found]


# CFDP: CCSDS 727.0-B-5


def test_pdus_of_cfdp_have_their_names(tmp_path: Path) -> None:
    assert content(read(tmp_path, CFDP_RUN, CFDP)) == [
        ("metadata", "file of 2500 bytes"),
        ("data", "bytes 0-999"),
        ("data", "bytes 1000-1999"),
        ("data", "bytes 2000-2499"),
        ("EOF", "file of 2500 bytes"),
        ("ACK of EOF", ""),
        ("NAK", "1 hole"),
        ("data", "bytes 1000-1999"),
        ("Finished", "all delivered"),
        ("ACK of Finished", ""),
    ]


def test_frames_are_counted_as_tshark_counts_them_and_hosts_are_distinguished(tmp_path: Path) -> None:
    found = read(tmp_path, [frame(b"", RECEIVER_SAYS), bytes(60), *CFDP_RUN], CFDP)

    assert [message.frame for message in found] == [1, *range(3, 13)]
    assert found[6].host == "receiver"
    assert (found[1].payload_bytes, found[1].wire_bytes) == (len(metadata(2500)), 42 + len(metadata(2500)))


def test_data_sent_again_are_counted_in_bytes(tmp_path: Path) -> None:
    found = read(tmp_path, CFDP_RUN, CFDP)

    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (2500, 1000)


def test_a_nak_and_a_finished_say_what_has_arrived(tmp_path: Path) -> None:
    acknowledged = [message.acknowledged_bytes for message in read(tmp_path, CFDP_RUN, CFDP)]

    assert acknowledged == [None] * 6 + [1500, None, 2500, None]


def test_a_checksum_behind_the_data_is_not_of_the_file(tmp_path: Path) -> None:
    assert pieces(read(tmp_path, [frame(cfdp_data(0, 102, crc=True))], CFDP)) == [(0, 100)]


def test_of_two_transactions_the_place_in_the_file_is_not_known(tmp_path: Path) -> None:
    found = read(tmp_path, [frame(cfdp_data(0, 100)), frame(cfdp_data(0, 100, sequence=8))], CFDP)

    assert [(message.first_byte, message.byte_count, message.unplaced) for message in found] == [(None, 100, True)] * 2
    assert repeated_file_bytes(found) is None


def test_of_a_capture_cut_to_headers_all_is_reported_that_the_headers_say(tmp_path: Path) -> None:
    many = nak(0, 99_000, *((place, place + 1) for place in range(0, 20, 2)))
    found = read(tmp_path, [*CFDP_RUN, frame(many, RECEIVER_SAYS)], CFDP, snaplen=96)

    assert content(found)[:10] == content(read(tmp_path, CFDP_RUN, CFDP))
    assert carried_file_bytes(found) == 2500
    assert (found[10].name, found[10].detail, found[10].acknowledged_bytes) == ("NAK", "cut", None)


def test_of_data_cut_within_their_header_it_is_said_that_they_are_cut(tmp_path: Path) -> None:
    (found,) = read(tmp_path, [frame(cfdp_data(3000, 1000))], CFDP, snaplen=54)

    assert (found.name, found.detail, found.first_byte, found.byte_count) == ("data", "cut", None, 1000)
    assert found.unplaced


# What the channel does to packets


def test_a_packet_with_a_wrong_checksum_is_damaged_and_says_nothing_of_the_file(tmp_path: Path) -> None:
    frames = [frame(cfdp_data(0, 1000)), flip(frame(cfdp_data(1000, 1000)), 8 * 55), frame(cfdp_data(2000, 1000))]
    found = read(tmp_path, frames, CFDP)

    assert [message.name for message in found] == ["data", "damaged data", "data"]
    assert pieces(found) == [(0, 1000), (None, 0), (2000, 1000)]
    assert carried_file_bytes(found) == 2000


def test_a_damaged_packet_teaches_nothing(tmp_path: Path) -> None:
    last = frame(eof(100))
    found = read(
        tmp_path, [frame(metadata(100)), flip(last, 8 * (len(last) - 1)), frame(FINISHED, RECEIVER_SAYS)], CFDP
    )

    assert found[1].name == "damaged EOF"
    assert found[2].acknowledged_bytes == 100


def test_a_packet_that_is_not_of_its_protocol_is_malformed(tmp_path: Path) -> None:
    found = read(tmp_path, [frame(b"\xff" * 30), frame(pdu(b"\x06\x40"))], LTP)

    assert [message.name for message in found] == ["malformed LTP"] * 2


def test_where_a_card_fills_in_the_checksums_wrong_ones_say_nothing(tmp_path: Path) -> None:
    header = IP(src=SENDER, dst=RECEIVER) / UDP(sport=40000, dport=5222, chksum=0x1234)
    frames = [bytes(ethernet() / header / Raw(cfdp_data(offset, 100))) for offset in (0, 100)]

    assert [message.name for message in read(tmp_path, frames, CFDP)] == ["data", "data"]


def test_rows_that_are_known_to_be_damaged_are_believed(tmp_path: Path) -> None:
    found = read(tmp_path, CFDP_RUN, CFDP, snaplen=96, damaged_rows=[3])

    assert found[3].name == "damaged data"
    assert carried_file_bytes(found) == 2000


def test_fragments_carry_their_part_of_what_the_first_of_them_says(tmp_path: Path) -> None:
    found = read(tmp_path, fragments(saratoga_data(5000, 3000)), SARATOGA)

    assert content(found) == [("data", "bytes 5000-7999"), *[("IP fragment", "of data")] * 2]
    assert carried_file_bytes(found) == 3000
    assert [message.first_byte for message in found] == [5000, 5000 + 1480 - 8 - 12, 5000 + 2 * 1480 - 8 - 12]


def test_without_its_first_fragment_a_later_one_is_not_placed(tmp_path: Path) -> None:
    (found,) = read(tmp_path, fragments(saratoga_data(5000, 3000))[1:2], SARATOGA)

    assert (found.name, found.first_byte, found.unplaced) == ("IP fragment", None, True)


def test_fragments_of_cfdp_are_placed_too(tmp_path: Path) -> None:
    found = read(tmp_path, fragments(cfdp_data(5000, 3000)), CFDP)

    assert content(found) == [("data", "bytes 5000-7999"), *[("IP fragment", "of data")] * 2]
    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (3000, 0)


def test_tags_of_vlans_do_not_matter(tmp_path: Path) -> None:
    tagged = [octets[:12] + bytes.fromhex("81000007") + octets[12:] for octets in CFDP_RUN]

    assert content(read(tmp_path, tagged, CFDP)) == content(read(tmp_path, CFDP_RUN, CFDP))


@pytest.mark.parametrize("extension", [None, IPv6ExtHdrDestOpt()])
def test_ipv6_is_read_like_ipv4(tmp_path: Path, extension: Packet | None) -> None:
    hosts = {SENDER: "fd00::1", RECEIVER: "fd00::2"}
    session = Session(sender_address="fd00::1", receiver_address="fd00::2", udp_ports=(5222,))
    frames = []
    for octets in CFDP_RUN:
        packet = Ether(octets)
        header = IPv6(src=hosts[packet[IP].src], dst=hosts[packet[IP].dst])
        udp = UDP(sport=40000, dport=5222) / Raw(octets[42:])
        frames.append(bytes(ethernet() / (header / extension / udp if extension else header / udp)))
    found = messages(write_pcap(tmp_path / "x.pcap", timed(frames)), session, CFDP)

    assert content(found) == content(read(tmp_path, CFDP_RUN, CFDP))
    assert carried_file_bytes(found) == 2500


def test_fragments_of_ipv6_are_named_and_not_placed(tmp_path: Path) -> None:
    session = Session(sender_address="fd00::1", receiver_address="fd00::2", udp_ports=(5222,))
    udp = UDP(sport=40000, dport=5222) / Raw(saratoga_data(0, 3000))
    whole = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(id=5) / udp
    frames = [bytes(ethernet() / part) for part in fragment6(whole, 1280)]
    found = messages(write_pcap(tmp_path / "x.pcap", timed(frames)), session, SARATOGA)

    assert len(found) == len(frames) > 1
    assert {(message.name, message.unplaced) for message in found} == {("IP fragment", True)}


def test_a_capture_without_a_link_is_read_too(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed([octets[14:] for octets in CFDP_RUN]))
    octets = bytearray(capture.read_bytes())
    octets[20:24] = struct.pack("<I", 101)  # LINKTYPE_RAW
    capture.write_bytes(octets)

    assert content(messages(capture, SESSION, CFDP)) == content(read(tmp_path, CFDP_RUN, CFDP))


def test_what_no_dissector_is_named_for_is_a_datagram(tmp_path: Path) -> None:
    found = read(tmp_path, CFDP_RUN, ())

    of_sender = {"UDP datagram": 6, "UDP repeat": 1}
    assert message_counts(found) == {"sender": of_sender, "receiver": {"UDP datagram": 3}}
    assert repeated_file_bytes(found) is None


def test_counts_and_bytes_go_by_host_and_name(tmp_path: Path) -> None:
    found = read(tmp_path, CFDP_RUN, CFDP)

    assert message_counts(found)["receiver"] == {"ACK of EOF": 1, "NAK": 1, "Finished": 1}
    assert message_counts(found)["sender"]["data"] == 4
    assert message_bytes(found)["sender"]["data"] == 4 * (42 + 14) + 3500


def test_a_capture_without_packets_of_the_session_has_no_messages(tmp_path: Path) -> None:
    assert read(tmp_path, [bytes(60)], CFDP) == []
    assert read(tmp_path, [], CFDP) == []


# LTP: RFC 5326


def test_segments_of_ltp_have_their_names(tmp_path: Path) -> None:
    report = Report(BLOCK, 9, 5, 2500, 0, (Claim(0, 1000), Claim(2000, 500)))
    frames = [
        red(0, 1000),
        red(1000, 1000, checkpoint=Checkpoint(4, 0)),
        red(2000, 500, checkpoint=Checkpoint(5, 0), ends_red_part=True, ends_block=True),
        frame(ltp(report), RECEIVER_SAYS),
        frame(ltp(ReportAck(BLOCK, 9))),
        frame(ltp(Cancel(BLOCK, True, 2))),
        frame(ltp(CancelAck(BLOCK, True)), RECEIVER_SAYS),
        frame(ltp(DataSegment(BLOCK, 2, 2500, bytes(10), False))),
    ]
    found = read(tmp_path, frames, LTP)

    assert content(found) == [
        ("red data", "bytes 0-999"),
        ("checkpoint", "bytes 1000-1999"),
        ("checkpoint", "bytes 2000-2499, end of block"),
        ("report", "2 claims in bytes 0-2499"),
        ("report-ack", ""),
        ("cancel", "retransmission limit exceeded"),
        ("cancel-ack", ""),
        ("green data", "bytes 2500-2509"),
    ]
    assert found[3].acknowledged_bytes == 1500
    assert content(read(tmp_path, frames, LTP, snaplen=96))[:3] == content(found)[:3]


# Bundles: RFC 5050, CCSDS 734.2-B-1


@pytest.mark.parametrize("snaplen", [262_144, 104])
def test_the_segment_that_begins_a_bundle_is_named_as_the_bundle(tmp_path: Path, snaplen: int) -> None:
    found = read(tmp_path, CUSTODY_RUN, BUNDLES_OVER_LTP, snaplen)

    assert message_counts(found) == {
        "sender": {"green data": 5, "data bundle": 3},
        "receiver": {"aggregate custody signal": 1, "custody signal": 1},
    }
    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (5000, 0)


def test_signals_say_how_many_bytes_of_the_file_the_bundles_had(tmp_path: Path) -> None:
    found = read(tmp_path, CUSTODY_RUN, BUNDLES_OVER_LTP)

    assert [message.acknowledged_bytes for message in found[-2:]] == [3000, 2000]
    assert content(found)[-2:] == [
        ("aggregate custody signal", "2 bundles in 2 fills"),
        ("custody signal", "bytes 2000-3999"),
    ]


def test_an_aggregate_about_bundles_that_were_not_seen_says_no_bytes(tmp_path: Path) -> None:
    found = read(tmp_path, CUSTODY_RUN[3:], BUNDLES_OVER_LTP)

    assert found[-2].acknowledged_bytes is None


def test_where_only_ltp_is_named_segments_have_its_names_and_are_placed_all_the_same(tmp_path: Path) -> None:
    found = read(tmp_path, CUSTODY_RUN, LTP)

    assert message_counts(found) == {"sender": {"green data": 8}, "receiver": {"green data": 2}}
    assert carried_file_bytes(found) == 5000


def test_without_its_begin_the_rest_of_a_bundle_is_not_placed(tmp_path: Path) -> None:
    found = read(tmp_path, CUSTODY_RUN[1:], BUNDLES_OVER_LTP)

    assert [message.unplaced for message in found[:3]] == [True, True, False]


def test_bundles_in_datagrams_are_read_too(tmp_path: Path) -> None:
    found = read(tmp_path, [frame(bundle(0, 900, 1)), frame(AGGREGATE, RECEIVER_SAYS), frame(b"\x07no")], BUNDLES)

    assert [message.name for message in found] == ["data bundle", "aggregate custody signal", "malformed bundle"]
    assert pieces(found)[0] == (0, 900)


# NORM: RFC 5740


def test_messages_of_norm_have_their_names_and_places(tmp_path: Path) -> None:
    frames = [
        frame(norm_data(0, 1000)),
        frame(norm_data(1, 1000)),
        frame(norm_data(2, 1000)),
        frame(norm_data(0, 500, block=1)),
        frame(norm_command(1)),
        frame(norm_ack_of_flush(1, 0), RECEIVER_SAYS),
    ]
    found = read(tmp_path, frames, NORM)

    assert [message.name for message in found] == [
        *("DATA", "DATA", "DATA (parity)", "DATA", "CMD FLUSH", "ACK of FLUSH")
    ]
    assert pieces(found)[:4] == [(0, 1000), (1000, 1000), (None, 0), (2000, 500)]
    assert found[5].acknowledged_bytes == 2500
    assert pieces(read(tmp_path, frames, NORM, snaplen=96)) == pieces(found)


# Saratoga


@pytest.mark.parametrize("version", [version0, version1])
def test_packets_of_saratoga_have_their_names_and_places(tmp_path: Path, version: ModuleType) -> None:
    pack = version.pack
    common: dict[str, Any] = {"session": 1, "descriptor_bits": 32}
    data = {**common, "payload": bytes(1000), "asks": False, "ends": False, "timestamp": b""}
    status = Status(
        **common,
        code=0,
        progress=1000,
        in_response_to=3000,
        holes=((1000, 2000),),
        partial=False,
        voluntary=False,
        metadata_missing=False,
        timestamp=b"",
    )
    sent = [
        frame(pack(Request(**common, action=1, name="x")), RECEIVER_SAYS),
        frame(pack(Metadata(**common, file_bytes=3000, name="x", checksum="none", digest=b""))),
        *(frame(pack(Data(**data, offset=offset))) for offset in (0, 1000, 2000)),
        frame(pack(status), RECEIVER_SAYS),
    ]
    found = read(tmp_path, sent, SARATOGA)

    assert [message.name for message in found] == ["request", "metadata", "data", "data", "data", "status"]
    assert pieces(found)[2:5] == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert (found[5].detail, found[5].acknowledged_bytes) == ("1 hole, everything received before byte 1000", 2000)


# TCP: RFC 9293


@pytest.mark.parametrize("isn", [0, 2**32 - 1500])
def test_segments_of_tcp_have_their_names_and_places(tmp_path: Path, isn: int) -> None:
    frames = [
        segment("S", isn),
        segment("SA", 70, isn + 1, by=RECEIVER_SAYS),
        segment("A", isn + 1, 71),
        segment("A", isn + 1, 71, 1000),
        segment("A", isn + 1001, 71, 1000),
        segment("A", isn + 2001, 71, 1000),
        segment("A", 71, isn + 1001, by=RECEIVER_SAYS),
        segment("A", 71, isn + 1001, by=RECEIVER_SAYS),
        segment("A", isn + 1001, 71, 1000),
        segment("FA", isn + 3001, 71),
        segment("A", 71, isn + 3002, by=RECEIVER_SAYS),
        segment("R", isn + 3002),
    ]
    found = read(tmp_path, frames, TCP_FILE)

    assert [message.name for message in found] == [
        *("SYN", "SYN-ACK", "ACK", "data", "data", "data", "ACK", "dup ACK", "retransmission", "FIN", "ACK", "RST")
    ]
    assert pieces(found)[3:6] == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert [message.acknowledged_bytes for message in found if message.name == "ACK"] == [None, 1000, 3000]
    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (3000, 1000)


def test_octets_of_resets_and_keep_alives_are_no_data(tmp_path: Path) -> None:
    frames = [
        *handshake(),
        segment("A", 100, 71, 1),
        segment("A", 101, 71, 1000),
        segment("A", 1100, 71, 1),
        segment("R", 1101, 0, 22),
    ]
    found = read(tmp_path, frames, TCP_FILE)

    assert [message.name for message in found[3:]] == ["keep alive", "data", "keep alive", "RST"]
    assert pieces(found)[3:] == [(None, 0), (0, 1000), (None, 0), (None, 0)]
    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (1000, 0)


def test_a_header_of_tcp_at_its_limits_changes_no_place(tmp_path: Path) -> None:
    """40 octets of options, urgent data, every bit of ECN and every reserved one (RFC 9293, section 3.1)."""
    ports = {"sport": 40000, "dport": 5223, "window": 0xFFFF}
    header = TCP(flags="AUPEC", seq=101, ack=71, reserved=7, urgptr=0xFFFF, options=[("NOP", None)] * 40, **ports)
    full = bytes(ethernet() / IP(src=SENDER, dst=RECEIVER) / header / Raw(bytes(1000)))
    found = read(tmp_path, [*handshake(), full], TCP_FILE)

    assert (content(found)[3], pieces(found)[3]) == (("data", "bytes 0-999"), (0, 1000))


def test_a_reset_with_a_reason_as_text_carries_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, [segment("S", 100), segment("RA", 0, 101, 22, by=RECEIVER_SAYS)], TCP_FILE)
    without_syn = read(tmp_path, [segment("R", 101, 0, 22)], TCP_FILE)

    assert carried_file_bytes([*found, *without_syn]) == 0


def test_data_in_a_syn_is_the_begin_of_the_stream(tmp_path: Path) -> None:
    """RFC 7413."""
    frames = [segment("S", 100, 0, 50), segment("SA", 70, 151, by=RECEIVER_SAYS), segment("A", 151, 71, 100)]
    found = read(tmp_path, frames, TCP_FILE)

    assert pieces(found) == [(0, 50), (None, 0), (50, 100)]
    assert [message.name for message in found] == ["SYN", "SYN-ACK", "data"]


def test_a_connection_that_is_not_said_to_be_the_file_has_no_places(tmp_path: Path) -> None:
    frames = [segment("S", 5), segment("A", 6, 1, 1000)]

    assert [message.unplaced for message in read(tmp_path, frames, ())] == [False, True]


def test_where_the_capture_began_later_than_the_connection_nothing_is_placed(tmp_path: Path) -> None:
    (found,) = read(tmp_path, [segment("A", 6, 1, 1000)], TCP_FILE)

    assert (found.first_byte, found.byte_count, found.unplaced) == (None, 1000, True)


def names(found: Sequence[Message]) -> list[str]:
    return [message.name for message in found]


def test_a_damaged_syn_does_not_make_data_retransmissions(tmp_path: Path) -> None:
    data = [segment("A", 101 + 1000 * n, 71, 1000) for n in range(4)]
    found = read(tmp_path, [*handshake()[:2], damaged_syn(), handshake()[2], *data, data[1]], TCP_FILE)

    assert names(found) == ["SYN", "SYN-ACK", "damaged SYN", "ACK", *["data"] * 4, "retransmission"]
    assert (carried_file_bytes(found), repeated_file_bytes(found)) == (4000, 1000)


def test_a_damaged_syn_that_nothing_shows_is_corrected_by_the_syn_ack(tmp_path: Path) -> None:
    data = [segment("A", 101 + 1000 * n, 71, 1000) for n in range(3)]
    wrong = segment("S", 100 ^ 0x40000000)
    found = read(tmp_path, [wrong, *handshake()[1:2], wrong, *handshake()[2:], *data, data[0]], TCP_FILE)

    assert names(found)[4:] == ["data", "data", "data", "retransmission"]
    assert pieces(found)[4:] == [(0, 1000), (1000, 1000), (2000, 1000), (0, 1000)]


def test_damaged_data_is_not_what_makes_the_next_a_retransmission(tmp_path: Path) -> None:
    hit = bytearray(segment("A", 101, 71, 1000))
    hit[-1] ^= 1
    found = read(tmp_path, [*handshake(), bytes(hit), segment("A", 101, 71, 1000)], TCP_FILE)

    assert names(found)[3:] == ["damaged data", "data"]


def test_what_is_sent_again_is_known_without_a_syn(tmp_path: Path) -> None:
    data = [segment("A", number, 71, 1000) for number in (5000, 6000, 4000, 5000)]

    assert names(read(tmp_path, data, TCP_FILE)) == ["data", "data", "data", "retransmission"]


@pytest.mark.parametrize("ending", ["FA", "R"])
def test_a_new_connection_of_the_same_ports_begins_anew(tmp_path: Path, ending: str) -> None:
    first = [*handshake(), segment("A", 101, 71, 1000), segment(ending, 1101, 71)]
    second = [*handshake(900, 800), segment("A", 901, 801, 1000)]
    found = read(tmp_path, [*first, *second], TCP_FILE)

    assert names(found)[-1] == "data"
    assert found[-1].unplaced  # two connections filled the file


# SCTP: RFC 9260


def sctp(number: int, before: Packet | None = None, *, count: int = 100) -> Packet:
    """A packet with a DATA chunk; `before` are the headers before it."""
    chunk = SCTPChunkData(tsn=number, data=bytes(count), beginning=1, ending=1)
    header = before or ethernet() / IP(src=SENDER, dst=RECEIVER, id=number)
    return header / SCTP(sport=40000, dport=5224, tag=7) / chunk


def test_a_wrong_checksum_of_sctp_shows_the_damage(tmp_path: Path) -> None:
    frames = [bytes(sctp(number)) for number in (1, 2, 3)]
    found = read(tmp_path, [frames[0], flip(frames[1], 8 * 90), frames[1], frames[2]], ())

    assert names(found) == ["DATA", "damaged DATA", "DATA", "DATA"]
    assert [message.is_refused for message in found] == [False, True, False, False]


def test_checksums_of_sctp_that_a_card_fills_in_are_no_damage(tmp_path: Path) -> None:
    frames = [bytes(sctp(number)) for number in range(3)]

    assert names(read(tmp_path, [frame[:42] + bytes(4) + frame[46:] for frame in frames], ())) == ["DATA"] * 3


def test_fragments_of_a_packet_of_sctp_are_of_its_chunks(tmp_path: Path) -> None:
    frames = [bytes(each) for each in fragment(sctp(7, count=1400), fragsize=600)]
    found = read(tmp_path, [*frames, bytes(sctp(8))], ())

    assert content(found) == [("DATA", "TSN 7, 1400 B"), *[("IP fragment", "of DATA")] * 2, ("DATA", "TSN 8, 100 B")]


def test_sctp_is_read_behind_the_extension_headers_of_ipv6(tmp_path: Path) -> None:
    header = ethernet() / IPv6(src=SENDER_6, dst=RECEIVER_6)
    extended = [header, header / IPv6ExtHdrDestOpt(), header / IPv6ExtHdrFragment(nh=132)]
    frames = [bytes(sctp(number, before)) for number, before in enumerate(extended)]
    found = messages(write_pcap(tmp_path / "x.pcap", timed(frames)), SESSION_6, ())

    assert content(found) == [("DATA", f"TSN {number}, 100 B") for number in range(3)]


def test_the_padding_of_a_short_frame_is_no_chunk(tmp_path: Path) -> None:
    short = bytes(ethernet() / IP(src=SENDER, dst=RECEIVER) / SCTP(sport=40000, dport=5224) / SCTPChunkCookieAck())

    assert names(read(tmp_path, [short.ljust(60, b"\0")], ())) == ["COOKIE ACK"]


# QUIC: RFC 9000, RFC 9369

LONG_HEADER_KINDS = {
    1: ("Initial", "0-RTT", "Handshake", "Retry"),
    0x6B3343CF: ("Retry", "Initial", "0-RTT", "Handshake"),
}


@pytest.mark.parametrize("version", LONG_HEADER_KINDS)
def test_long_headers_of_both_versions_of_quic_have_their_names(tmp_path: Path, version: int) -> None:
    quic = ("-d", "udp.port==5222,quic")
    for kind, name in enumerate(LONG_HEADER_KINDS[version]):
        token = b"\0" if name == "Initial" else b""
        head = bytes([0xC0 | kind << 4]) + version.to_bytes(4, "big") + b"\x04abcd\x04efgh" + token
        (found,) = read(tmp_path, [frame(head + (b"" if name == "Retry" else b"\x40\x50") + bytes(80))], quic)

        assert found.name == name
