"""The offsets of TCP's segments are those of tshark."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.packet import Raw

from owlt.captures.frames.columns import read_columns
from owlt.captures.inspection.traces import trace_run
from owlt.captures.matches.matching import match_captures
from tests.conftest import require_command
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, Timed, ethernet, later, timed, write_pcap

OWD_NS = 25_000_000


def stream(sequences: list[tuple[int, int]], isn: int) -> list[Timed]:
    """Frames of a TCP connection: SYN, then parts (first byte, count)."""
    header = IP(src=SENDER, dst=RECEIVER, flags="DF")
    frames = [bytes(ethernet() / header / TCP(sport=40000, dport=5223, seq=isn, flags="S"))]
    for number, (first, count) in enumerate(sequences):
        part = TCP(sport=40000, dport=5223, seq=(isn + 1 + first) % 2**32, ack=1, flags="A", window=1000 + number)
        frames.append(bytes(ethernet() / header / part / Raw(bytes([number % 256]) * count)))
    return timed(frames)


def test_tcp_offsets_are_those_of_tshark(tmp_path: Path) -> None:
    frames = stream([(0, 700), (700, 1000), (2700, 300), (1700, 1000), (700, 1000), (3000, 1)], isn=2**32 - 1200)
    sender_pcap = write_pcap(tmp_path / "sender.pcap", frames)
    receiver_pcap = write_pcap(tmp_path / "receiver.pcap", later(frames, OWD_NS))
    captured = [read_columns(pcap) for pcap in (sender_pcap, receiver_pcap)]
    data = trace_run(match_captures(*captured, SESSION)).data
    command = [require_command("tshark"), "-r", str(sender_pcap), "-Y", "tcp.len > 0", "-T", "fields"]
    fields = ["-e", "frame.number", "-e", "tcp.seq", "-e", "tcp.len"]
    told = subprocess.run([*command, *fields], capture_output=True, text=True, check=True).stdout

    assert data is not None
    assert [[int(value) for value in line.split()] for line in told.splitlines()] == [
        [frame, first + 1, count]
        for frame, first, count in zip(data.frame, data.first_byte, data.byte_count, strict=True)
    ]
    assert data.again.tolist() == [False, False, False, False, True, False]
