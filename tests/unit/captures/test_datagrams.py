"""Datagrams that need no tshark, and the messages in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from owlt.captures.frames.columns import read_columns
from owlt.captures.protocols.dissection import Datagram, plain_datagrams
from owlt.captures.protocols.messages import messages
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, ethernet, flip, timed, udp_frame, write_pcap
from tests.unit.captures.octets import (
    BUNDLES,
    BUNDLES_OVER_LTP,
    CFDP,
    CFDP_RUN,
    CUSTODY_RUN,
    NORM,
    SARATOGA,
    bundle,
    frame,
    norm_ack_of_flush,
    norm_data,
    saratoga_data,
)

PAYLOAD = b"\x01\x02\x03"
IP_CHECKSUM_AT, UDP_CHECKSUM_AT = 24, 40
USUAL = {
    "cfdp": (CFDP, CFDP_RUN),
    "ltp": (BUNDLES_OVER_LTP, CUSTODY_RUN),
    "bundle": (BUNDLES, [frame(bundle(0, 900, 1))]),
    "norm": (NORM, [frame(norm_data(0, 1000)), frame(norm_ack_of_flush(1, 0))]),
    "saratoga": (SARATOGA, [frame(saratoga_data(0, 40))]),
}


def datagram(tmp_path: Path, octets: bytes, snaplen: int = 262_144) -> Datagram | None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed([octets]), snaplen=snaplen))
    (read,) = plain_datagrams(columns, np.arange(1))
    return read


def test_a_datagram_is_what_is_behind_the_header_of_udp(tmp_path: Path) -> None:
    assert datagram(tmp_path, udp_frame(PAYLOAD)) == Datagram(PAYLOAD, 3, (True, True))


def test_padding_of_a_short_frame_is_not_part_of_it(tmp_path: Path) -> None:
    assert datagram(tmp_path, udp_frame(PAYLOAD).ljust(60, b"\0")) == Datagram(PAYLOAD, 3, (True, True))


def test_a_wrong_checksum_of_udp_is_seen(tmp_path: Path) -> None:
    read = datagram(tmp_path, flip(udp_frame(PAYLOAD), 8 * 43))
    assert read and read.checksums == (True, False)


def test_a_wrong_checksum_of_the_ipv4_header_is_seen(tmp_path: Path) -> None:
    read = datagram(tmp_path, flip(udp_frame(PAYLOAD), 8 * IP_CHECKSUM_AT))
    assert read and read.checksums == (False, True)


def test_a_datagram_without_a_checksum_has_none_that_could_be_wrong(tmp_path: Path) -> None:
    octets = bytearray(udp_frame(PAYLOAD))
    octets[UDP_CHECKSUM_AT : UDP_CHECKSUM_AT + 2] = bytes(2)
    read = datagram(tmp_path, bytes(octets))
    assert read and read.checksums == (True, None)


def test_a_checksum_that_covers_more_than_was_captured_says_nothing(tmp_path: Path) -> None:
    assert datagram(tmp_path, udp_frame(bytes(100)), snaplen=60) == Datagram(bytes(18), 100, (True, None))


@pytest.mark.parametrize("length", range(1, 6))
def test_checksums_are_right_for_any_length(tmp_path: Path, length: int) -> None:
    read = datagram(tmp_path, udp_frame(bytes(range(250, 250 + length))))
    assert read and read.checksums == (True, True)


def test_a_datagram_whose_lengths_disagree_is_left_to_tshark(tmp_path: Path) -> None:
    octets = bytearray(udp_frame(PAYLOAD))
    octets[39] += 1
    assert datagram(tmp_path, bytes(octets)) is None


def test_an_ipv4_header_with_options_is_left_to_tshark(tmp_path: Path) -> None:
    packet = IP(src=SENDER, dst=RECEIVER, options=b"\x01" * 4) / UDP(sport=5222, dport=5222) / Raw(PAYLOAD)
    assert datagram(tmp_path, bytes(ethernet() / packet)) is None


@pytest.mark.parametrize("protocol", USUAL)
def test_usual_messages_need_no_tshark(tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dissector, frames = USUAL[protocol]
    monkeypatch.setenv("PATH", str(tmp_path))

    read = messages(write_pcap(tmp_path / "x.pcap", timed(frames)), SESSION, dissector)

    assert len(read) == len(frames)
    assert not any(message.name.startswith("malformed") for message in read)
