"""PDUs at the border: a datagram is a whole PDU of our transaction or nothing; and the few PDUs made here."""

import struct

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
from spacepackets.cfdp.pdu.header import UnsupportedCfdpVersionError
from spacepackets.cfdp.tlv import TlvTypeMissmatchError
from spacepackets.exceptions import BytesTooShortError

from agents.cfdp.entity import RECEIVER_ID, SENDER_ID
from agents.cfdp.settings import LARGEST_FILE_BYTES

_DAMAGED = (
    ValueError,
    IndexError,
    struct.error,
    BytesTooShortError,
    InvalidCrcError,
    TlvTypeMissmatchError,
    UnsupportedCfdpVersionError,
)


def read_pdu(
    datagram: bytes, *, towards: Direction, with_crc: bool, transaction: int | None
) -> GenericPduPacket | None:
    """The PDU in a datagram; None if it is damaged, of other entities, goes the other way, or is not of class 2, or
    where it is beyond a file of 32-bit offsets: the engine asks for what lies in front of any data that it is shown.

    `transaction` is its number; None takes any. Ids and numbers are compared by value, whatever their width in the
    header. `with_crc` refuses PDUs without a CRC; where there is one it is verified in any case.
    """
    try:
        pdu = PduFactory.from_raw(datagram)
    except _DAMAGED:
        return None
    if pdu is None:
        return None
    conf = pdu.pdu_header.pdu_conf
    entities = (conf.source_entity_id.value, conf.dest_entity_id.value)
    ours = entities == (SENDER_ID.value, RECEIVER_ID.value) and transaction in (None, transaction_of(pdu))
    has_its_length = pdu.packet_len == len(datagram) and (conf.crc_flag == CrcFlag.WITH_CRC or not with_crc)
    plain = conf.trans_mode == TransmissionMode.ACKNOWLEDGED and conf.file_flag == LargeFileFlag.NORMAL
    if isinstance(pdu, FileDataPdu):
        plain = plain and pdu.offset + len(pdu.file_data) <= LARGEST_FILE_BYTES
    return pdu if ours and has_its_length and plain and conf.direction == towards else None


def transaction_of(pdu: GenericPduPacket) -> int:
    """The number of a PDU's transaction."""
    number: int = pdu.pdu_header.pdu_conf.transaction_seq_num.value
    return number


def kind_of(pdu: GenericPduPacket) -> str:
    """As a tally counts it: FileData, Metadata, Eof, Ack, Nak or Finished."""
    return type(pdu).__name__.removesuffix("Pdu")


def offset_of(pdu: GenericPduPacket) -> int | None:
    """Where the file data of a PDU belong; None where it carries none."""
    return pdu.offset if isinstance(pdu, FileDataPdu) else None


def eof_condition(eof: EofPdu) -> ConditionCode:
    """Why an EOF was sent. spacepackets 0.32 leaves a received code in the upper half of its byte."""
    code = int(eof.condition_code)
    return ConditionCode(code >> 4 if code > 0x0F else code)


def acknowledge_eof(eof: EofPdu) -> AckPdu:
    """ACK(EOF) of a receiver whose engine has no ear for a repeated EOF."""
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
    """The header for an answer to a PDU. Whoever builds a PDU sets the direction in it, so it is a copy."""
    conf = pdu.pdu_header.pdu_conf
    return PduConfig(
        conf.source_entity_id,
        conf.dest_entity_id,
        conf.transaction_seq_num,
        conf.trans_mode,
        conf.file_flag,
        conf.crc_flag,
    )
