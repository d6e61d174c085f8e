"""Bundles for scapy: the layer rebuilds what it dissects, and sees in the endpoint's what the endpoint put in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Packet, Raw

from owlt.agents.bundle import custody
from owlt.agents.bundle.blocks import Bundle, CustodyId, Eid, Fragment, Timestamp
from tests.scapy_layers import bundle as layer

modest = settings(max_examples=150, deadline=None)

NUMBERS = st.integers(0, 2**63 - 1)
EIDS = st.builds(Eid, st.integers(0, 2**31), st.integers(0, 2**31))
STAMPS = st.builds(Timestamp, st.integers(0, 2**40), st.integers(0, 2**31))


@st.composite
def fills(draw: st.DrawFn) -> list[tuple[int, int]]:
    steps = draw(st.lists(st.tuples(st.integers(2, 10**6), st.integers(1, 10**6)), min_size=1, max_size=20))
    made, last = [], 0
    for step, count in steps:
        made.append((last + step, count))
        last += step + count - 1
    return made


def primary(draw: st.DrawFn, flags: int) -> Packet:
    names = ("destination_scheme", "source_scheme", "source_ssp", "custodian_scheme", "created_s", "sequence")
    values: dict[str, Any] = {name: draw(NUMBERS) for name in names}
    if flags & layer.FRAGMENT:
        values |= {"fragment_offset": draw(NUMBERS), "adu_bytes": draw(NUMBERS)}
    return layer.PrimaryBlock(flags=flags | layer.SINGLETON, dictionary=draw(st.binary(max_size=9)), **values)


@st.composite
def built(draw: st.DrawFn) -> Packet:
    """A bundle with any values, as a user of scapy would write it."""
    enhancement = layer.CustodyTransferEnhancementBlock(custody_id=draw(NUMBERS), custodian=draw(st.binary(max_size=9)))
    extension = layer.ExtensionBlock(type=20, flags=layer.EID_REFERENCES, references=[1, 2], content=b"any")
    kind = draw(st.sampled_from(["data", "signal", "aggregate"]))
    if kind == "data":
        carried: Packet = Raw(draw(st.binary(min_size=1, max_size=30)))
        return primary(draw, layer.FRAGMENT * draw(st.integers(0, 1))) / enhancement / extension / last() / carried
    if kind == "aggregate":
        record: Packet = layer.AggregateCustodySignal(succeeded=draw(st.integers(0, 1)), fills=draw(fills()))
    else:
        extent = {"for_fragment": 1, "fragment_offset": draw(NUMBERS), "fragment_bytes": draw(NUMBERS)}
        record = layer.CustodySignal(
            signalled_s=draw(NUMBERS), source=draw(st.binary(max_size=12)), **(extent if draw(st.booleans()) else {})
        )
    return primary(draw, layer.ADMINISTRATIVE) / last() / record


def last() -> Packet:
    return layer.PayloadBlock(flags=layer.LAST_BLOCK)


def layers(packet: Packet) -> list[Packet]:
    found = []
    while packet:
        found.append(packet)
        packet = packet.payload
    return found


def as_the_wire(packet: Packet) -> bytes:
    """The packet's bytes, built anew from the values that were dissected."""
    packet = packet.copy()
    for part in layers(packet):
        part.raw_packet_cache = part.raw_packet_cache_fields = None
    return bytes(packet)


@modest
@given(built())
def test_what_is_built_is_dissected_to_the_same_values(packet: Packet) -> None:
    seen = layer.dissect(bytes(packet))

    assert [type(part) for part in layers(seen)] == [type(part) for part in layers(packet)]
    for part, original in zip(layers(seen), layers(packet), strict=True):
        for name, value in original.fields.items():
            assert part.getfieldval(name) == value, name
    assert as_the_wire(seen) == bytes(packet)


