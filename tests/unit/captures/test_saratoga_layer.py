"""Saratoga for scapy: it rebuilds what it dissects, and sees in the endpoint's packets what the endpoint put in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Data, Metadata, Request, Status, name_octets
from tests.scapy_layers import saratoga as layer
from tests.unit.agents.saratoga_channel import lose_at_random, transfer
from tests.unit.agents.saratoga_examples import version_0_packets, version_1_packets
from tests.unit.captures.making import ethernet

modest = settings(max_examples=150, deadline=None)

FOUR_OCTETS = st.integers(0, 2**32 - 1)
NAMES = st.binary(max_size=30).map(lambda octets: octets.replace(b"\0", b"x"))
CODE_OF_BITS = {16: 0, 32: 1, 64: 2, 128: 3}
CHECKSUM_TYPES = {"none": 0, "crc32": 1, "md5": 2, "sha1": 3}
FLAGS = st.integers(0, 1)


@st.composite
def built(draw: st.DrawFn) -> Packet:
    """A packet of any class with any values, as a user of scapy would write it."""
    of = draw(st.integers(0, 3))
    offset = st.integers(0, 2 ** (16 << of) - 1)
    short = FOUR_OCTETS
    holes = st.lists(st.tuples(offset, offset), max_size=5)
    short_holes = st.lists(st.tuples(short, short), max_size=5)
    words = draw(st.integers(0, 15))
    common: dict[str, Any] = {"session": draw(FOUR_OCTETS)}
    stamped = draw(FLAGS)
    stamp: dict[str, Any] = {"stamped": 1, "timestamp": draw(st.binary(min_size=16, max_size=16))} if stamped else {}
    made: list[Packet] = [
        layer.SaratogaBeacon(
            descriptor=of,
            sends=draw(st.integers(0, 3)),
            has_free_space=1,
            free_space_descriptor=of,
            free_space=draw(offset),
            endpoint=draw(NAMES),
        ),
        layer.SaratogaRequest(
            **common,
            descriptor=of,
            sends=draw(st.integers(0, 3)),
            receives=draw(st.integers(0, 3)),
            request=draw(st.integers(0, 255)),
            file_name=draw(NAMES),
        ),
        layer.SaratogaMetadata(
            **common,
            transfer=draw(st.integers(0, 3)),
            checksum_words=words,
            checksum_type=draw(st.integers(0, 15)),
            checksum=draw(st.binary(min_size=4 * words, max_size=4 * words)),
            entry_descriptor=of,
            file_bytes=draw(offset),
            modified_s=draw(FOUR_OCTETS),
            changed_s=draw(FOUR_OCTETS),
            file_name=draw(NAMES),
        ),
        layer.SaratogaData(
            **common, **stamp, descriptor=of, asks=draw(FLAGS), ends=draw(FLAGS), offset=draw(offset), data=draw(NAMES)
        ),
        layer.SaratogaStatus(
            **common,
            **stamp,
            descriptor=of,
            metadata_missing=draw(FLAGS),
            partial=draw(FLAGS),
            voluntary=draw(FLAGS),
            error=draw(st.integers(0, 255)),
            progress=draw(offset),
            in_response_to=draw(offset),
            holes=draw(holes),
        ),
        layer.Saratoga0Beacon(endpoint=draw(NAMES)),
        layer.Saratoga0Request(**common, request=draw(st.integers(0, 255)), file_name=draw(NAMES)),
        layer.Saratoga0Metadata(**common, file_bytes=draw(short), file_name=draw(NAMES)),
        layer.Saratoga0Data(**common, asks=draw(FLAGS), offset=draw(short), data=draw(NAMES)),
        layer.Saratoga0HolesToFill(
            **common, partial=draw(FLAGS), progress=draw(short), in_response_to=draw(short), holes=draw(short_holes)
        ),
    ]
    return draw(st.sampled_from(made))


@modest
@given(built())
def test_what_is_built_is_dissected_to_the_same_values(packet: Packet) -> None:
    dissected = layer.Saratoga(bytes(packet))

    assert type(dissected) is type(packet)
    assert not dissected.payload
    for name, value in packet.fields.items():
        assert dissected.getfieldval(name) == value, name


def as_the_wire(packet: Packet) -> bytes:
    """The packet's bytes, built anew from the values that were dissected."""
    packet = packet.copy()
    packet.raw_packet_cache = None
    packet.raw_packet_cache_fields = None
    return bytes(packet)


