"""What is counted of TCP in captures made by hand, held against what was put into them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from owlt.captures.frames.session import Session
from owlt.captures.protocols.tshark import NoDissection
from owlt.captures.protocols.view import TcpCounts, count_tcp
from tests.conftest import require_command
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, ethernet

LENGTH = 100
FIRST = 1000
SACK = [("NOP", None), ("NOP", None), ("SAck", (1, 2))]

pytestmark = pytest.mark.usefixtures("tshark")


@pytest.fixture(scope="module")
def tshark() -> str:
    return require_command("tshark")


def segment(sequence: int, flags: str = "A", data: int = LENGTH, port: int = 5223) -> bytes:
    """From the sender."""
    header = TCP(sport=40000, dport=port, seq=sequence % (1 << 32), ack=1, flags=flags, window=500)
    return bytes(ethernet() / IP(src=SENDER, dst=RECEIVER) / header / Raw(bytes(data)))


def acknowledgement(acknowledged: int, options: Sequence[object] = (), window: int = 500) -> bytes:
    """From the receiver."""
    header = TCP(
        sport=5223, dport=40000, seq=1, ack=acknowledged % (1 << 32), flags="A", window=window, options=list(options)
    )
    return bytes(ethernet(RECEIVER) / IP(src=RECEIVER, dst=SENDER) / header)


def write(path: Path, frames: Sequence[bytes]) -> Path:
    """A capture of these frames, 10 ms apart."""
    records = b"".join(
        struct.pack("<IIII", START_NS // 10**9, 10_000_000 * number, len(frame), len(frame)) + frame
        for number, frame in enumerate(frames)
    )
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1) + records)
    return path


def count(tmp_path: Path, *frames: bytes) -> TcpCounts:
    return count_tcp(write(tmp_path / "sender.pcap", frames), SESSION)


def test_what_goes_once_is_not_sent_again(tmp_path: Path) -> None:
    assert count(tmp_path, *(segment(FIRST + LENGTH * number) for number in range(5))).sent_again == 0


def test_every_copy_after_the_first_is_sent_again(tmp_path: Path) -> None:
    numbers = [0, 1, 2, 1, 3, 1, 0]

    assert count(tmp_path, *(segment(FIRST + LENGTH * number) for number in numbers)).sent_again == 3


def test_syn_and_fin_are_sent_again_too(tmp_path: Path) -> None:
    opening = [segment(FIRST, "S", 0), segment(FIRST, "S", 0)]
    ending = [segment(FIRST + 1, "FA", 0), segment(FIRST + 1, "FA", 0), segment(FIRST + 1, "FA", 0)]

    assert count(tmp_path, *opening, *ending).sent_again == 3


def test_acknowledgements_of_the_sender_are_not_sent_again(tmp_path: Path) -> None:
    assert count(tmp_path, segment(FIRST), segment(FIRST + LENGTH, data=0), segment(FIRST, data=0)).sent_again == 0


def test_octets_of_keep_alives_and_resets_are_not_sent_again(tmp_path: Path) -> None:
    data = segment(FIRST)
    keep_alive = segment(FIRST + LENGTH - 1, data=1)

    assert count(tmp_path, data, keep_alive, segment(FIRST, flags="R", data=22)).sent_again == 0


def test_a_sequence_that_begins_again_is_one(tmp_path: Path) -> None:
    last = (1 << 32) - 2 * LENGTH
    numbers = [0, 1, 2, 3, 1, 4, 3]

    assert count(tmp_path, *(segment(last + LENGTH * number) for number in numbers)).sent_again == 2


def test_an_acknowledgement_that_was_damaged_makes_nothing_sent_again(tmp_path: Path) -> None:
    counts = count(
        tmp_path, segment(FIRST), acknowledgement(FIRST + (1 << 20)), segment(FIRST + LENGTH), segment(FIRST)
    )

    assert counts.sent_again == 1


def test_other_ports_do_not_count(tmp_path: Path) -> None:
    assert count(tmp_path, *[segment(FIRST, port=22)] * 3).sent_again == 0


@given(st.lists(st.integers(0, 6), max_size=12))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sent_again_is_what_lies_below_the_highest_so_far(tmp_path: Path, numbers: list[int]) -> None:
    highest = -1
    again = 0
    for number in numbers:
        again += number <= highest
        highest = max(highest, number)

    assert count(tmp_path, *(segment(FIRST + LENGTH * number) for number in numbers)).sent_again == again


def test_duplicate_and_selective_acknowledgements_are_counted_each(tmp_path: Path) -> None:
    data = [segment(FIRST + LENGTH * number) for number in range(6)]
    same = [acknowledgement(FIRST + LENGTH)] * 3
    reporting = [acknowledgement(FIRST + LENGTH, SACK, window=600)]
    counts = count(tmp_path, *data, *same, *reporting)

    assert (counts.duplicate_acks, counts.selective_acks) == (2, 1)


def test_a_closed_window_is_counted(tmp_path: Path) -> None:
    assert count(tmp_path, segment(FIRST), acknowledgement(FIRST + LENGTH, window=0)).zero_windows == 1


def test_an_empty_capture_has_nothing(tmp_path: Path) -> None:
    assert set(count(tmp_path).model_dump().values()) == {0}


def test_what_is_complete_of_a_file_that_was_cut_short_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "sender.pcap", [segment(FIRST), segment(FIRST), segment(FIRST)])
    path.write_bytes(path.read_bytes()[:-10])

    assert count_tcp(path, SESSION).sent_again == 1


def test_what_is_no_capture_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sender.pcap"
    path.write_bytes(b"nothing of the sort" * 10)

    with pytest.raises(NoDissection, match=r"sender\.pcap"):
        count_tcp(path, SESSION)


def test_without_tshark_it_is_reported_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoDissection, match="apt-get install tshark"):
        count(tmp_path, segment(FIRST))


def test_both_ways_of_a_session_with_several_ports_are_read(tmp_path: Path) -> None:
    session = Session(sender_address=SENDER, receiver_address=RECEIVER, tcp_ports=(5223, 5224))
    path = write(tmp_path / "sender.pcap", [segment(FIRST, port=port) for port in (5223, 5224, 5223, 5224)])

    assert count_tcp(path, session).sent_again == 2


def test_ipv6_is_counted_as_ipv4_is(tmp_path: Path) -> None:
    hosts = ("2001:db8::1", "2001:db8::2")
    frames = [
        bytes(
            ethernet()
            / IPv6(src=hosts[0], dst=hosts[1])
            / TCP(sport=40000, dport=5223, seq=1, flags="A")
            / Raw(b"x" * 9)
            / IPv6(src=hosts[0], dst=hosts[1])
            / TCP(sport=40000, dport=5223, seq=1, flags="A")
            / Raw(b"x" * 9)
        )
    ] * 2
    session = Session(sender_address=hosts[0], receiver_address=hosts[1], tcp_ports=(5223,))
    assert count_tcp(write(tmp_path / "sender.pcap", frames), session).sent_again == 1
