"""A user's request to cancel at each side of the endpoint on cfdp-py, and the other side's answers, PDU by PDU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from spacepackets.cfdp import ConditionCode, DeliveryCode, Direction, FileStatus, GenericPduPacket, TransmissionMode
from spacepackets.cfdp.conf import PduConfig
from spacepackets.cfdp.pdu import AckPdu, DirectiveType, EofPdu, FileDataPdu, FinishedPdu, NakPdu, TransactionStatus
from spacepackets.cfdp.pdu.file_data import FileDataParams
from spacepackets.cfdp.pdu.finished import FinishedParams
from spacepackets.util import ByteFieldU16

from owlt.agents.cfdp.pdus import eof_condition, kind_of, read_pdu
from owlt.agents.cfdp.receiving import Receiving
from owlt.agents.cfdp.sending import Sending
from owlt.agents.cfdp.settings import Settings
from owlt.agents.endpoint.exit import Failed

SETTINGS = Settings(rate_bps=0, rtt_s=600)  # so that the engine's timers do not expire
NO_ERROR, CANCEL = ConditionCode.NO_ERROR, ConditionCode.CANCEL_REQUEST_RECEIVED
BEGIN_S = 1000.0


def header() -> PduConfig:
    ids = (ByteFieldU16(101), ByteFieldU16(102), ByteFieldU16(0))
    return PduConfig(*ids, TransmissionMode.ACKNOWLEDGED)


def acknowledgement(of: DirectiveType, condition: ConditionCode) -> bytes:
    return bytes(AckPdu(header(), of, condition, TransactionStatus.ACTIVE).pack())


def eof(condition: ConditionCode) -> bytes:
    return bytes(EofPdu(header(), bytes(4), 2000, condition_code=condition).pack())


FINISHED = bytes(
    FinishedPdu(
        header(), FinishedParams(CANCEL, DeliveryCode.DATA_INCOMPLETE, FileStatus.DISCARDED_DELIBERATELY)
    ).pack()
)
NAK = bytes(NakPdu(header(), 0, 1000, [(0, 1000)]).pack())
DATA = bytes(FileDataPdu(header(), FileDataParams(bytes(1000), 0)).pack())


class User:
    """Requests to cancel as soon as it wants to."""

    wants = False

    def __call__(self) -> bool:
        return self.wants


@pytest.fixture
def user() -> User:
    return User()


@pytest.fixture
def sending(tmp_path: Path, user: User) -> Sending:
    """A sender that has sent the metadata and two segments of ten."""
    file = tmp_path / "file"
    file.write_bytes(bytes(10_000))
    party = Sending(file, SETTINGS, user)
    for _ in range(3):
        party.advance(BEGIN_S)
        party.next_datagram(BEGIN_S)
    return party


@pytest.fixture
def receiving(tmp_path: Path, user: User) -> Iterator[Receiving]:
    """A receiver that has heard a segment before the metadata, and has requested these."""
    with Receiving(tmp_path / "output", SETTINGS, BEGIN_S, user) as party:
        party.hear(DATA, BEGIN_S)
        assert [kind_of(pdu) for pdu in told(party, BEGIN_S)] == ["Nak"]
        yield party


def told(party: Sending | Receiving, now_s: float) -> list[GenericPduPacket]:
    """The PDUs that it sends at once, at most five."""
    party.advance(now_s)
    towards = Direction.TOWARDS_RECEIVER if isinstance(party, Sending) else Direction.TOWARDS_SENDER
    pdus: list[GenericPduPacket] = []
    while party.has_datagram() and len(pdus) < 5:
        pdu = read_pdu(
            party.next_datagram(now_s), towards=towards, with_crc=False, entities=SETTINGS.entities, transaction=0
        )
        assert pdu is not None
        pdus.append(pdu)
    party.advance(now_s)
    return pdus


def kinds(pdus: list[GenericPduPacket]) -> list[str]:
    return [kind_of(pdu) for pdu in pdus]


def test_a_sender_that_nobody_cancels_goes_on(sending: Sending) -> None:
    assert kinds(told(sending, BEGIN_S)) == ["FileData"] * 5


def test_a_sender_cancels_with_one_eof_about_what_it_has_sent(sending: Sending, user: User) -> None:
    user.wants = True
    (found,) = told(sending, BEGIN_S)

    assert isinstance(found, EofPdu)
    assert (eof_condition(found), found.file_size) == (CANCEL, 2000)
    assert told(sending, BEGIN_S + 1) == []


def test_a_sender_that_is_cancelled_before_its_metadata_sends_them_first(tmp_path: Path, user: User) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10_000))
    user.wants = True
    sending = Sending(file, SETTINGS, user)
    sending.advance(BEGIN_S)
    sending.next_datagram(BEGIN_S)

    assert kinds(told(sending, BEGIN_S)) == ["Eof"]


@pytest.mark.parametrize("answer", [NAK, acknowledgement(DirectiveType.EOF_PDU, NO_ERROR)], ids=["nak", "earlier ack"])
def test_a_sender_that_has_cancelled_takes_nothing_but_the_ack_of_that_or_a_finished(
    sending: Sending, user: User, answer: bytes
) -> None:
    user.wants = True
    told(sending, BEGIN_S)
    sending.hear(answer, BEGIN_S + 1)

    assert told(sending, BEGIN_S + 1) == []
    sending.advance(BEGIN_S + 1 + SETTINGS.linger_s)
    assert not sending.ended


def test_a_sender_stays_after_the_ack_of_its_cancelling_to_acknowledge_a_finished(sending: Sending, user: User) -> None:
    user.wants = True
    told(sending, BEGIN_S)
    sending.hear(acknowledgement(DirectiveType.EOF_PDU, CANCEL), BEGIN_S + 1)
    assert told(sending, BEGIN_S + 1) == []
    sending.hear(FINISHED, BEGIN_S + 2)
    (answer,) = told(sending, BEGIN_S + 2)

    assert isinstance(answer, AckPdu)
    assert answer.condition_code_of_acked_pdu == CANCEL
    sending.advance(BEGIN_S + 1.9 + SETTINGS.linger_s)
    assert not sending.ended
    sending.advance(BEGIN_S + 2 + SETTINGS.linger_s)
    assert sending.ended
    with pytest.raises(Failed, match=r"^this side cancelled; "):
        sending.facts()


def test_a_sender_stops_in_the_middle_of_its_data_when_the_receiver_cancels(sending: Sending) -> None:
    sending.hear(FINISHED, BEGIN_S)

    assert kinds(told(sending, BEGIN_S)) == ["Ack"]
    sending.hear(FINISHED, BEGIN_S + 1)
    assert kinds(told(sending, BEGIN_S + 1)) == ["Ack"]
    with pytest.raises(Failed, match=r"^the receiver finished with CANCEL_REQUEST_RECEIVED, file incomplete; "):
        sending.facts()


def test_a_receiver_cancels_a_transaction_without_metadata(receiving: Receiving, user: User) -> None:
    user.wants = True
    (found,) = told(receiving, BEGIN_S)

    assert isinstance(found, FinishedPdu)
    assert (found.condition_code, found.file_status) == (CANCEL, FileStatus.DISCARDED_DELIBERATELY)
    receiving.hear(acknowledgement(DirectiveType.FINISHED_PDU, CANCEL), BEGIN_S + 1)
    assert told(receiving, BEGIN_S + 1) == []
    assert receiving.ended
    with pytest.raises(Failed, match=r"^this side cancelled, file incomplete; "):
        receiving.facts()


def test_a_receiver_that_has_cancelled_answers_an_eof_and_nothing_else(receiving: Receiving, user: User) -> None:
    user.wants = True
    told(receiving, BEGIN_S)
    receiving.hear(DATA, BEGIN_S + 1)
    assert told(receiving, BEGIN_S + 1) == []
    receiving.hear(eof(NO_ERROR), BEGIN_S + 2)

    assert kinds(told(receiving, BEGIN_S + 2)) == ["Ack"]
    assert not receiving.ended


def test_a_receiver_whose_sender_cancels_stays_to_acknowledge_that_again(receiving: Receiving) -> None:
    for now_s in (BEGIN_S + 1, BEGIN_S + SETTINGS.linger_s):
        receiving.hear(eof(CANCEL), now_s)
        (answer,) = told(receiving, now_s)
        assert isinstance(answer, AckPdu)
        assert answer.condition_code_of_acked_pdu == CANCEL

    receiving.advance(now_s + SETTINGS.linger_s - 1)
    with pytest.raises(Failed, match=r"^the sender cancelled with CANCEL_REQUEST_RECEIVED; "):
        receiving.advance(now_s + SETTINGS.linger_s)


def test_a_receiver_whose_sender_gives_up_does_not_stay(receiving: Receiving) -> None:
    receiving.hear(eof(ConditionCode.POSITIVE_ACK_LIMIT_REACHED), BEGIN_S)

    with pytest.raises(Failed, match=r"^the sender cancelled with POSITIVE_ACK_LIMIT_REACHED; "):
        told(receiving, BEGIN_S)
