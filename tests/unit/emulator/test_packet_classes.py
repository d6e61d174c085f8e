"""Classes of packets whose fields have no fixed place: what libpcap's interpreter lets pass, of packets that the
endpoints and scapy's layers make."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from owlt.agents.ltp import segments as ltp
from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Data, Status
from owlt.emulator.channel.aimed_fault import compiled, named_classes
from tests.scapy_layers import bundle as layer
from tests.unit.captures.test_custody_layer import built
from tests.unit.emulator.test_aimed_faults import passes

modest = settings(max_examples=200, deadline=None)
LARGEST = 2**28 - 1
"""The largest length that an SDNV of four octets has."""


def classes(protocol: str, payload: bytes) -> set[str]:
    """The classes of a protocol that pass a datagram."""
    frame = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / Raw(payload)
    names = [name for name in named_classes() if name.startswith(f"{protocol}.")]
    return {name.partition(".")[2] for name in names if passes(compiled(name), frame)}


def in_class(name: str, payload: bytes) -> bool:
    protocol, _, kind = name.partition(".")
    return kind in classes(protocol, payload)


CLAIMS = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=4)
SERIALS = st.integers(0, 2**20)


@st.composite
def reports(draw: st.DrawFn) -> ltp.Report:
    """Reports, most of them with one claim, some of them with all octets of their scope."""
    lower = draw(st.sampled_from([0, 0, 1, 128, 5000]))
    whole = draw(st.one_of(st.integers(1, 300), st.integers(1, LARGEST)))
    claims = [ltp.Claim(draw(st.sampled_from([0, 0, 1, 128])), whole)]
    for gap, length in draw(st.one_of(st.just([]), CLAIMS)):
        claims.append(ltp.Claim(claims[-1].offset + claims[-1].length + gap, length))
    end = claims[-1].offset + claims[-1].length
    upper = lower + end + draw(st.sampled_from([0, 0, 1, 128, 128**2, 128**3]))
    session = ltp.SessionId(draw(SERIALS), draw(SERIALS))
    return ltp.Report(session, draw(SERIALS), draw(SERIALS), upper, lower, tuple(claims))


@modest
@given(reports())
def test_a_whole_report_is_one_that_claims_all_from_the_beginning_to_its_upper_bound(report: ltp.Report) -> None:
    is_whole = report.lower_bound == 0 and report.claims == (ltp.Claim(0, report.upper_bound),)
    expected = {"any", "report"} | ({"report-whole"} if is_whole and report.upper_bound <= LARGEST else set())

    assert classes("ltp", ltp.encode(report)) == expected


@pytest.mark.parametrize("length", [1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21, LARGEST])
def test_a_whole_report_is_seen_at_each_length_of_its_numbers(length: int) -> None:
    report = ltp.Report(ltp.SessionId(1, 1), 1, 1, length, 0, (ltp.Claim(0, length),))

    assert in_class("ltp.report-whole", ltp.encode(report))
    assert not in_class("ltp.report-whole", ltp.encode(replace(report, upper_bound=length + 128)))


REPORTS, PRIORITY = 1 << 18, 1 << 7
"""Processing flags that make the number of all flags three and two octets long: RFC 5050, section 4.2."""


@modest
@given(built(), st.sampled_from([0, layer.CUSTODY]), st.sampled_from([0, PRIORITY, REPORTS]))
def test_a_bundle_of_version_6_is_in_the_class_of_its_flags_and_record(packet: Packet, custody: int, more: int) -> None:
    packet.flags |= custody | more
    octets = bytes(packet)
    is_admin = bool(packet.flags & layer.ADMINISTRATIVE)
    expected = {"any", "administrative" if is_admin else "data"}
    expected |= {"fragment"} if packet.flags & layer.FRAGMENT else set()
    expected |= {"custody"} if custody else set()
    if is_admin and layer.dissect(octets).block_bytes < 128:
        expected |= {"aggregate-custody-signal" if layer.AggregateCustodySignal in packet else "custody-signal"}

    assert classes("bp6", octets) == expected


def test_a_record_behind_a_block_beside_the_payload_is_an_administrative_record_alone() -> None:
    enhancement = layer.CustodyTransferEnhancementBlock(custody_id=1, custodian=b"ipn:1.0")
    payload = layer.PayloadBlock(flags=layer.LAST_BLOCK)
    bundle = layer.PrimaryBlock(flags=layer.ADMINISTRATIVE) / enhancement / payload / layer.CustodySignal(source=b"")

    assert classes("bp6", bytes(bundle)) == {"any", "administrative"}


@pytest.mark.parametrize("flags", [0x04, 0x44, 0x4004, 0x04_4004], ids=hex)
@pytest.mark.parametrize(("kind", "bit"), [("data", 0), ("administrative", 2)])
def test_a_bundle_of_version_7_is_in_the_class_of_its_flags(flags: int, kind: str, bit: int) -> None:
    assert classes("bp7", bundle_7(flags | bit)) == {"any", kind}
    assert classes("bp7", bundle_7(flags | bit | 1)) == {"any", kind, "fragment"}


def bundle_7(flags: int) -> bytes:
    """The beginning of a bundle of version 7 (RFC 9171, section 4.3.1), with its flags as CBOR has them (RFC 8949)."""
    size = next(size for size in (0, 1, 2, 4) if flags < (24 if not size else 1 << 8 * size))
    number = bytes([flags]) if not size else bytes([{1: 24, 2: 25, 4: 26}[size]]) + flags.to_bytes(size)
    return bytes.fromhex("9f8907") + number + bytes.fromhex("0182028201018202820201820282010182000018ff")


DESCRIPTORS = pytest.mark.parametrize("descriptor_bits", [16, 32, 64, 128])
STAMPS = pytest.mark.parametrize("stamp", [b"", bytes(16)], ids=["without a timestamp", "with a timestamp"])
STATUS = Status(
    session=7,
    code=0,
    progress=0,
    in_response_to=9,
    holes=(),
    partial=False,
    voluntary=False,
    metadata_missing=False,
    timestamp=b"",
    descriptor_bits=32,
)


@DESCRIPTORS
@STAMPS
def test_a_status_of_saratoga_with_holes_is_one_at_each_length_of_offsets(descriptor_bits: int, stamp: bytes) -> None:
    status = replace(STATUS, descriptor_bits=descriptor_bits, timestamp=stamp)

    assert classes("saratoga", version1.pack(status)) == {"any", "status"}
    assert classes("saratoga", version1.pack(replace(status, holes=((1, 3),)))) == {"any", "status", "status-holes"}


@pytest.mark.parametrize("version", [version0, version1], ids=["0", "1"])
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"holes": ((1, 3),)}, "status-holes"),
        ({"voluntary": True}, "status-voluntary"),
        ({"metadata_missing": True}, "status-metadata-missing"),
    ],
)
def test_a_status_of_either_version_is_in_the_class_of_its_content(
    version: ModuleType, changes: dict[str, Any], kind: str
) -> None:
    assert classes("saratoga", version.pack(STATUS)) == {"any", "status"}
    assert classes("saratoga", version.pack(replace(STATUS, **changes))) == {"any", "status", kind}


def test_an_error_of_saratoga_is_in_its_class() -> None:
    assert classes("saratoga", version1.pack(replace(STATUS, code=5))) == {"any", "status", "status-error"}


@pytest.mark.parametrize("version", [version0, version1], ids=["0", "1"])
def test_data_of_saratoga_that_request_a_status_are_in_a_class_of_their_own(version: ModuleType) -> None:
    data = Data(session=7, offset=0, payload=b"data", asks=False, ends=False, timestamp=b"", descriptor_bits=32)

    assert classes("saratoga", version.pack(data)) == {"any", "data"}
    assert classes("saratoga", version.pack(replace(data, asks=True))) == {"any", "data", "data-requesting-status"}


def test_the_end_of_data_of_saratoga_is_in_its_class() -> None:
    data = Data(session=7, offset=0, payload=b"data", asks=False, ends=True, timestamp=b"", descriptor_bits=32)

    assert classes("saratoga", version1.pack(data)) == {"any", "data", "end-of-data"}


def test_a_beacon_of_saratoga_is_in_its_class() -> None:
    assert classes("saratoga", bytes([0x20, 0, 0, 0]) + b"eid") == {"any", "beacon"}
