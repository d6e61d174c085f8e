"""Reading PDUs, where a datagram is a complete PDU of our transaction or ignored, and the few PDUs made here."""

import struct
from binascii import crc_hqx

from spacepackets.cfdp import (
    ConditionCode,
    CrcFlag,
    Direction,
    GenericPduPacket,
    InvalidCrcError,
    LargeFileFlag,
    PduFactory,
    TransmissionMode,
)
from spacepackets.cfdp.conf import PduConfig
from spacepackets.cfdp.pdu import AckPdu, DirectiveType, EofPdu, FileDataPdu, FinishedPdu, NakPdu, TransactionStatus
from spacepackets.cfdp.pdu.file_data import FileDataParams
from spacepackets.cfdp.pdu.header import UnsupportedCfdpVersionError
from spacepackets.cfdp.tlv import TlvTypeMissmatchError
from spacepackets.exceptions import BytesTooShortError

from owlt.agents.cfdp.settings import LARGEST_FILE_BYTES

Lengths = tuple[int, int]
"""Octets of an entity id and of a sequence number in the header of a PDU: 1 to 8 (CCSDS 727.0-B-5, section 5.1)."""
_ENGINE_LENGTHS = (1, 2, 4, 8)
"""Lengths that spacepackets reads."""
_FIXED_BYTES, _OFFSET_BYTES, _CRC_BYTES, _HAS_CRC = 4, 4, 2, 0x02

_DAMAGED = (
    ValueError,
    IndexError,
    OverflowError,
    struct.error,
    BytesTooShortError,
    InvalidCrcError,
    TlvTypeMissmatchError,
    UnsupportedCfdpVersionError,
)


def read_pdu(
    datagram: bytes, *, towards: Direction, with_crc: bool, entities: tuple[int, int], transaction: int | None
) -> GenericPduPacket | None:
    """The PDU in a datagram; None if it is damaged, of other entities, goes the other way, or is not of class 2, or
    where it is beyond a file of 32-bit offsets: the engine requests everything before any data that it receives.

    `entities` are the ids of source and destination, `transaction` is its number; None takes any. Ids and numbers are
    compared by value, not by their length in the header. `with_crc` refuses PDUs without a CRC; a CRC is always
    verified.
    """
    try:
        datagram = with_lengths(datagram, _readable(lengths_of(datagram)))
        pdu = PduFactory.from_raw(datagram)
    except _DAMAGED:
        return None
    if pdu is None:
        return None
    conf = pdu.pdu_header.pdu_conf
    ids = (conf.source_entity_id.value, conf.dest_entity_id.value)
    ours = ids == entities and transaction in (None, transaction_of(pdu))
    has_its_length = pdu.packet_len == len(datagram) and (conf.crc_flag == CrcFlag.WITH_CRC or not with_crc)
    plain = conf.trans_mode == TransmissionMode.ACKNOWLEDGED and conf.file_flag == LargeFileFlag.NORMAL
    if isinstance(pdu, FileDataPdu):
        plain = plain and pdu.offset + len(pdu.file_data) <= LARGEST_FILE_BYTES
    return pdu if ours and has_its_length and plain and conf.direction == towards else None


class PduReader:
    """Reads the PDUs towards a receiver, as `read_pdu` does.

    If the header of file data is that of the last, but for its length, spacepackets does not decode it again: this
    would take longer than the rest of a receiver's work.
    """

    def __init__(self, with_crc: bool, entities: tuple[int, int]) -> None:
        self._with_crc = with_crc
        self._entities = entities
        self._header = b""
        self._conf: PduConfig | None = None

    def read(self, datagram: bytes, transaction: int | None) -> GenericPduPacket | None:
        """The PDU in a datagram; None if `read_pdu` returns None. `transaction` is the number of the last PDU that was
        read; None: any."""
        data = self._next_data(datagram)
        if data is not None:
            return data
        pdu = read_pdu(
            datagram,
            towards=Direction.TOWARDS_RECEIVER,
            with_crc=self._with_crc,
            entities=self._entities,
            transaction=transaction,
        )
        if isinstance(pdu, FileDataPdu) and not pdu.has_segment_metadata and pdu.crc_flag == CrcFlag.NO_CRC:
            self._header = datagram[: data_place(lengths_of(datagram))]
            self._conf = pdu.pdu_header.pdu_conf
        return pdu

    def _next_data(self, datagram: bytes) -> FileDataPdu | None:
        known, data_at = self._header, len(self._header)
        if self._conf is None or datagram[:1] != known[:1] or datagram[3:data_at] != known[3:]:
            return None
        begin = data_at + _OFFSET_BYTES
        offset, content = int.from_bytes(datagram[data_at:begin]), datagram[begin:]
        has_its_length = data_at + int.from_bytes(datagram[1:3]) == len(datagram)
        if not content or not has_its_length or offset + len(content) > LARGEST_FILE_BYTES:
            return None
        return FileDataPdu(self._conf, FileDataParams(content, offset))


