"""Captures that contain packets twice, or not in the order of their times."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from owlt.captures.accounting.one_side import one_side
from owlt.captures.accounting.summary import CaptureSummary, Transfer
from owlt.captures.accounting.suspicion import Claims, suspect_copies
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.session import Session, sent_by
from tests.unit.captures.golden import made
from tests.unit.captures.making import (
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SENDER_6,
    SESSION,
    SESSION_6,
    Timed,
    ethernet,
    later,
    timed,
    write_pcap,
)
from tests.unit.captures.summarising import summarise

OWD_NS = 25_000_000
MIRRORED_NS, FORWARDED_NS = 1_500, 20_000


def packets(count: int = 40, has_identification: bool = True, is_ipv6: bool = False) -> list[Timed]:
    """A packet each millisecond from the sender; one in ten is from the receiver."""
    frames = []
    for number in range(count):
        ends = (SENDER, RECEIVER) if number % 10 else (RECEIVER, SENDER)
        datagram = UDP(sport=5222, dport=5222) / Raw(bytes([number]) * 60)
        header = IP(src=ends[0], dst=ends[1], id=(number + 1) * has_identification)
        if is_ipv6:
            header = IPv6(src=SENDER_6 if number % 10 else RECEIVER_6, dst=RECEIVER_6 if number % 10 else SENDER_6)
        frames.append(bytes(ethernet(ends[0]) / header / datagram))
    return timed(frames)


def reasons(capture: Columns, session: Session = SESSION) -> list[str]:
    of_hosts = {host: np.flatnonzero(sent_by(capture, session, host)) for host in ("sender", "receiver")}
    return list(suspect_copies(capture, of_hosts))  # type: ignore[arg-type]


def mirrored(frames: list[Timed], delay_ns: int = MIRRORED_NS) -> list[Timed]:
    return sorted([*frames, *later(frames, delay_ns)])


@pytest.mark.parametrize("has_identification", [True, False])
def test_a_capture_at_a_mirror_port_is_suspect(tmp_path: Path, has_identification: bool) -> None:
    capture = read_columns(write_pcap(tmp_path / "x.pcap", mirrored(packets(40, has_identification))))
    (reason,) = reasons(capture)
    assert "36 of 72 packets from the sender and 4 of 8 packets from the receiver" in reason


def test_one_of_a_host_that_nobody_answers_is_suspect_too(tmp_path: Path) -> None:
    """Without an identification, as Linux sends datagrams of sockets that are not connected."""
    alone = [each for number, each in enumerate(packets(40, has_identification=False)) if number % 10]
    (reason,) = reasons(read_columns(write_pcap(tmp_path / "x.pcap", mirrored(alone))))
    assert "36 of 72 packets from the sender are copies" in reason


def test_a_host_that_sends_the_same_payload_over_and_over_is_not_suspect(tmp_path: Path) -> None:
    frame = packets(2, has_identification=False)[1][1]
    same = [(number * 100_000, frame) for number in range(1, 41)]
    assert reasons(read_columns(write_pcap(tmp_path / "x.pcap", same))) == []


def test_one_of_ipv6_is_suspect_too(tmp_path: Path) -> None:
    capture = read_columns(write_pcap(tmp_path / "x.pcap", mirrored(packets(is_ipv6=True))))
    (reason,) = reasons(capture, SESSION_6)
    assert "36 of 72 packets from the sender" in reason


def test_a_capture_of_two_interfaces_is_suspect(tmp_path: Path) -> None:
    """Linux cooked: in on one interface, out on another, without an identification, from one host only."""
    heads = [struct.pack("!HHIHBB8s", 0x0800, 0, interface, 1, 0, 6, b"\2") for interface in (2, 3)]
    frames = [(time, head + frame[14:]) for time, frame in packets(20, False)[1:9] for head in heads]
    frames = [(time + FORWARDED_NS * (n % 2), frame) for n, (time, frame) in enumerate(frames)]
    (tmp_path / "x.pcap").write_bytes(made.pcap(frames, link=276))
    (reason,) = reasons(read_columns(tmp_path / "x.pcap"))
    assert "8 of 16 packets from the sender" in reason


def test_a_protocol_that_sends_each_packet_twice_is_not_suspect(tmp_path: Path) -> None:
    """Its second datagrams have identifications of their own, or none; its receiver answers once."""
    once = packets(40, has_identification=False)
    twice = sorted([*once, *later([each for n, each in enumerate(once) if n % 10], MIRRORED_NS)])
    assert reasons(read_columns(write_pcap(tmp_path / "x.pcap", twice))) == []
    with_own = sorted([*packets(), *[(time + MIRRORED_NS, frame) for time, frame in packets(80)[40:]]])
    assert reasons(read_columns(write_pcap(tmp_path / "y.pcap", with_own))) == []


def test_packets_that_a_protocol_repeats_later_are_not_suspect(tmp_path: Path) -> None:
    again = mirrored(packets(40), delay_ns=2_000_000_000)
    assert reasons(read_columns(write_pcap(tmp_path / "x.pcap", again))) == []


def test_some_duplicates_by_the_channel_are_counted_and_not_suspect(tmp_path: Path) -> None:
    chance = random.Random(1)
    sent = packets(200)
    arrived = later(sent, OWD_NS)
    copies = [(time + 1_000, frame) for time, frame in arrived if chance.random() < 0.2]
    result = summary_of(tmp_path, sent, sorted(arrived + copies))
    assert result.ledger_forward.duplicated > 20
    assert not any("copies" in reason for reason in result.suspect)


def summary_of(folder: Path, sent: list[Timed], arrived: list[Timed]) -> CaptureSummary:
    paths = write_pcap(folder / "sender.pcap", sent), write_pcap(folder / "receiver.pcap", arrived)
    return summarise(*paths, SESSION, Transfer())


def test_both_analyses_report_copies_as_suspect(tmp_path: Path) -> None:
    result = summary_of(tmp_path, mirrored(packets()), mirrored(later(packets(), OWD_NS)))
    assert sum("are copies of a packet" in reason for reason in result.suspect) == 2
    side = one_side(read_columns(tmp_path / "sender.pcap"), SESSION, "sender", Claims())
    assert any("are copies of a packet" in reason for reason in side.suspect)


def of_the_sender(count: int = 40) -> list[Timed]:
    return [each for number, each in enumerate(packets(count)) if number % 10]


def swapped(frames: list[Timed]) -> list[Timed]:
    """Every fourth pair of records swapped."""
    return list(_swapped(frames))


def _swapped(frames: list[Timed]) -> Iterator[Timed]:
    for start in range(0, len(frames), 2):
        pair = frames[start : start + 2]
        yield from pair[::-1] if start % 8 == 0 else pair


@pytest.mark.parametrize("which", ["near", "far", "both"])
def test_packets_are_reordered_by_their_times_and_not_by_their_place_in_the_file(tmp_path: Path, which: str) -> None:
    sent, arrived = of_the_sender(), later(of_the_sender(), OWD_NS)
    near, far = (swapped(sent) if which != "far" else sent), (swapped(arrived) if which != "near" else arrived)
    result = summary_of(tmp_path, near, far)
    assert (result.ledger_forward.delivered, result.ledger_forward.reordered) == (36, 0)
    assert sum("sorted by time" in note for note in result.caveats) == (2 if which == "both" else 1)


def test_packets_that_overtake_others_are_reordered_wherever_they_are_in_the_file(tmp_path: Path) -> None:
    sent = of_the_sender()
    arrived = later(sent, OWD_NS)
    arrived[5] = (arrived[5][0] + 3_500_000, arrived[5][1])
    result = summary_of(tmp_path, sent, arrived)
    assert (result.ledger_forward.reordered, result.ledger_forward.reordering_extent) == (1, 3)


def test_the_first_copy_of_a_packet_is_the_one_with_the_earliest_time(tmp_path: Path) -> None:
    sent = of_the_sender()[:1]
    late, early = later(sent, 2 * OWD_NS), later(sent, OWD_NS)
    result = summary_of(tmp_path, sent, late + early)
    assert (result.ledger_forward.duplicated, result.owd_forward.max_ns) == (1, OWD_NS)
