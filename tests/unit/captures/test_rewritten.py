"""Packets that a card, a router or a queue rewrote without damage, and damaged packets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from owlt.captures.accounting.ledger import Account, Ledger
from owlt.captures.accounting.one_side import one_side
from owlt.captures.accounting.summary import Transfer, account_both
from owlt.captures.accounting.suspicion import NOTHING_EXPECTED, Claims
from owlt.captures.frames.columns import read_columns
from owlt.captures.inspection.inspection import Case
from owlt.captures.matches.matching import match_captures
from owlt.reports.sessions.run_text import ledger_line, one_side_rows
from tests.unit.captures.making import (
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SENDER_6,
    SESSION,
    SESSION_6,
    ethernet,
    flip,
    later,
    timed,
    write_pcap,
)
from tests.unit.captures.summarising import summarise

OWD_NS = 25_000_000
COUNT = 40
PSEUDO_HEADER = -1
"""A checksum that is the sum of the pseudo header."""


def udp(number: int, size: int = 100, **fields: object) -> Packet:
    return (
        ethernet()
        / IP(src=SENDER, dst=RECEIVER, id=number + 1, **fields)
        / UDP(sport=40000, dport=5222)
        / Raw(bytes([number]) * size)
    )


def tcp(number: int, size: int = 100, **fields: object) -> Packet:
    header = TCP(sport=40000, dport=5223, seq=1 + number * size, ack=1, flags="A", options=[("Timestamp", (number, 7))])
    return ethernet() / IP(src=SENDER, dst=RECEIVER, id=number + 1, **fields) / header / Raw(bytes([number]) * size)


def tagged(number: int, **fields: object) -> Packet:
    return ethernet() / Dot1Q(vlan=5) / udp(number, **fields)[IP]


def ipv6(number: int, **fields: object) -> Packet:
    return (
        ethernet()
        / IPv6(src=SENDER_6, dst=RECEIVER_6, **fields)
        / UDP(sport=40000, dport=5222)
        / Raw(bytes([number]) * 100)
    )


def small_udp(number: int) -> Packet:
    return udp(number, 1)


def bare_ack(number: int) -> Packet:
    return tcp(number, 0)


def left_to_the_card(packet: Packet, checksum: int = PSEUDO_HEADER) -> bytes:
    """What the host hands to its card: the checksum field holds the sum of the pseudo header, or another number."""
    frame = bytes(packet)
    transport = UDP if UDP in packet else TCP
    at = len(frame) - len(bytes(Ether(frame)[transport])) + (6 if transport is UDP else 16)
    if checksum == PSEUDO_HEADER:
        network = Ether(frame)[IPv6 if IPv6 in packet else IP]
        length = len(bytes(network.payload))
        octets = bytes(network)[8:40] if IPv6 in packet else bytes(network)[12:20]
        words = np.frombuffer(octets, ">u2").astype(int).sum() + length + (17 if transport is UDP else 6)
        while words > 0xFFFF:
            words = (words & 0xFFFF) + (words >> 16)
        checksum = int(words)
    return frame[:at] + checksum.to_bytes(2) + frame[at + 2 :]


def accounts(
    folder: Path, sent: list[bytes], arrived: list[bytes], session: object = SESSION, snaplen: int = 262_144
) -> Account:
    """What became of the sender's packets, of which each arrived as the one in the same place, b"" if it was lost."""
    near = write_pcap(folder / "sender.pcap", timed(sent), snaplen=snaplen)
    behind = [(time, frame) for time, frame in later(timed(arrived), OWD_NS) if frame]
    far = write_pcap(folder / "receiver.pcap", behind, snaplen=snaplen)
    both = read_columns(near, snaplen), read_columns(far, snaplen)
    forward, _ = account_both(match_captures(*both, session), NOTHING_EXPECTED)  # type: ignore[arg-type]
    return forward


def ledger(folder: Path, sent: list[bytes], arrived: list[bytes], session: object = SESSION) -> Ledger:
    return accounts(folder, sent, arrived, session).ledger


def routed(packet: Packet) -> bytes:
    """Behind a router: other Ethernet addresses, a smaller time to live."""
    octets = Ether(bytes(packet))
    octets.src, octets.dst = "02:00:00:00:00:11", "02:00:00:00:00:12"
    octets[IP].ttl -= 1
    del octets[IP].chksum
    return bytes(octets)


