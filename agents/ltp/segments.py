"""The segments of LTP (RFC 5326, section 3) as values, their bytes, and reading them back.

A datagram holds one segment. Extensions are skipped: none are sent here, and none change the meaning of a segment.
Bytes after a segment are ignored: ION 4.1.3 sends some after each report that it splits.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from owlt.agents.ltp import sdnv

VERSION = 0

LARGEST_DATA_HEADER_BYTES = 72
"""The header of a checkpoint whose numbers all have the largest value."""


class Malformed(ValueError):
    """A datagram that is no segment of LTP version 0."""


class SegmentType(IntEnum):
    """The low half of a segment's first byte (section 3.1.1). 5, 6, 10 and 11 mean nothing."""

    RED = 0
    CHECKPOINT = 1
    END_OF_RED_PART = 2
    RED_END_OF_BLOCK = 3
    GREEN = 4
    GREEN_END_OF_BLOCK = 7
    REPORT = 8
    REPORT_ACK = 9
    CANCEL_BY_SENDER = 12
    CANCEL_ACK_TO_SENDER = 13
    CANCEL_BY_RECEIVER = 14
    CANCEL_ACK_TO_RECEIVER = 15


class Reason(IntEnum):
    """Why a session is cancelled (section 3.2.4)."""

    USR_CNCLD = 0
    UNREACH = 1
    RLEXC = 2
    MISCOLORED = 3
    SYS_CNCLD = 4
    RXMTCYCEXC = 5


class SessionId(NamedTuple):
    """The engine that sends the block, and its number for the session."""

    engine: int
    number: int


class Checkpoint(NamedTuple):
    """What makes red data a checkpoint. `report_serial` is that of the report it answers, or 0."""

    serial: int
    report_serial: int


class Claim(NamedTuple):
    """Bytes that have arrived. `offset` counts from the lower bound of the report."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class DataSegment:
    """Bytes of a block from `offset` on. Red data end their part or the block only as a checkpoint.

    The end of a block is in its last part: in a red segment it is the end of the red part too.
    """

    session: SessionId
    client_service: int
    offset: int
    data: bytes
    red: bool
    checkpoint: Checkpoint | None = None
    ends_red_part: bool = False
    ends_block: bool = False

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class Report:
    """The red data that have arrived from `lower_bound` up to, not including, `upper_bound`. `checkpoint_serial` is 0
    in a report that no checkpoint requested.
    """

    session: SessionId
    serial: int
    checkpoint_serial: int
    upper_bound: int
    lower_bound: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class ReportAck:
    """Acknowledges a report."""

    session: SessionId
    report_serial: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancels a session, from either side. `reason` is one of `Reason`, or a code that is reserved."""

    session: SessionId
    by_sender: bool
    reason: int


@dataclass(frozen=True, slots=True)
class CancelAck:
    """Acknowledges the cancellation of a session; to the sender of the block or to its receiver."""

    session: SessionId
    to_sender: bool


Segment = DataSegment | Report | ReportAck | Cancel | CancelAck

_DATA_TYPES = {
    # (red, checkpoint, ends_red_part, ends_block)
    (True, False, False, False): SegmentType.RED,
    (True, True, False, False): SegmentType.CHECKPOINT,
    (True, True, True, False): SegmentType.END_OF_RED_PART,
    (True, True, True, True): SegmentType.RED_END_OF_BLOCK,
    (False, False, False, False): SegmentType.GREEN,
    (False, False, False, True): SegmentType.GREEN_END_OF_BLOCK,
}
_DATA_FLAGS = {int(kind): flags for flags, kind in _DATA_TYPES.items()}


def encode(segment: Segment) -> bytes:
    """The bytes of a segment, without extensions.

    Raises:
        ValueError: a number that is negative or has more than 64 bits, or data whose flags no type has.
    """
    match segment:
        case DataSegment():
            return _encode_data(segment)
        case Report():
            numbers = [segment.serial, segment.checkpoint_serial, segment.upper_bound, segment.lower_bound]
            numbers.append(len(segment.claims))
            for claim in segment.claims:
                numbers += claim
            return _header(SegmentType.REPORT, segment.session) + b"".join(map(sdnv.encode, numbers))
        case ReportAck():
            return _header(SegmentType.REPORT_ACK, segment.session) + sdnv.encode(segment.report_serial)
        case Cancel():
            kind = SegmentType.CANCEL_BY_SENDER if segment.by_sender else SegmentType.CANCEL_BY_RECEIVER
            return _header(kind, segment.session) + bytes((segment.reason,))
        case CancelAck():
            kind = SegmentType.CANCEL_ACK_TO_SENDER if segment.to_sender else SegmentType.CANCEL_ACK_TO_RECEIVER
            return _header(kind, segment.session)


