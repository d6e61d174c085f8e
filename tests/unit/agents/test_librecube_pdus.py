"""What LibreCube's engine gets to see of the network, and that nothing from there does more than end a run."""

import itertools
import math
import struct
from pathlib import Path

import pytest
from cfdp import CfdpEntity  # type: ignore[import-untyped]
from cfdp.pdu import AckPdu, EofPdu, FiledataPdu, FinishedPdu, MetadataPdu, NakPdu  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.cfdp.pdus import with_lengths
from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.librecube.entity import TOWARDS_RECEIVER, TOWARDS_SENDER, Damaged, kind_and_offset, read_pdu
from owlt.agents.librecube.parties import Receiving, Sending
from owlt.agents.librecube.settings import LARGEST_FILE_BYTES, Settings

OURS = {"transmission_mode": 0, "source_entity_id": 101, "destination_entity_id": 102, "transaction_seq_number": 1}
NAMES = {"source_filename": "a", "destination_filename": "b"}
FORWARD = {
    "Metadata": MetadataPdu(direction=0, file_size=3, **NAMES, **OURS),
    "FileData": FiledataPdu(direction=0, segment_offset=1000, file_data=b"abc", **OURS),
    "Eof": EofPdu(direction=0, condition_code=0, file_checksum=7, file_size=3, **OURS),
    "Ack": AckPdu(
        direction=0,
        directive_code_ack=5,
        directive_subtype_code=1,
        condition_code=0,
        transaction_status=0,
        **OURS,
    ),
}
REVERSE = {
    "Finished": FinishedPdu(direction=1, condition_code=0, delivery_code=0, file_status=2, **OURS),
    "Nak": NakPdu(direction=1, start_of_scope=0, end_of_scope=2000, segment_requests=[(0, 1000)], **OURS),
}


def decode(datagram: bytes) -> object:
    return CfdpEntity._get_pdu_object(None, datagram)


def read(datagram: bytes, towards: int = TOWARDS_RECEIVER, transaction: int | None = 1) -> object:
    return read_pdu(datagram, decode, towards=towards, entities=(101, 102), transaction=transaction)


@pytest.mark.parametrize("kind", FORWARD)
def test_pdus_to_the_receiver_are_read(kind: str) -> None:
    assert type(read(FORWARD[kind].encode())) is type(FORWARD[kind])


@pytest.mark.parametrize("kind", REVERSE)
def test_pdus_to_the_sender_are_read(kind: str) -> None:
    assert type(read(REVERSE[kind].encode(), TOWARDS_SENDER)) is type(REVERSE[kind])


def test_a_tally_gets_the_kind_and_where_data_belong() -> None:
    kinds = {kind: kind_and_offset(pdu.encode()) for kind, pdu in (FORWARD | REVERSE).items()}

    assert kinds.pop("FileData") == ("FileData", 1000)
    assert kinds == {kind: (kind, None) for kind in kinds}


@pytest.mark.parametrize("towards", [TOWARDS_RECEIVER, TOWARDS_SENDER])
def test_wider_ids_and_numbers_are_the_same_ids_and_numbers(towards: int) -> None:
    """cfdp-py writes each with 16 bits."""
    narrow = (FORWARD["FileData"] if towards == TOWARDS_RECEIVER else REVERSE["Nak"]).encode()
    for lengths in itertools.product(range(1, 9), repeat=2):
        wide = with_lengths(narrow, lengths)

        assert kind_and_offset(wide) == kind_and_offset(narrow)
        read(wide, towards)


