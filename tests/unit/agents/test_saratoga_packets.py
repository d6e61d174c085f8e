"""Saratoga's packets on the wire: bits where the draft has them, and nothing that a datagram could break."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Beacon, Code, Data, Metadata, Packet, Request, Status, Unreadable, session_id
from tests.unit.agents.saratoga_examples import version_0_packets, version_1_packets

modest = settings(max_examples=150, deadline=None)

A_STATUS = Status(
    session=0xA1B2C3D4,
    code=Code.FILE_NOT_FOUND,
    progress=1000,
    in_response_to=5000,
    holes=((1000, 2000),),
    partial=True,
    voluntary=True,
    metadata_missing=True,
    timestamp=b"",
    descriptor_bits=16,
)


@modest
@given(version_1_packets)
def test_what_version_1_packs_it_reads(packet: Request | Metadata | Data | Status) -> None:
    assert version1.read(version1.pack(packet)) == packet


@modest
@given(version_0_packets)
def test_what_version_0_packs_it_reads(packet: Request | Metadata | Data | Status) -> None:
    assert version0.read(version0.pack(packet)) == packet


def test_a_request_has_the_bits_of_the_draft() -> None:
    request = Request(session=0xA1B2C3D4, action=2, name="f", descriptor_bits=64)

    # 001 version, 00001 type, 10 descriptor, 12-13 willing to send, request type 2 in bits 24-31
    assert version1.pack(request) == bytes.fromhex("21 8C 00 02 A1B2C3D4 66 00")


def test_a_request_to_get_says_that_its_author_is_willing_to_receive() -> None:
    request = Request(session=0xA1B2C3D4, action=1, name="f", descriptor_bits=64)

    assert version1.pack(request) == bytes.fromhex("21 83 00 01 A1B2C3D4 66 00")


@pytest.mark.parametrize("willing", range(16))
def test_a_request_is_read_whatever_it_says_of_willingness(willing: int) -> None:
    datagram = bytes.fromhex("2180 0001 A1B2C3D4 6600")
    datagram = bytes([datagram[0], datagram[1] | willing, *datagram[2:]])

    assert version1.read(datagram) == Request(session=0xA1B2C3D4, action=1, name="f", descriptor_bits=64)


def test_metadata_have_the_bits_of_the_draft() -> None:
    metadata = Metadata(
        session=1, file_bytes=0x012345, name="f", checksum="crc32", digest=b"\xca\xfe\xba\xbe", descriptor_bits=32
    )

    # bits 24-27 one word of checksum, 28-31 CRC-32; the entry: bit 0 set, bits 8-9 a 32-bit size; no times
    expected = "22 40 00 11 00000001 CAFEBABE 8040 00012345 00000000 00000000 66 00"
    assert version1.pack(metadata) == bytes.fromhex(expected)


def test_data_have_the_bits_of_the_draft() -> None:
    data = Data(
        session=1, offset=256, payload=b"xy", asks=True, ends=True, timestamp=bytes(range(16)), descriptor_bits=16
    )

    # bit 12 timestamp, 15 status requested, 16 end of data
    expected = "23 09 80 00 00000001 000102030405060708090A0B0C0D0E0F 0100 7879"
    assert version1.pack(data) == bytes.fromhex(expected)


def test_a_status_has_the_bits_of_the_draft() -> None:
    # bits 13 metadata missing, 14 list of holes not whole, 15 voluntary, 24-31 the error
    assert version1.pack(A_STATUS) == bytes.fromhex("24 07 00 04 A1B2C3D4 03E8 1388 03E8 07D0")


def test_the_data_of_version_0_have_ten_bytes_in_front() -> None:
    data = Data(
        session=0xA1B2C3D4, offset=256, payload=bytes(1024), asks=True, ends=False, timestamp=b"", descriptor_bits=32
    )

    packed = version0.pack(data)

    assert len(packed) == 1034
    assert packed[:10] == bytes.fromhex("03 01 A1B2C3D4 00000100")


def test_a_beacon_with_its_free_space_is_read() -> None:
    # bits 12-13 willing to send, 14-15 to receive, 17 free space, 18-19 of 32 bits
    assert version1.read(bytes.fromhex("20 8F 50 00 0000FFFF") + b"here") == Beacon(endpoint="here")


def test_a_session_is_known_by_the_crc_of_the_name() -> None:
    assert session_id("123456789") == 0xCBF43926


@modest
@given(st.binary(max_size=80))
def test_no_datagram_breaks_a_reader(datagram: bytes) -> None:
    for read in (version0.read, version1.read):
        with suppress(Unreadable):
            read(datagram)


@modest
@given(version_1_packets, st.data())
def test_no_damage_breaks_a_reader(packet: Request | Metadata | Data | Status, drawn: st.DataObject) -> None:
    packed = bytearray(version1.pack(packet))
    bit = drawn.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    cut = drawn.draw(st.integers(0, len(packed)))

    for datagram in (bytes(packed), bytes(packed[:cut])):
        with suppress(Unreadable):
            assert isinstance(version1.read(datagram), Packet)


@pytest.mark.parametrize(
    ("datagram", "said"),
    [
        ("", "got 0 bytes, expected 4 or more"),
        ("03 00 00 00 00 00 00 00", "got version 0, expected 1"),
        ("25 00 00 00", "got a packet of type 5, expected 0 to 4"),
        ("23 00 00 00 00000001 00", "got 9 bytes, expected 10 or more"),
        ("23 10 00 00 00000001 0000", "expected a file"),
        ("24 00 00 00 00000001 0000 0000 0001", "got holes of 2 bytes, expected pairs of 2 x 2"),
        ("24 00 00 00 00000001 0000 0000 0002 0002", "got a hole that ends before it begins"),
        ("22 00 00 12 00000001 00000000 8000", "got a checksum of type 2 and 4 bytes"),
        ("21 00 00 01 00000001 66", "got a name without end"),
    ],
)
def test_what_is_no_packet_is_said_to_be_none(datagram: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        version1.read(bytes.fromhex(datagram))
