"""The handshake in a capture of a real run, against what tshark shows of the same packets in its own way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import HOSTS, Host, Session
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.quic_handshake import QuicDatagram, count_handshake, read_datagrams
from tests.conftest import require_command

CAPTURE = Path(__file__).parents[2] / "unit" / "captures" / "golden" / "run-quic-aioquic.pcap"
DISSECTOR = ("-d", "udp.port==4433,quic")
ADDRESSES: dict[Host, str] = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
SESSION = Session.model_validate(
    {"sender_address": "10.77.0.1", "receiver_address": "10.77.0.2", "udp_ports": (4433, 4434)}
)


@pytest.fixture(scope="module")
def datagrams() -> list[QuicDatagram]:
    """The capture at one port, as if the channel had neither delay nor losses."""
    require_command("tshark")
    columns = read_columns(CAPTURE)
    return read_datagrams(match_captures(columns, columns, SESSION), SESSION, DISSECTOR, {})


def tshark(shown: str, field: str) -> list[str]:
    command = [
        require_command("tshark"),
        "-n",
        "-r",
        str(CAPTURE),
        *DISSECTOR,
        "-Y",
        shown,
        "-T",
        "fields",
        "-e",
        field,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("host", HOSTS)
def test_handshake_packets_are_the_datagrams_with_a_long_header(datagrams: list[QuicDatagram], host: Host) -> None:
    handshake = count_handshake(datagrams)
    sizes = tshark(f"quic.header_form == 1 && ip.src == {ADDRESSES[host]}", "frame.len")

    assert getattr(handshake, host).packets == len(sizes) > 0
    assert getattr(handshake, host).bytes == sum(map(int, sizes))


@pytest.mark.parametrize("host", HOSTS)
def test_the_octets_of_initial_packets_are_those_of_tshark(datagrams: list[QuicDatagram], host: Host) -> None:
    """Without secrets only Initial packets can be decrypted."""
    ours = [
        end - first
        for datagram in datagrams
        if datagram.host == host
        for packet in datagram.packets
        if packet.kind == "Initial"
        for first, end in packet.crypto
    ]
    theirs = tshark(f"quic.crypto.length && ip.src == {ADDRESSES[host]}", "quic.crypto.length")

    assert ours == [int(length) for line in theirs for length in line.split(",")] != []


def test_handshake_packets_cannot_be_read_without_secrets(datagrams: list[QuicDatagram]) -> None:
    assert count_handshake(datagrams).unreadable > 0
