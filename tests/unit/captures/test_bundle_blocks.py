"""The beginning of bundles: read as scapy's layer reads it, and to the end of what is there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Packet

from owlt.captures.protocols.bundles import (
    ADMINISTRATIVE,
    VERSION,
    AggregateCustodySignal,
    CustodySignal,
    NotABundle,
    Payload,
    read_bundle,
    read_record,
)
from tests.scapy_layers import bundle as layer
from tests.unit.captures.test_custody_layer import built

modest = settings(max_examples=150, deadline=None)


def content(octets: bytes, payload: Payload | None) -> bytes:
    assert payload is not None
    return octets[payload.begin : payload.begin + payload.byte_count]


@modest
@given(built())
def test_it_reads_in_a_bundle_what_scapys_layer_reads(packet: Packet) -> None:
    octets = bytes(packet)
    seen, bundle = layer.dissect(octets), read_bundle(octets)

    assert (bundle.flags, bundle.source) == (seen.flags, (seen.source_scheme, seen.source_ssp))
    assert (bundle.created_s, bundle.sequence) == (seen.created_s, seen.sequence)
    assert bundle.fragment_offset == (seen.fragment_offset or 0)
    enhancement = seen.getlayer(layer.CustodyTransferEnhancementBlock)
    assert bundle.custody_id == (enhancement.custody_id if enhancement else None)
    assert content(octets, bundle.payload) == bytes(seen[layer.PayloadBlock].payload)


@modest
@given(built().filter(lambda packet: packet.flags & ADMINISTRATIVE))
def test_it_reads_in_a_record_what_scapys_layer_reads(packet: Packet) -> None:
    octets = bytes(packet)
    seen, record = (
        layer.dissect(octets)[layer.PayloadBlock].payload,
        read_record(content(octets, read_bundle(octets).payload)),
    )

    assert record is not None
    assert (record.succeeded, record.reason) == (bool(seen.succeeded), seen.reason)
    if isinstance(record, AggregateCustodySignal):
        assert (list(record.fills), record.is_complete) == (seen.fills, True)
    else:
        extent = (seen.fragment_offset, seen.fragment_bytes) if seen.for_fragment else None
        assert (record.extent, record.created_s, record.sequence) == (extent, seen.created_s, seen.sequence)


@modest
@given(st.binary(max_size=80).map(lambda octets: bytes([VERSION]) + octets) | st.binary(max_size=20))
def test_any_octets_are_a_bundle_or_named_as_none(octets: bytes) -> None:
    try:
        bundle = read_bundle(octets)
    except NotABundle:
        return
    assert bundle.payload is None or bundle.payload.begin <= len(octets)


@modest
@given(st.binary(max_size=60))
def test_any_octets_are_a_custody_signal_or_none(octets: bytes) -> None:
    assert read_record(octets) is None or octets[0] >> 4 in (layer.CUSTODY_SIGNAL, layer.AGGREGATE_CUSTODY_SIGNAL)


@modest
@given(built(), st.data())
def test_a_bundle_that_ends_too_early_gives_what_is_there(packet: Packet, data: st.DataObject) -> None:
    octets = bytes(packet)
    try:
        bundle = read_bundle(octets[: data.draw(st.integers(0, len(octets)))])
    except NotABundle:
        return
    assert bundle.created_s == packet.created_s
    assert bundle.payload in (None, read_bundle(octets).payload)


def test_a_number_that_does_not_end_is_no_bundle() -> None:
    with pytest.raises(NotABundle, match="no end of the number at octet 1"):
        read_bundle(bytes([VERSION]) + b"\xff" * 30)


def test_fills_that_do_not_end_are_said_to_be_incomplete() -> None:
    record = read_record(bytes([layer.AGGREGATE_CUSTODY_SIGNAL << 4, 0x80, 1, 40, 2]))

    assert record == AggregateCustodySignal(True, 0, ((1, 40),), is_complete=False)


def test_a_signal_about_a_fragment_has_its_extent_and_where_that_ends() -> None:
    octets = bytes(layer.CustodySignal(for_fragment=1, fragment_offset=200, fragment_bytes=7, sequence=3))

    assert read_record(octets) == CustodySignal(True, 0, (200, 7), extent_end=5, created_s=0, sequence=3)


def test_a_count_of_references_beyond_the_octets_ends_the_blocks() -> None:
    block = bytes([20, layer.EID_REFERENCES]) + b"\xff" * 8 + b"\x7f" + bytes(20)

    assert read_bundle(bytes(layer.PrimaryBlock()) + block).payload is None