def marked(packet: Packet) -> bytes:
    """With the mark of a queue."""
    octets = Ether(bytes(packet))
    if IPv6 in octets:
        octets[IPv6].tc |= 3
    else:
        octets[IP].tos |= 3
        del octets[IP].chksum
    return bytes(octets)


OFFLOADED = {
    "udp": (udp, SESSION),
    "short udp": (small_udp, SESSION),
    "tcp": (tcp, SESSION),
    "bare ack": (bare_ack, SESSION),
    "tagged": (tagged, SESSION),
    "ipv6": (ipv6, SESSION_6),
}


@pytest.mark.parametrize("checksum", [PSEUDO_HEADER, 0, 0x1234])
@pytest.mark.parametrize("kind", OFFLOADED)
def test_packets_whose_checksum_a_card_completed_arrive_intact(tmp_path: Path, kind: str, checksum: int) -> None:
    make, session = OFFLOADED[kind]
    packets = [make(n) for n in range(COUNT)]  # type: ignore[operator]
    sent = [left_to_the_card(packet, checksum) for packet in packets]

    result = ledger(tmp_path, sent, [b"", *map(bytes, packets[1:])], session)

    assert (result.delivered, result.corrupted, result.lost, result.unexplained) == (COUNT - 1, 0, 1, 0)


@pytest.mark.parametrize("make", [udp, tcp])
def test_packets_whose_checksum_a_card_completed_arrive_intact_behind_a_router(
    tmp_path: Path, make: Callable[[int], Packet]
) -> None:
    packets = [make(n) for n in range(COUNT)]

    result = ledger(tmp_path, [left_to_the_card(each) for each in packets], [b"", *map(routed, packets[1:])])

    assert (result.delivered, result.corrupted, result.lost) == (COUNT - 1, 0, 1)


@pytest.mark.parametrize("kind", ["udp", "short udp", "tcp", "bare ack"])
def test_a_bit_flipped_behind_the_card_is_damage(tmp_path: Path, kind: str) -> None:
    make, session = OFFLOADED[kind]
    packets = [make(n) for n in range(COUNT)]  # type: ignore[operator]
    arrived = list(map(bytes, packets))
    places = {3: 8 * 40, 7: 8 * 41 + 3, 11: 8 * 30, 19: 8 * (len(arrived[19]) - 1)}  # ports or checksum, address, end
    for number, bit in places.items():
        arrived[number] = flip(arrived[number], bit)

    result = ledger(tmp_path, [left_to_the_card(packet) for packet in packets], arrived, session)

    assert (result.delivered, result.corrupted, result.lost) == (COUNT - len(places), len(places), 0)


def test_a_correct_checksum_that_arrives_wrong_is_damage(tmp_path: Path) -> None:
    frames = [bytes(udp(n)) for n in range(COUNT)]
    result = ledger(tmp_path, frames, [flip(frames[0], 8 * 40), flip(flip(frames[1], 8 * 40), 8 * 41), *frames[2:]])
    assert (result.delivered, result.corrupted) == (COUNT - 2, 2)


def test_in_cut_frames_the_sum_of_the_pseudo_header_shows_checksum_offload(tmp_path: Path) -> None:
    packets = [udp(n, 400) for n in range(COUNT)]
    sent = [left_to_the_card(packet) for packet in packets]
    result = accounts(tmp_path, sent, list(map(bytes, packets)), snaplen=96).ledger
    assert (result.delivered, result.corrupted) == (COUNT, 0)


def test_a_note_states_the_number_of_checksums_that_a_card_completed(tmp_path: Path) -> None:
    packets = [udp(n) for n in range(COUNT)]
    (note,) = accounts(tmp_path, [left_to_the_card(each) for each in packets], list(map(bytes, packets))).caveats
    assert f"the sender left the checksums of {COUNT} packets to" in note and "offload" in note


def test_segments_that_a_card_divides_make_the_captures_suspect(tmp_path: Path) -> None:
    whole, halves = bytes(tcp(0, 2800)), [bytes(tcp(0, 1400)), bytes(tcp(1, 1400))]
    near, far = write_pcap(tmp_path / "s.pcap", timed([whole])), write_pcap(tmp_path / "r.pcap", timed(halves))
    reasons = summarise(near, far, SESSION, Transfer()).suspect
    assert any("segmentation offload" in reason for reason in reasons)


