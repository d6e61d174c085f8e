"""What the packets of a protocol that owlt does not know show: sizes, repetitions, and ICMP errors about them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.packet import Packet as Layers

from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Session
from owlt.captures.protocols.messages import icmp_errors
from owlt.captures.protocols.others import Datagrams
from owlt.captures.protocols.reader import NO_FIELDS, Packet
from tests.unit.captures.making import RECEIVER, SENDER, ethernet, timed, write_pcap

PORT = 7777
SESSION = Session.model_validate({"sender_address": SENDER, "receiver_address": RECEIVER, "udp_ports": [PORT]})
SENDER6, RECEIVER6 = "fd00::1", "fd00::2"
SESSION6 = Session.model_validate({"sender_address": SENDER6, "receiver_address": RECEIVER6, "udp_ports": [PORT]})
SENT = IP(src=SENDER, dst=RECEIVER) / UDP(sport=5, dport=PORT) / bytes(20)
SENT6 = IPv6(src=SENDER6, dst=RECEIVER6) / UDP(sport=5, dport=PORT) / bytes(20)
CLOSED = {"type": 3, "code": 3}


def read(payload: bytes, frame: int, reader: Datagrams, host: str = "sender", length: int = 0) -> tuple[str, str]:
    length = length or len(payload)
    content = reader.read(Packet(host, payload, length, length, NO_FIELDS, frame))  # type: ignore[arg-type]
    return content.name, content.detail


def test_a_datagram_that_is_equal_to_an_earlier_one_of_its_host_names_it() -> None:
    reader = Datagrams()

    assert [read(payload, frame, reader) for frame, payload in ((1, b"a"), (4, b"bc"), (7, b"a"), (9, b"a"))] == [
        ("UDP datagram", "1 B"),
        ("UDP datagram", "2 B"),
        ("UDP repeat", "of packet 1, 1 B"),
        ("UDP repeat", "of packet 1, 1 B"),
    ]
    assert read(b"a", 10, reader, "receiver") == ("UDP datagram", "1 B")


def test_of_cut_datagrams_only_the_beginning_is_compared() -> None:
    reader = Datagrams()

    assert [read(b"abc", frame, reader, length=1000) for frame in (1, 2)] == [
        ("UDP datagram", "1000 B"),
        ("UDP datagram", "begins like packet 1, 1000 B"),
    ]
    assert read(b"abc", 3, reader, length=999) == ("UDP datagram", "999 B")


def errors(directory: Path, session: Session, *packets: Layers) -> list[tuple[int, str, str, str]]:
    capture = directory / "x.pcap"
    write_pcap(capture, timed([bytes(ethernet() / packet) for packet in packets]))
    found = icmp_errors(read_columns(capture), session)
    return [(message.frame, message.host, message.name, message.detail) for message in found]


def test_a_closed_port_is_an_event_of_the_session(tmp_path: Path) -> None:
    answer = IP(src=RECEIVER, dst=SENDER) / ICMP(**CLOSED) / SENT

    assert errors(tmp_path, SESSION, SENT, answer) == [(2, "receiver", "ICMP port unreachable", f"udp/{PORT}")]


def test_a_closed_port_is_one_over_ipv6_too(tmp_path: Path) -> None:
    answer = IPv6(src=RECEIVER6, dst=SENDER6) / ICMPv6DestUnreach(code=4) / SENT6

    assert errors(tmp_path, SESSION6, SENT6, answer) == [(2, "receiver", "ICMP port unreachable", f"udp/{PORT}")]


@pytest.mark.parametrize(
    "answer",
    [
        IP(src=RECEIVER, dst=SENDER)
        / ICMP(**CLOSED)
        / IP(src=SENDER, dst=RECEIVER)
        / UDP(sport=5, dport=53)
        / bytes(9),
        IP(src=RECEIVER, dst=SENDER) / ICMP(**CLOSED) / IP(src="10.9.9.9", dst=RECEIVER) / UDP(dport=PORT) / bytes(9),
        IP(src="10.9.9.9", dst=SENDER) / ICMP(**CLOSED) / SENT,
        IP(src=RECEIVER, dst=SENDER) / ICMP(type=8) / SENT,
        IP(src=RECEIVER, dst=SENDER) / ICMP(**CLOSED) / bytes(SENT)[:22],
        IP(src=RECEIVER, dst=SENDER) / ICMP(**CLOSED),
    ],
    ids=["another port", "another sender", "from a router", "a ping", "cut in the quoted ports", "nothing quoted"],
)
def test_icmp_that_is_not_about_a_packet_of_the_session_is_none(tmp_path: Path, answer: Layers) -> None:
    assert errors(tmp_path, SESSION, answer) == []
