"""LTP segments: there and back, as tshark reads them, and hostile bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.ltp import sdnv
from owlt.agents.ltp.segments import (
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
