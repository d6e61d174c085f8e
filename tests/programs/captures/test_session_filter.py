"""The frames of a session are those that pass its filter in tshark, also if some are damaged."""

from __future__ import annotations

from functools import reduce
from operator import truediv
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from owlt.captures.frames.session import Host, summary_filter
from tests.unit.captures.making import (
    DATA,
    GROUP,
    GROUP_6,
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SENDER_6,
    SESSION,
    SESSION_6,
    ethernet,
    flip,
    sctp_frame,
    tcp_frame,
    timed,
    tshark_rows,
    udp_frame,
    write_pcap,
)
from tests.unit.captures.test_capture_session import rows_of

HOSTS: tuple[Host, ...] = ("sender", "receiver")

HEADERS_END_BIT = 8 * 54

UDP_PAYLOADS_BYTES, TCP_PAYLOADS_BYTES = (0, 1, 10, 228, 996), (0, 984, 988)
"""With 28, 256 and 1024 bytes of IPv4, one flipped bit makes their total length too short for ports, or 0."""


def assert_same_as_tshark(capture: Path, *options: str) -> int:
    """Returns how many frames passed."""
    passed = 0
    for host in HOSTS:
        rows = rows_of(capture, host)
        passed += len(rows)
        assert rows == tshark_rows(capture, summary_filter(SESSION, host), *options)
    return passed


@pytest.mark.parametrize("capture", sorted(DATA.glob("*.pcap")), ids=lambda path: path.stem)
def test_a_real_capture_passes_the_frames_that_tshark_passes(capture: Path) -> None:
    assert assert_same_as_tshark(capture) > 20


def test_fragments_pass_also_when_tshark_does_not_reassemble() -> None:
    assert assert_same_as_tshark(DATA / "mixed-sender.pcap", "-o", "ip.defragment:FALSE") > 20


def test_with_any_one_bit_of_a_udp_frame_flipped_the_same_frames_pass_as_in_tshark(tmp_path: Path) -> None:
    frames = [udp_frame((bytes(range(256)) * 4)[:payload_bytes]) for payload_bytes in UDP_PAYLOADS_BYTES]
    flipped = [flip(frame, bit) for frame in frames for bit in range(min(8 * len(frame), HEADERS_END_BIT))]
    capture = write_pcap(tmp_path / "x.pcap", timed(flipped))
    assert 0 < assert_same_as_tshark(capture) < len(flipped)


def test_with_any_one_bit_of_a_tcp_frame_flipped_the_same_frames_pass_as_in_tshark(tmp_path: Path) -> None:
    payloads = [(bytes(range(256)) * 4)[:payload_bytes] for payload_bytes in TCP_PAYLOADS_BYTES]
    frames = [tcp_frame(payload, source=RECEIVER, destination=SENDER) for payload in payloads]
    flipped = [flip(frame, bit) for frame in frames for bit in range(HEADERS_END_BIT)]
    capture = write_pcap(tmp_path / "x.pcap", timed(flipped))
    assert 0 < assert_same_as_tshark(capture) < len(flipped)


def test_with_any_one_bit_of_an_sctp_frame_flipped_the_same_frames_pass_as_in_tshark(tmp_path: Path) -> None:
    frames = [sctp_frame(bytes(payload_bytes), RECEIVER, SENDER) for payload_bytes in UDP_PAYLOADS_BYTES]
    flipped = [flip(frame, bit) for frame in frames for bit in range(HEADERS_END_BIT)]
    capture = write_pcap(tmp_path / "x.pcap", timed(flipped))
    assert 0 < assert_same_as_tshark(capture) < len(flipped)


ADDRESSES = st.sampled_from([SENDER, SENDER, RECEIVER, RECEIVER, GROUP, "10.77.0.3"])

PORTS = st.sampled_from([5222, 5223, 40000, 53])

HEADERS = st.builds(
    lambda src, dst, flags, frag, options: IP(
        src=src, dst=dst, flags=flags, frag=frag, options=[IPOption_NOP()] * options
    ),
    ADDRESSES,
    ADDRESSES,
    st.sampled_from(["DF", "DF", "", "MF"]),
    st.sampled_from([0, 0, 0, 185]),
    st.sampled_from([0, 0, 0, 4]),
)

SEGMENTS = st.builds(UDP, sport=PORTS, dport=PORTS) | st.builds(TCP, sport=PORTS, dport=PORTS)

QUOTES = st.builds(lambda src, dst: ICMP(type=3, code=3) / IP(src=src, dst=dst) / UDP(sport=5222), ADDRESSES, ADDRESSES)

TUNNELS = st.builds(lambda src, dst: IP(src=src, dst=dst) / UDP(sport=5222, dport=5222), ADDRESSES, ADDRESSES)