def data_place(lengths: Lengths) -> int:
    """Where the data field of a PDU begins, after the header, whose ids and sequence number have these lengths."""
    return _FIXED_BYTES + 2 * lengths[0] + lengths[1]


def lengths_of(datagram: bytes) -> Lengths:
    """The lengths of the ids and of the sequence number in the header of a PDU. Raises IndexError if there is none."""
    return (datagram[3] >> 4 & 7) + 1, (datagram[3] & 7) + 1


def _readable(lengths: Lengths) -> Lengths:
    entity_bytes, sequence_bytes = (
        next(readable for readable in _ENGINE_LENGTHS if readable >= size) for size in lengths
    )
    return entity_bytes, sequence_bytes


def with_lengths(pdu: bytes, lengths: Lengths) -> bytes:
    """The same PDU with ids and sequence number of other lengths, and a new CRC if it has one.

    Raises ValueError if the CRC is wrong or the length in the header does not match, OverflowError if a number does not
    fit.
    """
    if lengths_of(pdu) == lengths:
        return pdu
    (entity_bytes, sequence_bytes), sizes = lengths, lengths_of(pdu)
    data_at = data_place(sizes)
    if data_at + int.from_bytes(pdu[1:3]) != len(pdu) or (pdu[0] & _HAS_CRC and crc_hqx(pdu, 0xFFFF)):
        raise ValueError("a PDU of another length, or with a wrong CRC")
    sequence_at, destination_at = _FIXED_BYTES + sizes[0], data_at - sizes[0]
    source, sequence, destination = (
        int.from_bytes(number)
        for number in (pdu[_FIXED_BYTES:sequence_at], pdu[sequence_at:destination_at], pdu[destination_at:data_at])
    )
    octets = pdu[:3] + bytes([pdu[3] & 0x88 | entity_bytes - 1 << 4 | sequence_bytes - 1])
    octets += source.to_bytes(entity_bytes) + sequence.to_bytes(sequence_bytes) + destination.to_bytes(entity_bytes)
    if not pdu[0] & _HAS_CRC:
        return octets + pdu[data_at:]
    octets += pdu[data_at:-_CRC_BYTES]
    return octets + crc_hqx(octets, 0xFFFF).to_bytes(_CRC_BYTES)


def transaction_of(pdu: GenericPduPacket) -> int:
    """The number of a PDU's transaction."""
    number: int = pdu.pdu_header.pdu_conf.transaction_seq_num.value
    return number


def kind_of(pdu: GenericPduPacket) -> str:
    """The name under which a tally counts the PDU: FileData, Metadata, Eof, Ack, Nak or Finished."""
    return type(pdu).__name__.removesuffix("Pdu")


def offset_of(pdu: GenericPduPacket) -> int | None:
    """Where the file data of a PDU belong; None where it carries none."""
    return pdu.offset if isinstance(pdu, FileDataPdu) else None


def eof_condition(eof: EofPdu) -> ConditionCode:
    """Why an EOF was sent. spacepackets 0.32 leaves a received code in the upper half of its byte."""
    code = int(eof.condition_code)
    return ConditionCode(code >> 4 if code > 0x0F else code)


def acknowledge_eof(eof: EofPdu) -> AckPdu:
    """ACK(EOF) of a receiver whose engine ignores a retransmitted EOF."""
    return AckPdu(_header(eof), DirectiveType.EOF_PDU, eof_condition(eof), TransactionStatus.ACTIVE)


def acknowledge_finished(finished: FinishedPdu) -> AckPdu:
    """ACK(Finished) of a sender whose engine has forgotten the transaction."""
    condition = finished.condition_code
    return AckPdu(_header(finished), DirectiveType.FINISHED_PDU, condition, TransactionStatus.TERMINATED)


def implied_acknowledgement(finished: FinishedPdu) -> AckPdu:
    """The ACK(EOF) that must have been sent before this Finished PDU, and was lost."""
    return AckPdu(_header(finished), DirectiveType.EOF_PDU, ConditionCode.NO_ERROR, TransactionStatus.ACTIVE)


def request_metadata(early: GenericPduPacket) -> NakPdu:
    """A NAK for the metadata alone, in answer to a PDU that came without them."""
    return NakPdu(_header(early), 0, 0, [(0, 0)])


def _header(pdu: GenericPduPacket) -> PduConfig:
    """The header for an answer to a PDU. It is a copy, because the constructor of a PDU sets the direction in it."""
    conf = pdu.pdu_header.pdu_conf
    return PduConfig(
        conf.source_entity_id,
        conf.dest_entity_id,
        conf.transaction_seq_num,
        conf.trans_mode,
        conf.file_flag,
        conf.crc_flag,
    )
