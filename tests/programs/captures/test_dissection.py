"""Hostile bytes through tshark and every reader."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from owlt.captures.frames.session import Session
from owlt.captures.protocols.messages import messages
from owlt.captures.protocols.tshark import NoDissection
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, sctp_frame, timed, udp_frame, write_pcap
from tests.unit.captures.octets import (
    AGGREGATE,
    BUNDLES,
    BUNDLES_OVER_LTP,
    CFDP,
    CFDP_RUN,
    CUSTODY_RUN,
    LTP,
    NORM,
    SARATOGA,
    TCP_FILE,
    bundle,
    frame,
    norm_ack_of_flush,
    norm_data,
    saratoga_data,
    segment,
)

QUIC = ("-d", "udp.port==5222,quic")
UDT = ("-d", "udp.port==5222,udt")
UFTP = ("-d", "udp.port==5222,uftp")

RUNS = {
    "cfdp": (CFDP, CFDP_RUN),
    "ltp": (BUNDLES_OVER_LTP, CUSTODY_RUN),
    "bundle": (BUNDLES, [frame(bundle(0, 900, 1)), frame(AGGREGATE)]),
    "norm": (NORM, [frame(norm_data(0, 1000)), frame(norm_ack_of_flush(1, 0))]),
    "saratoga": (SARATOGA, [frame(saratoga_data(0, 40))]),
    "quic": (QUIC, [frame(bytes([0xC3, 0, 0, 0, 1, 4, 1, 2, 3, 4, 0, 0, 9]) + bytes(80)), frame(b"\x45" * 40)]),
    "uftp": (
        UFTP,
        [frame(b"\x40\x09" + bytes(14) + b"\x09\x03\0\1\0\2\0\3" + bytes(40)), frame(b"\x40\x0b" + bytes(30))],
    ),
    "udt": (UDT, [frame(bytes(60)), frame(b"\x80\x02" + bytes(14))]),
    "tcp": (TCP_FILE, [segment("S", 5), segment("A", 6, 1, 100), segment("FA", 106, 1)]),
    "sctp": ((), [sctp_frame(bytes(100)), sctp_frame(b""), sctp_frame(bytes([3, 0, 0, 16]) + bytes(12))]),
}


def mutated(octets: bytes, chance: random.Random) -> bytes:
    """The frame with its payload changed here and there, cut, or replaced by anything."""
    headers = 42
    payload = bytearray(octets[headers:])
    match chance.randrange(4):
        case 0:
            payload = payload[: chance.randrange(len(payload) + 1)]
        case 1:
            payload = bytearray(chance.randbytes(chance.randrange(80)))
        case _:
            for _ in range(chance.randrange(1, 6)):
                payload[chance.randrange(len(payload) or 1) : chance.randrange(len(payload) or 1) + 1] = (
                    chance.randbytes(1)
                )
    made: bytes = udp_frame(bytes(payload), *chance.choice([(SENDER, RECEIVER), (RECEIVER, SENDER)]))
    return made


@pytest.mark.parametrize("snaplen", [262_144, 60])
@pytest.mark.parametrize("protocol", sorted(set(RUNS) - {"tcp", "sctp"}))
def test_whatever_the_octets_each_packet_becomes_a_message(tmp_path: Path, protocol: str, snaplen: int) -> None:
    dissector, frames = RUNS[protocol]
    chance = random.Random(snaplen)
    made = [mutated(chance.choice(frames), chance) for _ in range(400)]

    found = messages(write_pcap(tmp_path / "x.pcap", timed(made), snaplen=snaplen), SESSION, dissector)

    assert [message.frame for message in found] == list(range(1, len(made) + 1))
    assert all(message.first_byte is None or message.first_byte >= 0 for message in found)


@pytest.mark.parametrize("snaplen", [262_144, 60])
@pytest.mark.parametrize("protocol", ["tcp", "sctp"])
def test_whatever_the_header_of_tcp_or_sctp_each_packet_becomes_a_message(
    tmp_path: Path, protocol: str, snaplen: int
) -> None:
    dissector, frames = RUNS[protocol]
    chance = random.Random(snaplen)
    made = []
    for _ in range(400):
        octets = bytearray(chance.choice(frames))
        octets[chance.randrange(38, len(octets))] = chance.randrange(256)
        made.append(bytes(octets))

    found = messages(write_pcap(tmp_path / "x.pcap", timed(made), snaplen=snaplen), SESSION, dissector)

    assert len(found) == len(made)


def test_a_capture_that_was_cut_short_is_read_as_far_as_it_is_complete(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN))
    capture.write_bytes(capture.read_bytes()[:-7])

    assert len(messages(capture, SESSION, CFDP)) == len(CFDP_RUN) - 1


def test_the_settings_of_the_user_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path))
    (tmp_path / "disabled_protos").write_text("cfdp\n")
    found = messages(write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN)), SESSION, CFDP)

    assert found[0].name == "metadata"


def test_a_tshark_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "tshark"
    fake.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    dissector, frames = RUNS["udt"]
    with pytest.raises(NoDissection, match="tshark dissected 0 of 2 packets and exited with status 3: no such thing"):
        messages(write_pcap(tmp_path / "x.pcap", timed(frames)), SESSION, dissector)


def test_a_session_on_another_port_is_looked_at_there(tmp_path: Path) -> None:
    session = Session(sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(9,))
    capture = write_pcap(tmp_path / "x.pcap", timed([udp_frame(CFDP_RUN[1][42:], port=9)]))

    assert [message.name for message in messages(capture, session, CFDP)] == ["data"]
    assert [message.name for message in messages(capture, session, LTP)] == ["malformed LTP"]