@modest
@given(EIDS, EIDS, STAMPS, st.integers(1, 2**31 - 1), st.integers(0, 10**6), st.binary(min_size=1, max_size=100))
def test_it_sees_in_the_endpoints_data_what_the_endpoint_put_in(
    source: Eid, custodian: Eid, created: Timestamp, number: int, offset: int, payload: bytes
) -> None:
    bundle = Bundle(
        source=source,
        destination=Eid(2, 1),
        created=created,
        payload=payload,
        custodian=custodian,
        custody_id=CustodyId(number, custodian),
        fragment=Fragment(offset, offset + len(payload)),
    )

    seen = layer.dissect(bundle.encode())

    assert (seen.source_scheme, seen.source_ssp, seen.custodian_scheme) == (*source, custodian[0])
    assert (seen.created_s, seen.sequence) == created
    assert (seen.fragment_offset, seen.adu_bytes) == (offset, offset + len(payload))
    assert seen[layer.CustodyTransferEnhancementBlock].custody_id == number
    assert seen[layer.CustodyTransferEnhancementBlock].custodian == custodian.text()
    assert seen[layer.PayloadBlock].payload_bytes == len(payload)
    assert seen[Raw].load == payload
    assert as_the_wire(seen) == bundle.encode()


def administrative(record: bytes) -> bytes:
    return Bundle(
        source=Eid(2, 0), destination=Eid(1, 0), created=Timestamp(1, 2), payload=record, administrative=True
    ).encode()


@modest
@given(fills(), st.sampled_from(custody.Status))
def test_it_sees_the_endpoints_aggregates(ids: list[tuple[int, int]], status: custody.Status) -> None:
    record = custody.AggregateCustodySignal(status, tuple(custody.Fill(*fill) for fill in ids))

    seen = layer.dissect(administrative(record.encode()))[layer.AggregateCustodySignal]

    assert seen.fills == ids
    assert (seen.succeeded, seen.reason) == (status >> 7, status & 0x7F)


@modest
@given(EIDS, STAMPS, st.none() | st.builds(custody.Extent, st.integers(0, 2**31), st.integers(1, 10**6)))
def test_it_sees_the_endpoints_signals(source: Eid, created: Timestamp, extent: custody.Extent | None) -> None:
    record = custody.CustodySignal(
        status=custody.Status.REDUNDANT,
        source=source,
        created=created,
        extent=extent,
        signalled=custody.DtnTime(7, 8),
    )

    seen = layer.dissect(administrative(record.encode()))[layer.CustodySignal]

    assert (seen.created_s, seen.sequence, seen.source) == (*created, source.text())
    assert (seen.succeeded, seen.reason, seen.signalled_s, seen.signalled_ns) == (0, 3, 7, 8)
    assert extent is None or (seen.fragment_offset, seen.fragment_bytes) == extent


@modest
@given(st.binary(max_size=80).map(lambda octets: bytes([layer.VERSION]) + octets) | st.binary(max_size=20))
def test_whatever_the_octets_they_are_a_bundle_or_named_as_none(octets: bytes) -> None:
    try:
        seen = layer.dissect(octets)
    except layer.NotABundle:
        return
    assert bytes(seen) == octets


@modest
@given(built(), st.data())
def test_a_bundle_that_ends_too_early_gives_what_is_there(packet: Packet, data: st.DataObject) -> None:
    octets = bytes(packet)
    cut = octets[: data.draw(st.integers(0, len(octets)))]
    try:
        seen = layer.dissect(cut)
    except layer.NotABundle:
        return
    assert bytes(seen) == cut
    assert seen.created_s == packet.created_s


def test_thousands_of_blocks_in_one_bundle_are_no_trouble() -> None:
    octets = bytes(layer.PrimaryBlock()) + bytes([20, 0, 0]) * 20_000

    assert bytes(layer.dissect(octets)) == octets


def test_a_number_that_does_not_end_is_none() -> None:
    with pytest.raises(layer.NotABundle, match="no end of a number"):
        layer.dissect(bytes([layer.VERSION]) + b"\xff" * 30)


def test_fills_are_shown_as_ranges() -> None:
    shown = layer.AggregateCustodySignal(fills=[(1, 40), (42, 3)]).show(dump=True)

    assert "1-40, 42-44" in str(shown)
