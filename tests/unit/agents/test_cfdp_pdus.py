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

from owlt.agents.cfdp.entity import Outbox, PduTally
from owlt.agents.cfdp.pdus import (
    Lengths,
    PduReader,
    kind_of,
    lengths_of,
    offset_of,
    read_pdu,
    request_metadata,
    transaction_of,
    with_lengths,
)
from tests.unit.captures.valid_units import cfdp_pdu

ZERO = ByteFieldU16(0)
ENTITIES = (101, 102)


def header(
    number: UnsignedByteField = ZERO, crc: CrcFlag = CrcFlag.NO_CRC, source: int = 101, width: int = 2
) -> PduConfig:
    ids = (UnsignedByteField(source, width), UnsignedByteField(102, width))
    return PduConfig(*ids, number, TransmissionMode.ACKNOWLEDGED, crc_flag=crc)


def data(conf: PduConfig) -> bytes:
    return bytes(FileDataPdu(conf, FileDataParams(b"abc", 1000)).pack())


def read(datagram: bytes, *, with_crc: bool = False, transaction: int | None = 0) -> object:
    return read_pdu(
        datagram, towards=Direction.TOWARDS_RECEIVER, with_crc=with_crc, entities=ENTITIES, transaction=transaction
    )


def test_a_pdu_of_the_transfer_is_read() -> None:
    pdu = read_pdu(data(header()), towards=Direction.TOWARDS_RECEIVER, with_crc=False, entities=ENTITIES, transaction=0)

    assert pdu is not None
    assert (kind_of(pdu), offset_of(pdu), transaction_of(pdu)) == ("FileData", 1000, 0)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("number", [ByteFieldU8(7), ByteFieldU16(7), ByteFieldU32(7)])
def test_ids_and_numbers_count_by_value_whatever_their_width(number: UnsignedByteField, width: int) -> None:
    assert read(data(header(number, width=width)), transaction=7) is not None


EVERY_LENGTH = [(entity_bytes, sequence_bytes) for entity_bytes in range(1, 9) for sequence_bytes in range(1, 9)]


@pytest.mark.parametrize("crc", CrcFlag)
def test_ids_and_numbers_of_every_length_of_the_standard_are_read(crc: CrcFlag) -> None:
    for entity_bytes, sequence_bytes in EVERY_LENGTH:
        pdu = cfdp_pdu(
            b"\0\0\x03\xe8abc",
            is_data=True,
            entity_bytes=entity_bytes,
            sequence_bytes=sequence_bytes,
            crc=crc == CrcFlag.WITH_CRC,
        )
        found = read(pdu, with_crc=crc == CrcFlag.WITH_CRC, transaction=7)

        assert isinstance(found, FileDataPdu), (entity_bytes, sequence_bytes)
        assert (found.offset, found.file_data) == (1000, b"abc")


@pytest.mark.parametrize("crc", [False, True])
def test_a_pdu_with_other_lengths_is_the_one_that_is_written_with_them(crc: bool) -> None:
    def written(lengths: Lengths) -> bytes:
        return cfdp_pdu(b"\0\0\0\0abc", is_data=True, entity_bytes=lengths[0], sequence_bytes=lengths[1], crc=crc)

    for lengths in EVERY_LENGTH:
        assert with_lengths(written((2, 2)), lengths) == written(lengths)
        assert with_lengths(written(lengths), (2, 2)) == written((2, 2))


def test_a_number_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(OverflowError):
        with_lengths(cfdp_pdu(b"", sequence=300), (2, 1))


def test_the_crc_of_a_pdu_with_other_lengths_is_verified_first() -> None:
    wrong = cfdp_pdu(b"\0\0\0\0abc", is_data=True, sequence_bytes=3, crc=True)[:-1] + b"\0"

    assert read(wrong, transaction=7) is None


def test_answers_have_the_lengths_of_the_peers_pdus() -> None:
    datagram = cfdp_pdu(b"\0\0\0\0abc", is_data=True, entity_bytes=5, sequence_bytes=3)
    early = read(datagram, transaction=None)
    outbox = Outbox(PduTally())
    outbox.lengths = lengths_of(datagram)
    outbox.add(request_metadata(early))  # type: ignore[arg-type]

    assert lengths_of(outbox.next(0)) == (5, 3)


def test_other_entities_can_be_chosen() -> None:
    pdu = cfdp_pdu(b"\0\0\0\0abc", is_data=True, source=7)
    towards = Direction.TOWARDS_RECEIVER

    assert read_pdu(pdu, towards=towards, with_crc=False, entities=(7, 102), transaction=7) is not None
    assert read_pdu(pdu, towards=towards, with_crc=False, entities=(101, 102), transaction=7) is None


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
        read_pdu(bytes(altered[:length]), towards=towards, with_crc=False, entities=ENTITIES, transaction=None)
        read_pdu(bytes(altered), towards=towards, with_crc=False, entities=ENTITIES, transaction=None)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from([*PDUS, data(header(crc=CrcFlag.WITH_CRC))]),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=2),
    st.integers(-3, 3),
)
def test_after_file_data_a_reader_reads_any_datagram_as_it_is_read_alone(
    datagram: bytes, patches: list[tuple[int, int]], longer: int
) -> None:
    altered = bytearray(datagram + b"xyz"[: max(0, longer)])[: len(datagram) + longer]
    for place, value in patches:
        if place < len(altered):
            altered[place] = value
    reader = PduReader(with_crc=False, entities=ENTITIES)
    assert reader.read(data(header()), None) is not None

    for _ in range(2):
        assert reader.read(bytes(altered), 0) == read(bytes(altered))


def written(offset: int, content: bytes, lengths: Lengths) -> bytes:
    octets = offset.to_bytes(4) + content
    return cfdp_pdu(octets, is_data=True, entity_bytes=lengths[0], sequence_bytes=lengths[1])


@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (3, 5), (8, 8)])
def test_a_reader_decodes_the_header_of_the_first_of_many_file_data(lengths: Lengths) -> None:
    """What follows it refers to the same decoded ids."""
    reader = PduReader(with_crc=False, entities=ENTITIES)
    sources = set()
    for offset, content in ((0, b"abc"), (3, b"defg"), (2**32 - 2, b"h")):
        datagram = written(offset, content, lengths)
        found = reader.read(datagram, 7)

        assert isinstance(found, FileDataPdu)
        assert (found.offset, found.file_data, found) == (offset, content, read(datagram, transaction=7))
        sources.add(id(found.source_entity_id))
    assert len(sources) == 1
    assert reader.read(written(2**32 - 1, b"ab", lengths), 7) is None