@pytest.mark.parametrize(
    "damage",
    [
        lambda pdu: pdu[:-1],
        lambda pdu: pdu + b"\0",
        lambda pdu: bytes([pdu[0] ^ 0x20]) + pdu[1:],  # version
        lambda pdu: bytes([pdu[0] ^ 0x08]) + pdu[1:],  # direction
        lambda pdu: bytes([pdu[0] ^ 0x04]) + pdu[1:],  # class
        lambda pdu: bytes([pdu[0] ^ 0x02]) + pdu[1:],  # CRC
        lambda pdu: bytes([pdu[0] ^ 0x01]) + pdu[1:],  # large file
        lambda pdu: pdu[:4] + bytes([pdu[4] ^ 1]) + pdu[5:],  # source
        lambda pdu: pdu[:5] + bytes([pdu[5] ^ 1]) + pdu[6:],  # transaction
        lambda pdu: pdu[:6] + bytes([pdu[6] ^ 1]) + pdu[7:],  # destination
    ],
)
def test_what_is_not_of_this_transfer_is_damaged(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(Damaged):
        read(damage(FORWARD["FileData"].encode()))


def test_data_beyond_the_largest_file_are_damaged() -> None:
    far = FiledataPdu(direction=0, segment_offset=LARGEST_FILE_BYTES, file_data=b"a", **OURS)

    with pytest.raises(Damaged):
        read(far.encode())


def test_metadata_that_ask_for_more_than_a_file_are_damaged() -> None:
    delete_a_file = bytes([0x00, 3, 0x10, 1, ord("a")])
    pdu = bytearray(FORWARD["Metadata"].encode() + delete_a_file)
    pdu[1:3] = struct.pack(">H", len(pdu) - 7)

    with pytest.raises(Damaged):
        read(bytes(pdu))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_are_damaged_and_nothing_else(datagram: bytes) -> None:
    for towards in (TOWARDS_RECEIVER, TOWARDS_SENDER):
        with pytest.raises(Damaged):
            read(datagram, towards)


PATCHES = st.lists(st.tuples(st.integers(7, 60), st.integers(0, 255)), max_size=4)


def patched(datagram: bytes, patches: list[tuple[int, int]]) -> bytes:
    """The PDU with bytes behind its header changed."""
    altered = bytearray(datagram)
    for place, value in patches:
        if place < len(altered):
            altered[place] = value
    return bytes(altered)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(FORWARD)), PATCHES), max_size=12))
def test_a_receiver_takes_any_pdus_or_fails_by_name(tmp_path_factory: pytest.TempPathFactory, script: object) -> None:
    assert isinstance(script, list)
    party = Receiving(tmp_path_factory.mktemp("hostile") / "out", Settings(rate_bps=0, rtt_s=0), 0.0)
    _converse(party, [patched(FORWARD[kind].encode(), patches) for kind, patches in script])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["Ack", *REVERSE]), PATCHES), max_size=12))
def test_a_sender_takes_any_pdus_or_fails_by_name(tmp_path_factory: pytest.TempPathFactory, script: object) -> None:
    assert isinstance(script, list)
    file: Path = tmp_path_factory.mktemp("hostile") / "file"
    file.write_bytes(bytes(5000))
    party = Sending(file, Settings(rate_bps=0, rtt_s=0), 0.0)
    acknowledgement = AckPdu(
        direction=1, directive_code_ack=4, directive_subtype_code=0, condition_code=0, transaction_status=0, **OURS
    )
    pdus = {"Ack": acknowledgement, **REVERSE}
    _converse(party, [patched(pdus[kind].encode(), patches) for kind, patches in script])


def _converse(party: Sending | Receiving, datagrams: list[bytes]) -> None:
    """Let a party hear datagrams 1 s apart, and send what it has to say."""
    now_s = 0.0
    try:
        for datagram in datagrams:
            now_s += 1.0
            party.hear(datagram, now_s)
            party.advance(now_s)
            for _ in range(50):
                if not party.has_datagram():
                    break
                party.next_datagram(now_s)
        party.advance(now_s)
        assert party.ended or party.has_datagram() or party.wakes_at_s < math.inf
    except (Failed, Unsupported):
        pass
    finally:
        party.close()


def test_an_acknowledgement_before_eof_does_not_stop_a_sender(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(5000))
    party = Sending(file, Settings(rate_bps=0, rtt_s=0), 0.0)
    sent = [party.next_datagram(0.0), party.next_datagram(0.0)]

    party.hear(REVERSE["Finished"].encode(), 0.1)
    while party.has_datagram():
        sent.append(party.next_datagram(0.2))
    party.close()

    assert [kind_and_offset(pdu)[0] for pdu in sent] == ["Metadata", *["FileData"] * 5, "Eof"]


def test_a_request_for_more_than_the_file_is_not_answered(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(5000))
    party = Sending(file, Settings(rate_bps=0, rtt_s=0), 0.0)
    while party.has_datagram():
        party.next_datagram(0.0)

    greedy = NakPdu(direction=1, start_of_scope=0, end_of_scope=5000, segment_requests=[(0, 5000)] * 2, **OURS)
    party.hear(greedy.encode(), 0.1)
    party.close()

    assert not party.has_datagram()


def test_metadata_of_too_large_a_file_are_not_supported(tmp_path: Path) -> None:
    party = Receiving(tmp_path / "out", Settings(rate_bps=0, rtt_s=0), 0.0)
    large = MetadataPdu(direction=0, file_size=LARGEST_FILE_BYTES + 1, **NAMES, **OURS)

    with pytest.raises(Unsupported):
        party.hear(large.encode(), 0.1)
