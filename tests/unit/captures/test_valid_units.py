"""The readers' results for every kind of valid protocol data unit: complete, cut, and after another unit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.bundle.blocks import Bundle, Eid, Timestamp
from owlt.captures.protocols.bundles import Bundles
from owlt.captures.protocols.cfdp import Cfdp
from owlt.captures.protocols.ltp import Ltp
from owlt.captures.protocols.norm import Norm
from owlt.captures.protocols.reader import NO_FIELDS, Packet, PacketContent, Reader, Unreadable
from owlt.captures.protocols.saratoga import Saratoga
from tests.unit.captures.valid_units import (
    Unit,
    bundle_7_units,
    cfdp_pdu,
    cfdp_units,
    ltp_units,
    norm_units,
    saratoga_units,
    sdnv,
)

PROTOCOLS: dict[str, tuple[type[Reader], Callable[[], Iterator[Unit]]]] = {
    "CFDP": (Cfdp, cfdp_units),
    "LTP": (Ltp, ltp_units),
    "NORM": (Norm, norm_units),
    "bundle": (Bundles, bundle_7_units),
    "Saratoga": (Saratoga, saratoga_units),
}
WITHOUT_DISSECTOR = ("Saratoga",)
OCTETS = {protocol: [unit.octets for unit in units()] for protocol, (_, units) in PROTOCOLS.items()}


def contents(reader: Reader, octets: bytes, unit: Unit, captured: int | None = None) -> list[PacketContent]:
    host = "receiver" if unit.from_receiver else "sender"
    read = reader.read(Packet(host, octets[:captured], len(octets), len(octets), NO_FIELDS))  # type: ignore[arg-type]
    return read if isinstance(read, list) else [read]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_valid_unit_is_read_as_its_specification_says(protocol: str) -> None:
    make, units = PROTOCOLS[protocol]
    wrong = []
    for unit in units():
        (found,) = contents(make(), unit.octets, unit)
        piece = None if found.first_byte is None else (found.first_byte, found.byte_count)
        said = (found.name, found.detail, piece, found.acknowledged_bytes, found.verdict)
        if said != (unit.name, unit.detail, unit.piece, unit.acknowledged, unit.verdict):
            wrong.append((unit.octets.hex()[:80], said, unit))

    assert not wrong


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_unit_is_not_read_wrongly(protocol: str) -> None:
    """Names may be less exact, and places unknown; data that are not placed are marked so."""
    make, units = PROTOCOLS[protocol]
    for unit in units():
        for captured in range(min(len(unit.octets), 100)):
            found = contents(make(), unit.octets, unit, captured)[0]

            assert (found.acknowledged_bytes or 0) <= (unit.acknowledged or 0), (unit, captured)
            if unit.piece and unit.piece[1]:
                is_placed = (found.first_byte, found.byte_count) == unit.piece
                assert is_placed or found.unplaced, (unit, captured, found)
                assert found.byte_count in (0, unit.piece[1]), (unit, captured, found)


@pytest.mark.parametrize("protocol", ["CFDP", "LTP"])
def test_a_unit_is_read_behind_any_other_in_the_same_datagram(protocol: str) -> None:
    make, units = PROTOCOLS[protocol]
    first, *others = [unit for unit in units() if unit.piece]
    for unit in others:
        before, found = contents(make(), first.octets + unit.octets, unit)

        assert (before.first_byte, before.byte_count) == first.piece
        assert ((found.first_byte, found.byte_count), found.name) == (unit.piece, unit.name)


@pytest.mark.parametrize("protocol", ["CFDP", "LTP"])
def test_a_datagram_with_anything_else_behind_its_units_is_not_read(protocol: str) -> None:
    make, units = PROTOCOLS[protocol]
    for unit in units():
        with pytest.raises(Unreadable):
            contents(make(), unit.octets + b"\xff" * 3, unit)


def test_a_space_packet_is_no_pdu_although_its_length_may_look_like_one() -> None:
    """Version 0 and PDU type data; a data field of 0x04C0 octets with the length of ids that the zero octet says."""
    behind = 0x04C0 + 7 - 6
    packet = b"\x18\x04\xc0\x00" + (behind - 1).to_bytes(2, "big") + bytes(behind)
    looks_like_one = packet[:4] + b"\0\0" + packet[6:]
    unit = Unit(b"", "")

    assert contents(Cfdp(), looks_like_one, unit)[0].name == "data"
    with pytest.raises(Unreadable, match="space packet"):
        contents(Cfdp(), packet, unit)


def test_an_entity_id_that_looks_like_the_length_of_a_space_packet_is_none() -> None:
    octets = cfdp_pdu(bytes(14), is_data=True, version=0, source=24 - 7)

    assert len(octets) == 24
    assert contents(Cfdp(), octets, Unit(b"", ""))[0].name == "data"


def test_a_nak_whose_request_ends_before_it_begins_is_not_read() -> None:
    octets = cfdp_pdu(b"\x08" + struct.pack(">4I", 0, 2500, 2000, 1000), towards_sender=True)

    with pytest.raises(Unreadable, match="from 2000 to 1000"):
        contents(Cfdp(), octets, Unit(b"", ""))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_reader_claims_more_bytes_than_the_octets_contain(protocol: str, data: st.DataObject) -> None:
    make, _ = PROTOCOLS[protocol]
    octets = bytearray(data.draw(st.sampled_from(OCTETS[protocol])))
    for _ in range(data.draw(st.integers(0, 4))):
        octets[data.draw(st.integers(0, min(len(octets), 60) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(octets[: data.draw(st.integers(0, len(octets)))]) + data.draw(st.binary(max_size=20))
    captured = data.draw(st.integers(0, len(whole)))
    try:
        found = contents(make(), whole, Unit(b"", ""), captured)
    except Unreadable:
        return

    assert found
    assert all(content.first_byte is None or content.first_byte >= 0 for content in found)
    assert sum(content.byte_count for content in found) <= len(whole) or protocol == "bundle"


def test_a_cfdp_pdu_with_a_wrong_crc_is_not_read() -> None:
    for unit in cfdp_units():
        if unit.fields.get("cfdp.crc_flag"):
            with pytest.raises(Unreadable, match="CRC"):
                contents(Cfdp(), unit.octets[:-1] + bytes([unit.octets[-1] ^ 1]), unit)


@pytest.mark.parametrize(
    ("statuses", "reason", "detail", "verdict"),
    [(1, 0, "received", ""), (12, 2, "forwarded, delivered: sent over a unidirectional link", ""),
     (16, 1, "deleted: lifetime expired", "ended early")],
)  # fmt: skip
def test_a_status_report_says_what_happened_to_a_bundle(statuses: int, reason: int, detail: str, verdict: str) -> None:
    record = (
        bytes([0x10, statuses, reason])
        + sdnv(820_000_000) * 2 * statuses.bit_count()
        + sdnv(5)
        + sdnv(1)
        + b"\x07ipn:1.1"
    )
    report = Bundle(
        source=Eid(2, 0), destination=Eid(1, 0), created=Timestamp(820_000_000, 2), payload=record, administrative=True
    ).encode()
    (found,) = contents(Bundles(), report, Unit(b"", "", from_receiver=True))

    assert (found.name, found.detail, found.verdict) == ("status report", detail, verdict)