TAGGED = (ethernet() / Dot1Q(vlan=5), ethernet() / Dot1AD(vlan=7) / Dot1Q(vlan=5))

VLAN_TAGS = (b"\x81\x00", b"\x88\xa8")

LOWER = st.sampled_from([ethernet(), ethernet(), ethernet(), *TAGGED])

SIZES = st.sampled_from([0, 1, 3, 4, 10, 20, 100, 228, 996])

PACKETS = st.builds(
    lambda lower, header, upper, size: bytes(lower / header / upper / Raw(bytes(size))),
    LOWER,
    HEADERS,
    SEGMENTS | SEGMENTS | QUOTES | TUNNELS,
    SIZES,
) | st.sampled_from([bytes(ethernet() / ARP()), bytes(ethernet() / IPv6() / UDP(dport=5222))])

ADDRESSES_6 = st.sampled_from([SENDER_6, SENDER_6, RECEIVER_6, RECEIVER_6, GROUP_6, "2001:db8::3"])

EXTENSIONS = st.lists(
    st.sampled_from([IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrRouting(addresses=["2001:db8::3"])]),
    max_size=2,
)

FRAGMENT_HEADERS = st.builds(
    lambda offset, more, number: [IPv6ExtHdrFragment(offset=offset, m=more, id=number)],
    st.sampled_from([0, 0, 20]),
    st.sampled_from([0, 1]),
    st.integers(1, 3),
)

HEADERS_6 = st.builds(
    lambda src, dst, before, fragment, behind: reduce(truediv, [*before, *fragment, *behind], IPv6(src=src, dst=dst)),
    ADDRESSES_6,
    ADDRESSES_6,
    EXTENSIONS,
    st.just([]) | st.just([]) | FRAGMENT_HEADERS,
    st.just([]) | EXTENSIONS,
)

QUOTES_6 = st.builds(lambda header: ICMPv6DestUnreach(code=4) / header / UDP(sport=5222), HEADERS_6)

TUNNELS_6 = st.builds(lambda header: header / UDP(sport=5222, dport=5222), HEADERS | HEADERS_6)

PACKETS_6 = (
    st.builds(
        lambda lower, header, upper, size: bytes(lower / header / upper / Raw(bytes(size))),
        LOWER,
        HEADERS_6,
        SEGMENTS | SEGMENTS | QUOTES_6 | TUNNELS_6,
        SIZES,
    )
    | PACKETS
)

FLIPS = st.lists(st.integers(0, HEADERS_END_BIT - 1), max_size=3)


def damaged(frame: bytes, bits: list[int]) -> bytes:
    for bit in bits:
        if bit < 8 * len(frame):
            frame = flip(frame, bit)
    return frame


def has_whole_ipv4_header(frame: bytes) -> bool:
    """Whether the header is as long as it says, also behind VLAN tags: see `Session` on frames where it is not."""
    start = 14
    while frame[start - 2 : start] in VLAN_TAGS:
        start += 4
    return len(frame) < start + 20 or len(frame) >= start + 4 * (frame[start] & 15)


def examples_of(strategy: st.SearchStrategy[list[bytes]]) -> list[bytes]:
    """The frames of eight examples, for one capture: a start of tshark takes longer than what it reads."""
    frames: list[bytes] = []

    @settings(max_examples=8, phases=(Phase.generate,), database=None)
    @given(strategy)
    def collect(example: list[bytes]) -> None:
        frames.extend(example)

    collect()
    return frames


def damaged_copies(packets: list[tuple[bytes, tuple[list[int], ...]]]) -> list[bytes]:
    """Four damaged copies of each packet, for making packets takes most of the time."""
    frames = [damaged(packet, flips) for packet, each in packets for flips in each]
    return [frame for frame in frames if has_whole_ipv4_header(frame)]


def test_any_frames_pass_that_tshark_passes_and_no_others(tmp_path: Path) -> None:
    packets = st.lists(st.tuples(PACKETS, st.tuples(FLIPS, FLIPS, FLIPS, FLIPS)), min_size=40, max_size=100)
    frames = examples_of(packets.map(damaged_copies))
    assert_same_as_tshark(write_pcap(tmp_path / "x.pcap", timed(frames)))


def test_any_ipv6_packets_pass_that_tshark_passes_and_no_others(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed(examples_of(st.lists(PACKETS_6, min_size=60, max_size=120))))
    for host in HOSTS:
        rows = rows_of(capture, host, SESSION_6)
        for options in ((), ("-o", "ipv6.defragment:FALSE")):
            assert rows == tshark_rows(capture, summary_filter(SESSION_6, host), *options)


