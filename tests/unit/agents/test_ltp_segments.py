"""LTP segments: there and back, as tshark reads them, and hostile bytes."""

import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ltp import sdnv
from agents.ltp.segments import (
    Cancel,
    CancelAck,
    Checkpoint,
    Claim,
    DataSegment,
    Malformed,
    Report,
    ReportAck,
    Segment,
    SegmentType,
    SessionId,
    decode,
    encode,
    segment_type,
)
from tests.conftest import require_command

NUMBERS = st.integers(0, sdnv.LARGEST)
SERIALS = st.integers(1, sdnv.LARGEST)
SESSIONS = st.builds(SessionId, NUMBERS, NUMBERS)
DATA = st.builds(
    lambda session, service, offset, data, flags, checkpoint: DataSegment(
        session, service, offset, data, flags[0], checkpoint if flags[1] else None, flags[2], flags[3]
    ),
    SESSIONS,
    NUMBERS,
    NUMBERS,
    st.binary(max_size=40),
    st.sampled_from(
        [
            (True, False, False, False),
            (True, True, False, False),
            (True, True, True, False),
            (True, True, True, True),
            (False, False, False, False),
            (False, False, False, True),
        ]
    ),
    st.builds(Checkpoint, SERIALS, NUMBERS),
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    edges = sorted(draw(st.sets(st.integers(0, 10**6), min_size=2, max_size=12)))
    edges = edges[: len(edges) // 2 * 2]
    claims = tuple(Claim(start, end - start) for start, end in zip(edges[::2], edges[1::2], strict=True))
    lower = draw(st.integers(0, 10**9))
    upper = lower + edges[-1] + draw(st.integers(0, 100))
    return Report(draw(SESSIONS), draw(SERIALS), draw(NUMBERS), upper, lower, claims)


SEGMENTS: st.SearchStrategy[Segment] = st.one_of(
    DATA,
    reports(),
    st.builds(ReportAck, SESSIONS, NUMBERS),
    st.builds(Cancel, SESSIONS, st.booleans(), st.integers(0, 255)),
    st.builds(CancelAck, SESSIONS, st.booleans()),
)


@settings(max_examples=200, deadline=None)
@given(SEGMENTS)
def test_a_segment_is_read_back_as_it_was(segment: Segment) -> None:
    assert decode(encode(segment)) == segment


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_are_a_segment_or_malformed(octets: bytes) -> None:
    try:
        segment = decode(octets)
    except Malformed:
        return
    assert decode(encode(segment)) == segment


@settings(max_examples=300, deadline=None)
@given(SEGMENTS, st.data())
def test_a_damaged_segment_is_a_segment_or_malformed(segment: Segment, data: st.DataObject) -> None:
    octets = bytearray(encode(segment))
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode(bytes(octets))
    except Malformed:
        return


@settings(max_examples=100, deadline=None)
@given(SEGMENTS, st.data())
def test_a_segment_that_is_cut_short_is_malformed(segment: Segment, data: st.DataObject) -> None:
    octets = encode(segment)

    with pytest.raises(Malformed):
        decode(octets[: data.draw(st.integers(0, len(octets) - 1))])


SESSION = SessionId(1, 300)

ONE_OF_EACH: dict[SegmentType, Segment] = {
    SegmentType.RED: DataSegment(SESSION, 2, 0, b"red", True),
    SegmentType.CHECKPOINT: DataSegment(SESSION, 2, 3, b"red", True, Checkpoint(300, 0)),
    SegmentType.END_OF_RED_PART: DataSegment(SESSION, 2, 6, b"red", True, Checkpoint(301, 5), True),
    SegmentType.RED_END_OF_BLOCK: DataSegment(SESSION, 2, 6, b"red", True, Checkpoint(302, 5), True, True),
    SegmentType.GREEN: DataSegment(SESSION, 2, 9, b"green", False),
    SegmentType.GREEN_END_OF_BLOCK: DataSegment(SESSION, 2, 14, b"green", False, ends_block=True),
    SegmentType.REPORT: Report(SESSION, 5, 300, 9000, 1000, (Claim(0, 2000), Claim(3000, 500))),
    SegmentType.REPORT_ACK: ReportAck(SESSION, 5),
    SegmentType.CANCEL_BY_SENDER: Cancel(SESSION, True, 2),
    SegmentType.CANCEL_ACK_TO_SENDER: CancelAck(SESSION, True),
    SegmentType.CANCEL_BY_RECEIVER: Cancel(SESSION, False, 3),
    SegmentType.CANCEL_ACK_TO_RECEIVER: CancelAck(SESSION, False),
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_every_segment_has_its_type(kind: SegmentType) -> None:
    assert segment_type(encode(ONE_OF_EACH[kind])) == kind


def test_there_is_one_of_each_type() -> None:
    assert list(ONE_OF_EACH) == list(SegmentType)


def test_extensions_before_and_behind_are_read_over() -> None:
    octets = encode(ONE_OF_EACH[SegmentType.REPORT_ACK])
    authentication, cookie = bytes.fromhex("00 02 aa bb"), bytes.fromhex("01 00")

    extended = octets[:4] + b"\x21" + authentication + cookie + octets[5:] + authentication

    assert decode(extended) == ONE_OF_EACH[SegmentType.REPORT_ACK]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_bytes_behind_a_segment_are_ignored(kind: SegmentType) -> None:
    """ION 4.1.3 sends five behind each report that it splits."""
    assert decode(encode(ONE_OF_EACH[kind]) + bytes(5)) == ONE_OF_EACH[kind]


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("10 01 07 00 02 00 01 aa", "version 1"),
        ("05 01 07 00 02 00 01 aa", "type 5"),
        ("09 01 07 10 00 7f 05", "extension"),
        ("00 01 07 00 02 00 09 aa", "9 bytes of data"),
        ("01 01 07 00 02 00 01 00 00 aa", "serial"),
        ("08 01 07 00 00 05 0a 00 00", "report 0"),
        ("08 01 07 00 05 05 0a 0a 00", "10 to 10"),
        ("08 01 07 00 05 05 0a 00 01 00 00", "claim of 0"),
        ("08 01 07 00 05 05 0a 00 01 05 06", "claim of 6"),
        ("08 01 07 00 05 05 0a 00 02 00 05 04 02", "claim of 2"),
        ("08 01 07 00 05 05 0a 00 ff 7f", "claims in"),
    ],
)
def test_a_segment_that_breaks_a_rule_is_malformed(octets: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode(bytes.fromhex(octets))


def test_data_with_flags_that_no_type_has_are_not_written() -> None:
    with pytest.raises(ValueError, match="no data segment"):
        encode(DataSegment(SESSION, 2, 0, b"green", False, Checkpoint(1, 0)))


def test_acknowledgements_of_cancellations_are_a_header_and_nothing_else() -> None:
    """Written down here, for tshark 4.0 takes them for malformed: it wants a content in every segment."""
    assert encode(CancelAck(SESSION, to_sender=True)).hex(" ") == "0d 01 82 2c 00"
    assert encode(CancelAck(SESSION, to_sender=False)).hex(" ") == "0f 01 82 2c 00"


READABLE = {kind: segment for kind, segment in ONE_OF_EACH.items() if not isinstance(segment, CancelAck)}
FIELDS = {
    "ltp.type": [f"0x{int(kind):02x}" for kind in READABLE],
    "ltp.session.orig": ["1"] * 10,
    "ltp.session.number": ["300"] * 10,
    "ltp.data.client.id": ["2"] * 6 + [""] * 4,
    "ltp.data.offset": ["0", "3", "6", "6", "9", "14"] + [""] * 4,
    "ltp.data.length": ["3", "3", "3", "3", "5", "5"] + [""] * 4,
    "ltp.data.chkp": ["", "300", "301", "302"] + [""] * 6,
    "ltp.data.rpt": ["", "0", "5", "5"] + [""] * 6,
    "ltp.rpt.sno": [""] * 6 + ["5", "", "", ""],
    "ltp.rpt.chkp": [""] * 6 + ["300", "", "", ""],
    "ltp.rpt.ub": [""] * 6 + ["9000", "", "", ""],
    "ltp.rpt.lb": [""] * 6 + ["1000", "", "", ""],
    "ltp.rpt.clm.off": [""] * 6 + ["0,3000", "", "", ""],
    "ltp.rpt.clm.len": [""] * 6 + ["2000,500", "", "", ""],
    "ltp.rpt.ack.sno": [""] * 7 + ["5", "", ""],
    "ltp.cancel.code": [""] * 8 + ["0x02", "0x03"],
    "_ws.malformed": [""] * 10,
}


@pytest.fixture(scope="module")
def as_tshark_reads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The fields of one segment of each type that tshark reads, from a capture of raw IPv4 packets."""
    tshark = require_command("tshark")
    capture: Path = tmp_path_factory.mktemp("ltp") / "segments.pcap"
    capture.write_bytes(_pcap([encode(segment) for segment in READABLE.values()]))
    wanted = [argument for field in FIELDS for argument in ("-e", field)]
    command = [tshark, "-r", str(capture), "-T", "fields", *wanted]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    return {field: [row[at] for row in rows] for at, field in enumerate(FIELDS)}


@pytest.mark.parametrize("field", FIELDS)
def test_tshark_reads_what_was_written(field: str, as_tshark_reads: dict[str, list[str]]) -> None:
    assert as_tshark_reads[field] == FIELDS[field]


def _pcap(payloads: list[bytes]) -> bytes:
    """UDP datagrams between two ports 1113, each in a packet of its own; link type 101 is raw IP."""
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for second, payload in enumerate(payloads):
        length = 28 + len(payload)
        addresses = bytes((10, 77, 0, 1, 10, 77, 0, 2))
        packet = struct.pack(">BBHHHBBH", 0x45, 0, length, second, 0, 64, 17, 0) + addresses
        packet += struct.pack(">HHHH", 1113, 1113, length - 20, 0) + payload
        capture += struct.pack("<IIII", second, 0, length, length) + packet
    return capture