def _encode_data(segment: DataSegment) -> bytes:
    checkpoint = segment.checkpoint
    flags = (segment.red, checkpoint is not None, segment.ends_red_part, segment.ends_block)
    try:
        kind = _DATA_TYPES[flags]
    except KeyError:
        raise ValueError(f"no data segment has red, checkpoint, ends_red_part, ends_block = {flags}") from None
    parts = [_header(kind, segment.session)]
    parts += map(sdnv.encode, (segment.client_service, segment.offset, len(segment.data), *(checkpoint or ())))
    parts.append(segment.data)
    return b"".join(parts)


def _header(kind: SegmentType, session: SessionId) -> bytes:
    return b"".join((bytes((VERSION << 4 | kind,)), sdnv.encode(session.engine), sdnv.encode(session.number), b"\0"))


def decode(datagram: bytes) -> Segment:
    """The segment in a datagram.

    Raises:
        Malformed: not version 0, a type without meaning, cut short, or claims that break section 3.2.2.
    """
    try:
        return _decode(datagram)
    except (IndexError, sdnv.NoNumber) as error:
        raise Malformed(f"ends too early: {error}") from error


def segment_type(datagram: bytes) -> SegmentType:
    """The type of a datagram that `encode` made or `decode` took."""
    return SegmentType(datagram[0] & 0x0F)


def _decode(datagram: bytes) -> Segment:
    kind = datagram[0] & 0x0F
    if datagram[0] >> 4 != VERSION:
        raise Malformed(f"version {datagram[0] >> 4}")
    engine, place = sdnv.decode(datagram, 1)
    number, place = sdnv.decode(datagram, place)
    session = SessionId(engine, number)
    extensions = datagram[place]
    place = _behind_extensions(datagram, place + 1, extensions >> 4)
    segment: Segment
    if kind in _DATA_FLAGS:
        segment, place = _decode_data(datagram, place, kind, session)
    elif kind == SegmentType.REPORT:
        segment, place = _decode_report(datagram, place, session)
    elif kind == SegmentType.REPORT_ACK:
        serial, place = sdnv.decode(datagram, place)
        segment = ReportAck(session, serial)
    elif kind in (SegmentType.CANCEL_BY_SENDER, SegmentType.CANCEL_BY_RECEIVER):
        segment, place = Cancel(session, kind == SegmentType.CANCEL_BY_SENDER, datagram[place]), place + 1
    elif kind in (SegmentType.CANCEL_ACK_TO_SENDER, SegmentType.CANCEL_ACK_TO_RECEIVER):
        segment = CancelAck(session, kind == SegmentType.CANCEL_ACK_TO_SENDER)
    else:
        raise Malformed(f"segments of type {kind} have no meaning")
    _behind_extensions(datagram, place, extensions & 0x0F)
    return segment


def _behind_extensions(datagram: bytes, place: int, count: int) -> int:
    """The position after `count` extensions (section 3.1.4): a tag, a length, a value each."""
    for _ in range(count):
        length, value_at = sdnv.decode(datagram, place + 1)
        place = value_at + length
        if place > len(datagram):
            raise Malformed("an extension ends behind the datagram")
    return place


def _decode_data(datagram: bytes, place: int, kind: int, session: SessionId) -> tuple[DataSegment, int]:
    red, is_checkpoint, ends_red_part, ends_block = _DATA_FLAGS[kind]
    client_service, place = sdnv.decode(datagram, place)
    offset, place = sdnv.decode(datagram, place)
    length, place = sdnv.decode(datagram, place)
    checkpoint = None
    if is_checkpoint:
        serial, place = sdnv.decode(datagram, place)
        report_serial, place = sdnv.decode(datagram, place)
        checkpoint = Checkpoint(serial, report_serial)
        if serial == 0:
            raise Malformed("a checkpoint without a serial number")
    end = place + length
    if end > len(datagram):
        raise Malformed(f"{length} bytes of data, but only {len(datagram) - place} came")
    data = datagram[place:end]
    return DataSegment(session, client_service, offset, data, red, checkpoint, ends_red_part, ends_block), end


def _decode_report(datagram: bytes, place: int, session: SessionId) -> tuple[Report, int]:
    serial, place = sdnv.decode(datagram, place)
    checkpoint_serial, place = sdnv.decode(datagram, place)
    upper_bound, place = sdnv.decode(datagram, place)
    lower_bound, place = sdnv.decode(datagram, place)
    count, place = sdnv.decode(datagram, place)
    if count > len(datagram):
        raise Malformed(f"{count} claims in {len(datagram)} bytes")
    claims, free_from = [], 0
    for _ in range(count):
        offset, place = sdnv.decode(datagram, place)
        length, place = sdnv.decode(datagram, place)
        if offset < free_from or length == 0 or lower_bound + offset + length > upper_bound:
            raise Malformed(f"a claim of {length} bytes at {offset} within {lower_bound} to {upper_bound}")
        claims.append(Claim(offset, length))
        free_from = offset + length
    if serial == 0 or lower_bound >= upper_bound:
        raise Malformed(f"report {serial} on {lower_bound} to {upper_bound}")
    return Report(session, serial, checkpoint_serial, upper_bound, lower_bound, tuple(claims)), place