@pytest.mark.parametrize("lower", TAGGED, ids=["802.1Q", "802.1ad"])
def test_tagged_frames_belong_as_untagged_ones_do(tmp_path: Path, lower: Ether) -> None:
    packet = IP(src=SENDER, dst=RECEIVER) / UDP(sport=40000, dport=5222) / Raw(b"data")
    capture = write_pcap(tmp_path / "x.pcap", timed([bytes(ethernet() / packet), bytes(lower / packet)]))
    assert rows_of(capture, "sender") == [0, 1] == tshark_rows(capture, summary_filter(SESSION))


@pytest.mark.parametrize("tagged", [False, True])
def test_with_any_one_bit_of_an_ipv6_frame_flipped_the_same_frames_pass_as_in_tshark(
    tmp_path: Path, tagged: bool
) -> None:
    lower = TAGGED[1] if tagged else ethernet()
    frame = bytes(lower / IPv6(src=SENDER_6, dst=RECEIVER_6) / UDP(sport=40000, dport=5222) / Raw(bytes(100)))
    capture = write_pcap(tmp_path / "x.pcap", timed(flip(frame, bit) for bit in range(8 * len(lower) + 8 * 48)))
    rows = rows_of(capture, "sender", SESSION_6)
    assert 100 < len(rows) < 450
    assert rows == tshark_rows(capture, summary_filter(SESSION_6, "sender"))


def test_with_any_one_bit_of_a_tagged_frame_flipped_the_same_frames_pass_as_in_tshark(tmp_path: Path) -> None:
    frame = bytes(TAGGED[1] / IP(src=SENDER, dst=RECEIVER) / UDP(sport=40000, dport=5222) / Raw(bytes(100)))
    capture = write_pcap(tmp_path / "x.pcap", timed(flip(frame, bit) for bit in range(8 * 50)))
    assert 50 < assert_same_as_tshark(capture) < 400


def test_a_session_of_ipv6_has_no_packets_of_ipv4_whose_addresses_are_its_indices(tmp_path: Path) -> None:
    packets = [
        IPv6(src=SENDER_6, dst=RECEIVER_6) / UDP(sport=40000, dport=5222),
        IP(src="0.0.0.0", dst="0.0.0.1") / UDP(sport=40000, dport=5222),
    ]
    capture = write_pcap(tmp_path / "x.pcap", timed(bytes(ethernet() / packet) for packet in packets))
    assert rows_of(capture, "sender", SESSION_6) == [0] == tshark_rows(capture, summary_filter(SESSION_6))


def test_a_fragment_whose_length_is_shorter_than_its_header_does_not_belong(tmp_path: Path) -> None:
    frame = bytes(ethernet() / IP(src=SENDER, dst=RECEIVER, len=19, flags="MF") / UDP(dport=5222))
    capture = write_pcap(tmp_path / "x.pcap", timed([frame]))
    assert rows_of(capture, "sender") == [] == tshark_rows(capture, summary_filter(SESSION))


def test_both_hosts_packets_pass_the_filter_without_a_host() -> None:
    capture = DATA / "mixed-sender.pcap"
    both = sorted(rows_of(capture, "sender") + rows_of(capture, "receiver"))
    assert both == tshark_rows(capture, summary_filter(SESSION))


def test_headers_alone_pass_as_whole_frames_do(tmp_path: Path) -> None:
    frames = timed([udp_frame(bytes(200)), tcp_frame(bytes(200)), udp_frame(bytes(200), port=7)])
    cut = write_pcap(tmp_path / "cut.pcap", frames, snaplen=42)
    assert rows_of(cut, "sender") == [0, 1] == tshark_rows(cut, summary_filter(SESSION))


def test_an_icmp_error_that_quotes_a_packet_of_the_session_does_not_belong() -> None:
    capture = DATA / "mixed-receiver.pcap"
    errors = tshark_rows(capture, "icmp.type == 3 && udp.port == 5222")
    assert len(errors) == 1  # a filter without layers would count it
    assert not set(errors) & set(rows_of(capture, "receiver"))


@pytest.mark.parametrize("ports", [("5000-5222",), ("5223-40000",), ("1-65535",), (9, "5300-5400")])
@pytest.mark.parametrize("host", HOSTS)
def test_a_range_of_ports_passes_the_frames_that_tshark_passes(host: Host, ports: tuple[int | str, ...]) -> None:
    session = SESSION.model_copy(update={"udp_ports": ports, "tcp_ports": ports})
    capture = DATA / "mixed-sender.pcap"
    assert rows_of(capture, host, session) == tshark_rows(capture, summary_filter(session, host))


def test_fragments_belong_only_where_the_session_has_ports_of_their_protocol() -> None:
    only_tcp = SESSION.model_copy(update={"udp_ports": ()})
    capture = DATA / "mixed-sender.pcap"
    assert rows_of(capture, "sender", only_tcp) == tshark_rows(capture, "tcp && ip.src == 10.77.0.1")
