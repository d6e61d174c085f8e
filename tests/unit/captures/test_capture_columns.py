"""What the columns say of frames, held against scapy."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import ICMPv6ND_RS, IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.packet import Raw

from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.decoding import Kind, hash_spans
from tests.unit.captures.any_headers import DATAGRAMS, HEADERS_6, LAYERS, SEGMENTS, headers, ports
from tests.unit.captures.making import (
    DATA,
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SENDER_6,
    ethernet,
    flip,
    timed,
    udp_frame,
    write_pcap,
)

"""No shrinking, for each example starts tshark."""
SLOW_HEADS = [bytes(ethernet())[:12] + bytes.fromhex(rest) for rest in ("81000005", "88a800058100", "86dd60", "86dd")]

payloads = st.binary(max_size=200).map(Raw)
segments = st.sampled_from([UDP, TCP, SCTP]).flatmap(lambda layer: st.builds(layer, sport=ports, dport=ports))
packets = st.builds(
    lambda header, segment, payload: ethernet() / header / segment / payload, headers, segments, payloads
)


def columns_of(path: Path, frames: list[bytes]) -> Columns:
    return read_columns(write_pcap(path / "x.pcap", timed(frames)))


def kind_of(path: Path, frame: bytes) -> Kind:
    return Kind(columns_of(path, [frame]).kind[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(packets, max_size=20))
def test_the_columns_of_any_udp_tcp_and_sctp_packets_are_what_scapy_put_there(
    tmp_path: Path, made: list[Ether]
) -> None:
    columns = columns_of(tmp_path, [bytes(packet) for packet in made])
    for row, packet in enumerate(made):
        header, segment = packet[IP], packet[IP].payload
        assert str(IPv4Address(int(columns.source[row]))) == header.src
        assert str(IPv4Address(int(columns.destination[row]))) == header.dst
        assert columns.identification[row] == header.id
        assert (columns.source_port[row], columns.destination_port[row]) == (segment.sport, segment.dport)
        assert columns.kind[row] == Kind[segment.name]
        assert columns.wire_bytes[row] == len(packet)


@pytest.mark.parametrize(
    ("packet", "kind"),
    [
        (ethernet() / IP() / ICMP(), Kind.ICMP),
        (ethernet() / IP(proto=2) / Raw(bytes(8)), Kind.IGMP),
        (ethernet() / IP(proto=47) / Raw(bytes(8)), Kind.OTHER_IPV4),
        (ethernet() / IP(frag=0, flags="MF") / UDP() / Raw(bytes(8)), Kind.FRAGMENT),
        (ethernet() / IP(frag=185, proto=17) / Raw(bytes(8)), Kind.FRAGMENT),
        (ethernet() / IP(proto=17) / Raw(bytes(3)), Kind.MALFORMED_IPV4),
        (ethernet() / IP(version=5) / UDP(), Kind.MALFORMED_IPV4),
        (ethernet() / IP(ihl=4) / UDP(), Kind.MALFORMED_IPV4),
        (ethernet() / IP(len=19) / UDP(), Kind.MALFORMED_IPV4),
        (ethernet() / IP(len=19, flags="MF") / UDP(), Kind.MALFORMED_IPV4),
        (ethernet() / ARP(), Kind.ARP),
        (ethernet() / IPv6() / ICMPv6ND_RS(), Kind.IPV6),
        (ethernet() / IPv6(version=4) / UDP(), Kind.IPV6),
        (ethernet() / IPv6() / UDP(), Kind.UDP),
        (ethernet() / IPv6() / SCTP(), Kind.SCTP),
        (ethernet() / IP(proto=132) / Raw(bytes(3)), Kind.MALFORMED_IPV4),
        (ethernet() / IPv6() / IPv6ExtHdrFragment(m=1, nh=17) / UDP(), Kind.FRAGMENT),
        (ethernet() / IPv6() / IPv6ExtHdrFragment(nh=17) / UDP(), Kind.UDP),
        (ethernet() / Dot1Q(vlan=5) / IP() / TCP(), Kind.TCP),
        (ethernet() / Dot1Q(vlan=5) / IP(ihl=4) / TCP(), Kind.MALFORMED_IPV4),
        (ethernet() / Dot1Q(vlan=5) / ARP(), Kind.ARP),
        (ethernet() / Dot1Q(vlan=5, type=0x88CC) / Raw(bytes(40)), Kind.VLAN),
        (Ether(type=0x0801) / IP() / UDP(), Kind.OTHER),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_every_other_frame_is_named_by_its_kind(tmp_path: Path, packet: Ether, kind: Kind) -> None:
    assert kind_of(tmp_path, bytes(packet)) == kind


def test_frames_shorter_than_any_header_are_rows_too(tmp_path: Path) -> None:
    frame = udp_frame(b"")
    columns = columns_of(tmp_path, [frame[:length] for length in range(len(frame))])
    assert len(columns) == len(frame)
    assert Kind.UDP not in columns.kind[:38]  # the ports end at byte 38
    assert (columns.kind[38:] == Kind.UDP).all()


def test_a_short_frame_is_not_read_beyond_its_end(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, [udp_frame(b"")[:13], udp_frame(b"")])
    assert columns.kind.tolist() == [Kind.OTHER, Kind.UDP]
    assert columns.source[0] == 0


def test_padding_behind_the_packet_does_not_change_its_hash(tmp_path: Path) -> None:
    frame = udp_frame(b"ack")
    columns = columns_of(tmp_path, [frame, frame + bytes(15)])
    assert columns.body_hash[0] == columns.body_hash[1]


def test_every_flipped_bit_changes_one_of_the_hashes_or_the_checksum(tmp_path: Path) -> None:
    frame = udp_frame(bytes(range(77)))
    columns = columns_of(tmp_path, [frame, *(flip(frame, bit) for bit in range(8 * len(frame)))])
    hashes = (columns.header_hash, columns.body_hash, columns.checksum)
    all_three = set(zip(*(values.tolist() for values in hashes), strict=True))
    assert len(all_three) == 8 * len(frame) + 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=60))
def test_bodies_hash_equally_exactly_when_they_are_equal(tmp_path: Path, payloads: list[bytes]) -> None:
    columns = columns_of(tmp_path, [udp_frame(payload) for payload in payloads])
    assert len(np.unique(columns.body_hash)) == len(set(payloads))


def test_spans_that_differ_only_in_zeros_at_the_end_hash_differently() -> None:
    data = np.zeros(100, np.uint8)
    hashes = hash_spans(data, np.zeros(20, np.int64), np.arange(20))
    assert len(np.unique(hashes)) == 20


def test_hashes_over_the_same_bytes_are_equal_whatever_the_snapshot_length(tmp_path: Path) -> None:
    frames = timed([udp_frame(bytes([n]) * 300) for n in range(9)])
    whole = read_columns(write_pcap(tmp_path / "whole.pcap", frames), hashed_bytes=96)
    cut = read_columns(write_pcap(tmp_path / "cut.pcap", frames, snaplen=96), hashed_bytes=96)
    assert (whole.body_hash == cut.body_hash).all()
    assert (whole.header_hash == cut.header_hash).all()


def test_a_real_capture_has_the_kinds_that_were_sent() -> None:
    columns = read_columns(DATA / "mixed-sender.pcap")
    counts = {Kind(kind): int(count) for kind, count in zip(*np.unique(columns.kind, return_counts=True), strict=True)}
    # 12 datagrams, one of them in three fragments, each with a reply; 12 TCP segments; two more datagrams
    # to closed ports, each with an ICMP error.
    assert counts[Kind.UDP] == 11 + 12 + 2
    assert counts[Kind.FRAGMENT] == 3
    assert counts[Kind.TCP] == 12
    assert counts[Kind.ICMP] == counts[Kind.ARP] == 2


def test_addresses_are_those_of_the_two_hosts() -> None:
    columns = read_columns(DATA / "netem-tcp-sender.pcap")
    hosts = {str(IPv4Address(int(address))) for address in np.unique(columns.source[columns.kind == Kind.TCP])}
    assert hosts == {SENDER, RECEIVER}


def test_a_payload_has_the_same_hash_behind_any_headers(tmp_path: Path) -> None:
    payload = Raw(bytes(range(256)) * 2)
    segment, ports = {"seq": 7, "flags": "A"}, {"sport": 40000, "dport": 5222}
    told = [("Timestamp", (1, 2))]
    packets = [
        ethernet() / IP() / UDP(**ports) / payload,
        ethernet() / IP(options=[IPOption_NOP()] * 4) / UDP(**ports) / payload,
        ethernet() / IP() / TCP(**ports, **segment) / payload,
        ethernet() / IP() / TCP(**ports, **segment, options=told) / payload,
        ethernet() / Dot1Q(vlan=5) / IP() / UDP(**ports) / payload,
        ethernet() / IPv6() / UDP(**ports) / payload,
    ]
    columns = columns_of(tmp_path, [*map(bytes, packets), bytes(packets[0]) + bytes(9)])
    assert columns.payload_bytes.tolist() == [512] * 7
    assert len(set(columns.payload_hash.tolist())) == 1


JUMBO = 80_000


def big_tcp(payload_bytes: int, option: int | None) -> bytes:
    """An IPv6 packet with TCP whose payload length is 0; the option for jumbograms has this length, None: no option."""
    segment = bytes(TCP(sport=50000, dport=5223, seq=9)) + bytes(payload_bytes)
    extension = b"" if option is None else struct.pack("!BBBBI", 6, 0, 0xC2, 4, option)
    header = struct.pack("!IHBB", 6 << 28, 0, 6 if option is None else 0, 64)
    addresses = IPv6Address(SENDER_6).packed + IPv6Address(RECEIVER_6).packed
    return bytes(ethernet())[:12] + b"\x86\xdd" + header + addresses + extension + segment


@pytest.mark.parametrize("option", [None, 8 + 20 + JUMBO, 8 + 20 + JUMBO + 5000])
def test_an_ipv6_packet_with_a_payload_length_of_0_has_that_of_its_option_or_of_its_frame(
    tmp_path: Path, option: int | None
) -> None:
    columns = columns_of(tmp_path, [big_tcp(JUMBO, option)])
    assert (columns.kind[0], columns.source_port[0], columns.payload_bytes[0]) == (Kind.TCP, 50000, JUMBO)


def test_the_length_in_the_option_counts_if_it_is_less_than_that_of_the_frame(tmp_path: Path) -> None:
    assert columns_of(tmp_path, [big_tcp(JUMBO, 8 + 20 + 70_000)]).payload_bytes[0] == 70_000


@pytest.mark.parametrize(("payload_bytes", "option"), [(100, None), (100, 128), (JUMBO, 128)])
def test_a_payload_length_of_0_without_a_valid_jumbogram_is_an_empty_packet(
    tmp_path: Path, payload_bytes: int, option: int | None
) -> None:
    """An empty packet with something behind it, and an option that only longer packets may have (RFC 2675)."""
    columns = columns_of(tmp_path, [big_tcp(payload_bytes, option)])
    assert (columns.source_port[0], columns.payload_bytes[0]) == (0, 0)


def test_of_a_udp_length_shorter_than_the_packet_only_that_much_is_payload(tmp_path: Path) -> None:
    short, cut = (
        bytes(ethernet() / IP() / UDP(sport=1, dport=2, len=8 + length) / Raw(b"abcdefgh"[:size]))
        for length, size in ((3, 8), (3, 3))
    )
    columns = columns_of(tmp_path, [short, cut])
    assert columns.payload_bytes.tolist() == [3, 3]
    assert columns.payload_hash[0] == columns.payload_hash[1]
    assert columns.body_hash[0] != columns.body_hash[1]


def test_a_length_that_claims_more_than_was_sent_counts_only_what_was_sent(tmp_path: Path) -> None:
    frames = [bytes(ethernet() / IP(len=1400) / UDP(sport=1, dport=2, len=1300) / Raw(bytes(100)))]
    assert columns_of(tmp_path, frames).payload_bytes.tolist() == [100]


def test_payloads_of_cut_frames_hash_equally_as_far_as_both_are_hashed(tmp_path: Path) -> None:
    frames = timed([udp_frame(bytes([n]) * 300) for n in range(9)])
    whole = read_columns(write_pcap(tmp_path / "whole.pcap", frames), hashed_bytes=96)
    cut = read_columns(write_pcap(tmp_path / "cut.pcap", frames, snaplen=96), hashed_bytes=96)
    assert (whole.payload_hash == cut.payload_hash).all()
    assert cut.payload_bytes.tolist() == [300] * 9
    assert len(set(cut.payload_hash.tolist())) == 9


def test_a_header_cut_within_its_options_leaves_body_hashes_comparable(tmp_path: Path) -> None:
    options = [("NOP", None)] * 40
    frames = timed([bytes(ethernet() / IP() / TCP(sport=n, dport=5223, options=options) / b"x") for n in range(1, 5)])
    for hashed_bytes in range(34, 110):
        whole = read_columns(write_pcap(tmp_path / "whole.pcap", frames), hashed_bytes)
        cut = read_columns(write_pcap(tmp_path / "cut.pcap", frames, snaplen=hashed_bytes), hashed_bytes)
        assert (whole.body_hash == cut.body_hash).all()
        assert (whole.payload_hash == cut.payload_hash).all()


def test_spans_of_many_lengths_hash_as_each_does_alone() -> None:
    data = np.random.default_rng(1).integers(0, 256, 60_000, dtype=np.uint8)
    lengths = np.random.default_rng(2).integers(0, 9_000, 400)
    starts = np.random.default_rng(3).integers(0, 40_000, 400)
    alone = [hash_spans(data, starts[n : n + 1], lengths[n : n + 1])[0] for n in range(400)]
    assert hash_spans(data, starts, lengths).tolist() == alone


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(st.lists(st.tuples(LAYERS, headers | HEADERS_6, DATAGRAMS | SEGMENTS, st.binary(max_size=24)), max_size=40))
def test_payloads_behind_any_headers_hash_equally_exactly_when_they_are_equal(
    tmp_path: Path, parts: list[tuple[Ether, IP, UDP, bytes]]
) -> None:
    payloads = [payload for *_, payload in parts]
    frames = [bytes(lower / header / segment / Raw(payload)) for lower, header, segment, payload in parts]
    columns = columns_of(tmp_path, frames)
    assert columns.payload_bytes.tolist() == [len(payload) for payload in payloads]
    assert len(set(columns.payload_hash.tolist())) == len(set(payloads))
    assert all(
        value == 0 for value, payload in zip(columns.payload_hash.tolist(), payloads, strict=True) if not payload
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(st.builds(lambda head, rest: head + rest, st.sampled_from(SLOW_HEADS), st.binary(max_size=120))))
def test_whatever_is_behind_tags_and_in_ipv6_is_a_row(tmp_path: Path, frames: list[bytes]) -> None:
    columns = columns_of(tmp_path, frames)
    assert len(columns) == len(frames) == columns.slow_frames