def assert_same_values(packet: Request | Metadata | Data | Status, seen: Packet) -> None:
    """Field by field: the endpoint's names and the layer's stand here once."""
    assert seen.session == packet.session
    if seen.version == 1:
        assert seen.descriptor == CODE_OF_BITS[packet.descriptor_bits]
    if isinstance(packet, Data):
        assert (seen.offset, seen.data, seen.asks) == (packet.offset, packet.payload, packet.asks)
        assert seen.version == 0 or (seen.ends, seen.stamped) == (packet.ends, bool(packet.timestamp))
        assert not packet.timestamp or seen.timestamp == packet.timestamp
    elif isinstance(packet, Status):
        assert (seen.progress, seen.in_response_to) == (packet.progress, packet.in_response_to)
        assert seen.holes == list(packet.holes)
        flags = (packet.partial, packet.voluntary, packet.metadata_missing)
        assert (seen.partial, seen.voluntary, seen.metadata_missing) == flags
        assert seen.version == 0 or seen.error == packet.code
        assert not packet.timestamp or seen.timestamp == packet.timestamp
    elif isinstance(packet, Metadata):
        assert (seen.file_bytes, seen.file_name) == (packet.file_bytes, name_octets(packet.name))
        if seen.version == 1:
            assert (seen.checksum_type, seen.checksum) == (CHECKSUM_TYPES[packet.checksum], packet.digest)
            assert (seen.transfer, seen.entry, seen.entry_kind) == (0, 1, 0)
            assert seen.entry_descriptor == seen.descriptor
    else:
        assert (seen.request, seen.file_name) == (packet.action, name_octets(packet.name))
        if seen.version == 1:
            assert (seen.sends, seen.receives) == {1: (0, 3), 2: (3, 0)}.get(packet.action, (0, 0))


@modest
@given(version_1_packets)
def test_it_sees_in_the_endpoints_packets_what_the_endpoint_put_in(packet: Request | Metadata | Data | Status) -> None:
    packed = version1.pack(packet)
    seen = layer.Saratoga(packed)

    assert_same_values(packet, seen)
    assert as_the_wire(seen) == packed
    assert not seen.payload


@modest
@given(version_0_packets)
def test_it_sees_the_same_in_version_0(packet: Request | Metadata | Data | Status) -> None:
    packed = version0.pack(packet)
    seen = layer.Saratoga(packed)

    assert_same_values(packet, seen)
    assert as_the_wire(seen) == packed
    assert not seen.payload


@pytest.mark.parametrize(
    "way",
    [
        {"timestamps": "on"},
        {"start": "asked", "checksum": "sha1"},
        {"transfer": "get", "voluntary_s": 0.02, "descriptor_bits": 64},
        {"transfer": "get", "version": 0, "status_packets": 7},
    ],
    ids=["put", "asked", "get", "v0"],
)
def test_all_that_a_lossy_transfer_sends_is_dissected_and_rebuilt(tmp_path: Path, way: dict[str, Any]) -> None:
    content = random.Random(2).randbytes(60_000)

    sent = transfer(tmp_path, lose_at_random(0.15, 4), content=content, segment_bytes=200, **way).sent

    read = (version0, version1)[way.get("version", 1)].read
    for datagram in sent:
        packet, seen = read(datagram), layer.Saratoga(datagram)
        assert isinstance(packet, Request | Metadata | Data | Status)
        assert_same_values(packet, seen)
        assert as_the_wire(seen) == datagram


@pytest.mark.parametrize(("version", "port"), [(1, 7542), (0, 4000)])
@pytest.mark.parametrize("ports", ["sport", "dport"])
def test_a_udp_packet_of_its_port_is_dissected(version: int, port: int, ports: str) -> None:
    inner = layer.SaratogaData(offset=7) if version else layer.Saratoga0Data(offset=7)
    udp = UDP(sport=1, dport=1)
    udp.setfieldval(ports, port)

    frame = Ether(bytes(ethernet() / IP() / udp / inner))

    assert frame[type(inner)].offset == 7
    assert Raw not in frame


@modest
@given(st.binary(max_size=60))
def test_no_datagram_breaks_the_dissection_of_a_frame(datagram: bytes) -> None:
    frame = bytes(ethernet() / IP() / UDP(sport=7542, dport=7542) / Raw(datagram))

    assert bytes(Ether(frame)) == frame


def test_what_is_cut_short_stays_raw() -> None:
    frame = Ether(bytes(ethernet() / IP() / UDP(sport=7542, dport=7542) / Raw(bytes.fromhex("2300000000"))))

    assert Raw in frame
    assert layer.SaratogaData not in frame


def test_a_type_that_is_unknown_is_shown_as_saratoga() -> None:
    assert type(layer.Saratoga(bytes.fromhex("2A000001"))) is layer.Saratoga


def test_holes_are_shown_as_ranges() -> None:
    shown = layer.SaratogaStatus(holes=[(1000, 2000), (5000, 6000)]).show(dump=True)

    assert "1000-2000, 5000-6000" in str(shown)