def test_marks_are_reported_in_words(tmp_path: Path) -> None:
    packets = [udp(n, tos=2) for n in range(COUNT)]
    arrived = [marked(each) if n % 10 == 0 else bytes(each) for n, each in enumerate(packets)]
    result = ledger(tmp_path, list(map(bytes, packets)), arrived)
    assert ledger_line("forward", result) == "forward: sent 40 = 40 delivered; 40 sent as ECT and 4 marked CE"
    side = one_side(read_columns(tmp_path / "receiver.pcap"), SESSION, "receiver", Claims())
    assert ("ECN of STR", "36 ECT, 4 CE") in one_side_rows(side, Case(SESSION))


@pytest.mark.parametrize("make", [udp, tcp, tagged])
def test_marks_of_a_queue_are_counted_as_marks(tmp_path: Path, make: Callable[..., Packet]) -> None:
    packets = [make(n, tos=2 if n < 30 else 0) for n in range(COUNT)]
    arrived = [marked(each) if n in (3, 7, 11) else bytes(each) for n, each in enumerate(packets)]

    result = ledger(tmp_path, list(map(bytes, packets)), [b"", *arrived[1:]])

    assert (result.delivered, result.corrupted, result.lost) == (COUNT - 1, 0, 1)
    assert (result.ecn_capable, result.ecn_marked) == (30, 3)


def test_marks_are_counted_behind_a_router_too(tmp_path: Path) -> None:
    packets = [udp(n, tos=1) for n in range(COUNT)]
    arrived = [routed(Ether(marked(each)) if n % 4 == 0 else each) for n, each in enumerate(packets)]
    result = ledger(tmp_path, list(map(bytes, packets)), arrived)
    assert (result.delivered, result.ecn_capable, result.ecn_marked) == (COUNT, COUNT, COUNT // 4)


@pytest.mark.parametrize("code", [1, 2])
def test_marks_in_ipv6_which_has_no_header_checksum_are_marks(tmp_path: Path, code: int) -> None:
    packets = [ipv6(n, tc=code) for n in range(COUNT)]
    arrived = [marked(each) if n in (3, 7) else bytes(each) for n, each in enumerate(packets)]
    result = ledger(tmp_path, list(map(bytes, packets)), arrived, SESSION_6)
    assert (result.delivered, result.corrupted, result.ecn_marked) == (COUNT, 0, 2)


def test_the_same_bits_hit_without_a_right_header_checksum_are_damage(tmp_path: Path) -> None:
    frames = [bytes(udp(n, tos=2)) for n in range(COUNT)]
    result = ledger(tmp_path, frames, [flip(frames[0], 8 * 15 + 7), *frames[1:]])
    assert (result.delivered, result.corrupted, result.ecn_marked) == (COUNT - 1, 1, 0)


def test_other_bits_of_an_ipv6_header_that_are_hit_are_damage(tmp_path: Path) -> None:
    frames = [bytes(ipv6(n, tc=2)) for n in range(COUNT)]
    result = ledger(tmp_path, frames, [flip(frames[0], 8 * 16), *frames[1:]], SESSION_6)
    assert (result.delivered, result.corrupted, result.ecn_marked) == (COUNT - 1, 1, 0)


@pytest.mark.parametrize("hop_limit", [254, 253])
def test_a_hop_limit_that_a_router_lowers_is_no_damage_where_no_ethernet_address_changes(
    tmp_path: Path, hop_limit: int
) -> None:
    """One bit differs: 255 is lowered by a power of two."""
    sent, arrived = ([bytes(ipv6(number, hlim=limit)) for number in range(COUNT)] for limit in (255, hop_limit))

    assert ledger(tmp_path, sent, arrived, SESSION_6).delivered == COUNT


def test_a_single_lower_hop_limit_is_damage(tmp_path: Path) -> None:
    sent = [bytes(ipv6(number, hlim=255)) for number in range(COUNT)]
    arrived = [bytes(ipv6(0, hlim=254)), *sent[1:]]
    found = ledger(tmp_path, sent, arrived, SESSION_6)

    assert (found.delivered, found.corrupted) == (COUNT - 1, 1)
