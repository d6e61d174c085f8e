"""Saratoga's packets: read field by field as scapy's layer reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Packet

from owlt.captures.protocols.saratoga import NotSaratoga, kind_of, read_packet
from tests.scapy_layers import saratoga as layer
from tests.unit.captures.test_saratoga_layer import built

modest = settings(max_examples=200, deadline=None)


@modest
@given(built())
def test_it_reads_every_field_that_scapys_layer_reads(packet: Packet) -> None:
    octets = bytes(packet)
    seen, read = layer.Saratoga(octets), read_packet(octets)

    assert read.fields == {name: value for name, value in seen.fields.items() if value is not None}
    assert read.rest == bytes(seen.payload)


@modest
@given(built(), st.data())
def test_a_packet_that_ends_too_early_is_refused_as_scapys_layer_refuses_it(
    packet: Packet, data: st.DataObject
) -> None:
    octets = bytes(packet)
    cut = octets[: data.draw(st.integers(1, len(octets)))]
    try:
        read = read_packet(cut)
    except NotSaratoga:
        with pytest.raises(Exception, match=r"."):
            layer.Saratoga(cut)
    else:
        seen = layer.Saratoga(cut)
        assert read.fields == {name: value for name, value in seen.fields.items() if value is not None}


@pytest.mark.parametrize("octets", [b"", b"\x2a", b"\x05", b"\x43", b"\xff"], ids=["none", "type", "type 0", "2", "7"])
def test_an_unknown_version_or_type_is_no_packet(octets: bytes) -> None:
    with pytest.raises(NotSaratoga, match=f"begins with {octets[:1].hex() or 'nothing'}"):
        kind_of(octets)


def test_half_a_hole_is_left_over() -> None:
    octets = bytes(layer.Saratoga0HolesToFill(holes=[(1, 2)])) + b"\0\0\0\7"

    assert (read_packet(octets).fields["holes"], read_packet(octets).rest) == ([(1, 2)], b"\0\0\0\7")
