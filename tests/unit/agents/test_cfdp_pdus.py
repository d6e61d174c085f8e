"""What the endpoint on cfdp-py lets in from the network."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacepackets.cfdp import ConditionCode, CrcFlag, DeliveryCode, Direction, FileStatus, TransmissionMode
from spacepackets.cfdp.conf import PduConfig
from spacepackets.cfdp.pdu import EofPdu, FileDataPdu, FinishedPdu, NakPdu
from spacepackets.cfdp.pdu.file_data import FileDataParams
from spacepackets.cfdp.pdu.finished import FinishedParams
from spacepackets.util import ByteFieldU8, ByteFieldU16, ByteFieldU32, UnsignedByteField

from agents.cfdp.pdus import kind_of, offset_of, read_pdu, transaction_of

ZERO = ByteFieldU16(0)


def header(
    number: UnsignedByteField = ZERO, crc: CrcFlag = CrcFlag.NO_CRC, source: int = 101, width: int = 2
) -> PduConfig:
    ids = (UnsignedByteField(source, width), UnsignedByteField(102, width))
    return PduConfig(*ids, number, TransmissionMode.ACKNOWLEDGED, crc_flag=crc)


def data(conf: PduConfig) -> bytes:
    return bytes(FileDataPdu(conf, FileDataParams(b"abc", 1000)).pack())


def read(datagram: bytes, *, with_crc: bool = False, transaction: int | None = 0) -> object:
    return read_pdu(datagram, towards=Direction.TOWARDS_RECEIVER, with_crc=with_crc, transaction=transaction)


def test_a_pdu_of_the_transfer_is_read() -> None:
    pdu = read_pdu(data(header()), towards=Direction.TOWARDS_RECEIVER, with_crc=False, transaction=0)

    assert pdu is not None
    assert (kind_of(pdu), offset_of(pdu), transaction_of(pdu)) == ("FileData", 1000, 0)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("number", [ByteFieldU8(7), ByteFieldU16(7), ByteFieldU32(7)])
def test_ids_and_numbers_count_by_value_whatever_their_width(number: UnsignedByteField, width: int) -> None:
    assert read(data(header(number, width=width)), transaction=7) is not None


def test_a_transaction_that_has_not_begun_may_have_any_number() -> None:
    assert read(data(header(ByteFieldU16(300))), transaction=None) is not None
    assert read(data(header(ByteFieldU16(300))), transaction=0) is None


def test_a_pdu_of_other_entities_is_not_read() -> None:
    assert read(data(header(source=103))) is None


def test_a_pdu_with_a_crc_is_read_by_whom_needs_none() -> None:
    assert read(data(header(crc=CrcFlag.WITH_CRC))) is not None


def test_a_pdu_without_a_crc_is_not_read_by_whom_needs_one() -> None:
    assert read(data(header()), with_crc=True) is None


def test_a_pdu_with_a_wrong_crc_is_read_by_nobody() -> None:
    damaged = bytearray(data(header(crc=CrcFlag.WITH_CRC)))
    damaged[-3] ^= 1

    assert read(bytes(damaged)) is None


FINISHED = FinishedParams(ConditionCode.NO_ERROR, DeliveryCode.DATA_COMPLETE, FileStatus.FILE_RETAINED)
PDUS = [
    data(header()),
    bytes(EofPdu(header(), bytes(4), 3).pack()),
    bytes(NakPdu(header(), 0, 100, [(0, 10), (20, 100)]).pack()),
    bytes(FinishedPdu(header(), FINISHED).pack()),
]


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(st.binary(max_size=80), st.sampled_from(PDUS)),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3),
    st.integers(0, 80),
)
def test_any_datagram_is_a_pdu_or_nothing(datagram: bytes, patches: list[tuple[int, int]], length: int) -> None:
    altered = bytearray(datagram)
    for place, value in patches:
        if place < len(altered):
            altered[place] = value

    for towards in Direction:
        read_pdu(bytes(altered[:length]), towards=towards, with_crc=False, transaction=None)
        read_pdu(bytes(altered), towards=towards, with_crc=False, transaction=None)
