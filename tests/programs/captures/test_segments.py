"""Packets that are read by their octets, held against what tshark says of the same packets."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Raw

from owlt.captures.files.blocks import RAW_IP
from owlt.captures.frames.session import Session
from owlt.captures.protocols.messages import Message, messages
from owlt.captures.protocols.others import _UFTP as UFTP_NAMES
from owlt.captures.protocols.others import QUIC_LONG_HEADERS
from owlt.captures.protocols.reader import RETRANSMISSION
from tests.conftest import require_command
from tests.unit.captures.making import GOLDEN, RECEIVER, SENDER, SESSION, START_NS, flip
from tests.unit.captures.octets import TCP_FILE

CONNECTIONS, SEGMENTS = 150, 40
ETHERNET_BYTES = 14


def exchange(chance: Random, port: int) -> list[bytes]:
    """IP packets of a connection as no one program sends them: with repetitions, holes, keep-alives, windows of 0,
    resets and flipped bits."""
    begins = {SENDER: chance.choice((100, 2**32 - 300)), RECEIVER: 70}
    packets = [_packet(SENDER, port, "S", begins[SENDER], 0), _packet(RECEIVER, port, "SA", 70, begins[SENDER] + 1)]
    sent = {SENDER: 1, RECEIVER: 1}
    for _ in range(SEGMENTS):
        source, other = chance.choice([(SENDER, RECEIVER), (RECEIVER, SENDER), (RECEIVER, SENDER)])
        length = chance.choice((0, 0, 0, 1, 100))
        place = max(sent[source] + chance.choice((0, 0, 0, 0, -1, -100, 100)), 0)
        flags = chance.choices(("A", "PA", "FA", "R", "S", "SA"), (40, 10, 2, 1, 1, 1))[0]
        acknowledged = begins[other] + sent[other] - chance.choice((0, 0, 0, 100))
        window = chance.choice((500, 500, 500, 0, 501))
        packets.append(_packet(source, port, flags, begins[source] + place, acknowledged, length, window))
        sent[source] = max(sent[source], place + length)
    return [
        flip(packet, chance.randrange(8 * 20, 8 * len(packet))) if chance.random() < 0.02 else packet
        for packet in packets
    ]


def _packet(
    source: str, port: int, flags: str, sequence: int, acknowledgment: int, length: int = 0, window: int = 500
) -> bytes:
    ports = {"sport": port, "dport": 5223} if source == SENDER else {"sport": 5223, "dport": port}
    header = TCP(flags=flags, seq=sequence % 2**32, ack=acknowledgment % 2**32, window=window, **ports)
    other = RECEIVER if source == SENDER else SENDER
    return bytes(IP(src=source, dst=other) / header / Raw(bytes(length)))


def write(path: Path, packets: list[bytes], link_type: int) -> Path:
    records = b"".join(
        struct.pack("<IIII", START_NS // 10**9, 1000 * number, len(packet), len(packet)) + packet
        for number, packet in enumerate(packets)
    )
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link_type) + records)
    return path


def test_segments_of_tcp_are_the_messages_that_tshark_makes_of_them(tmp_path: Path) -> None:
    chance = Random(9293)
    each = [exchange(chance, 40000 + number) for number in range(CONNECTIONS)]
    packets = [packet for connection in each for packet in connection]
    ethernet = bytes(12) + b"\x08\x00"
    ours = messages(write(tmp_path / "a.pcap", [ethernet + packet for packet in packets], 1), SESSION, TCP_FILE)
    theirs = messages(write(tmp_path / "b.pcap", packets, RAW_IP), SESSION, TCP_FILE)

    assert [message for message in ours if message.name in ("dup ACK", "keep alive")]
    assert [_without_length(message) for message in ours] == [_without_length(message) for message in theirs]


def _without_length(message: Message) -> Message:
    return replace(message, wire_bytes=0)


def test_segments_need_no_tshark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [bytes(12) + b"\x08\x00" + packet for packet in exchange(Random(1), 40000)]
    monkeypatch.setenv("PATH", str(tmp_path))

    assert len(messages(write(tmp_path / "a.pcap", packets, 1), SESSION, TCP_FILE)) == len(packets)


def _undamaged(message: Message) -> str:
    return message.name.removeprefix("damaged ")


def of_tshark(capture: Path, *arguments: str) -> list[list[str]]:
    command = [require_command("tshark"), "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=a", *arguments]
    return [line.split("\t") for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]


def test_datagrams_of_quic_have_the_packets_that_tshark_finds() -> None:
    capture = GOLDEN / "run-quic-aioquic.pcap"
    session = Session(sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(4433,))
    found = messages(capture, session, ("-d", "udp.port==4433,quic"))
    fields = ("-e", "quic.header_form", "-e", "quic.long.packet_type")
    names = []
    for forms, kinds in of_tshark(capture, "-d", "udp.port==4433,quic", *fields):
        long = (QUIC_LONG_HEADERS["quic.long.packet_type"][int(kind)] for kind in kinds.split(",") if kind)
        texts = [next(long) if form in ("1", "True") else "1-RTT" for form in forms.split(",") if form]
        names.append(", ".join(dict.fromkeys(texts)))

    assert "Initial, Handshake" in names
    assert [_undamaged(message) for message in found] == [names[message.frame - 1] for message in found]


def test_messages_of_uftp_have_the_functions_that_tshark_finds() -> None:
    capture = GOLDEN / "run-uftp.pcap"
    session = Session(
        sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(1044,), multicast_groups=("230.4.4.1", "230.5.5.1")
    )
    found = messages(capture, session, ("-d", "udp.port==1044,uftp"))
    fields = ("-e", "uftp4.func", "-e", "uftp4.fileseg.section", "-e", "uftp4.fileseg.sec_block")
    rows = of_tshark(capture, "-d", "udp.port==1044,uftp", *fields)
    names = {message.frame: UFTP_NAMES[int(rows[message.frame - 1][0].split(",")[0]) - 1] for message in found}
    details = {message.frame: rows[message.frame - 1][1:] for message in found if message.detail}

    assert {name for message in found if (name := _undamaged(message)) != names[message.frame]} == {RETRANSMISSION}
    assert {message.frame: message.detail.split()[1::2] for message in found if message.detail} == details
