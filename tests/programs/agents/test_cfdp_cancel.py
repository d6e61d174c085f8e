"""CFDP transfers that the user of one side cancels with SIGHUP, or suspends, over a relay that loses chosen PDUs."""

import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
from fastcrc import crc32

from tests.programs.agents.cfdp_transfer import (
    CFDP_PY,
    LIBRECUBE,
    Ending,
    Orders,
    Transfer,
    assert_complete,
    everything,
    transfers,
)
from tests.programs.agents.conftest import Start
from tests.programs.agents.relay import Rule, lose

CANCEL, DISCARDED = 0xF0, 0
"""The condition code "Cancel request received", in the upper half of its octet, and a file status."""
SIZE_BYTES, DATA = 100_000, 100
SLOW = ("--rate-bps", 1e6)
"""A file takes 0.84 s."""
REPORTS = "CANCEL_REQUEST_RECEIVED"
HERE = "failed: this side cancelled"
ENGINES = [CFDP_PY, LIBRECUBE]
MODULAR = {CFDP_PY: ("--checksum", "modular"), LIBRECUBE: ()}
"""The checksum that both engines know."""


class Recorder:
    """A rule that also keeps the PDUs of some kinds, from the directive code on, and the time of each."""

    def __init__(self, *kinds: str, rule: Rule = everything) -> None:
        self._kinds, self._rule = kinds, rule
        self.times_s: list[float] = []
        self.bodies: list[bytes] = []

    def __call__(self, kind: str, number: int, pdu: bytes) -> list[bytes]:
        if kind in self._kinds:
            self.times_s.append(time.monotonic())
            self.bodies.append(pdu[4 + 2 * ((pdu[3] >> 4 & 7) + 1) + (pdu[3] & 7) + 1 :])
        return self._rule(kind, number, pdu)


@pytest.fixture(params=ENGINES)
def transfer(start: Start, tmp_path: Path, request: pytest.FixtureRequest) -> Transfer:
    return transfers(start, tmp_path, request.param)


@pytest.fixture
def cfdp_py(start: Start, tmp_path: Path) -> Transfer:
    return transfers(start, tmp_path, CFDP_PY)


def while_data_flow(side: str) -> Orders:
    return {("Data", 20): [(side, signal.SIGHUP, 0)]}


def cancel(transfer: Transfer, side: str, rule: Rule = everything, *options: object, **choices: object) -> Ending:
    """A transfer that one side cancels while data flow: both fail, most data are not sent, and it says who did it."""
    orders = while_data_flow(side)
    ending = transfer(rule, *SLOW, *options, **{"size_bytes": SIZE_BYTES, "orders": orders, **choices})
    said = {"sender": ending.sender_said, "receiver": ending.receiver_said}
    assert (ending.sender_status, ending.receiver_status) == (1, 1), ending
    assert not ending.same
    assert ending.relay.seen["Data"] < DATA
    assert HERE in said.pop(side)
    assert REPORTS in said.popitem()[1]
    return ending


@pytest.mark.parametrize("sender", ENGINES)
@pytest.mark.parametrize("receiver", ENGINES)
def test_a_sender_cancels_with_an_eof_instead_of_the_rest(
    start: Start, tmp_path: Path, sender: str, receiver: str
) -> None:
    eofs = Recorder("EOF")
    ending = cancel(
        transfers(start, tmp_path, sender), "sender", eofs, receiver=receiver, sender_options=MODULAR[sender]
    )

    assert [eof[1] for eof in eofs.bodies] == [CANCEL]
    assert ending.relay.seen["ACK(EOF)"] == 1
    assert ending.relay.seen["Finished"] == 0


@pytest.mark.parametrize("sender", ENGINES)
@pytest.mark.parametrize("receiver", ENGINES)
def test_a_receiver_cancels_with_a_finished_and_the_sender_stops(
    start: Start, tmp_path: Path, sender: str, receiver: str
) -> None:
    finished = Recorder("Finished")
    ending = cancel(
        transfers(start, tmp_path, sender), "receiver", finished, receiver=receiver, sender_options=MODULAR[sender]
    )

    assert [body[1] & 0xF0 for body in finished.bodies] == [CANCEL]
    assert ending.relay.seen["ACK(Finished)"] == 1
    assert ending.relay.seen["EOF"] == 0


def test_a_lost_eof_that_cancels_is_repeated(transfer: Transfer) -> None:
    ending = cancel(transfer, "sender", lose("EOF", 1, 2))

    assert ending.relay.seen["EOF"] == 3


def test_a_lost_ack_of_an_eof_that_cancels_is_given_again(transfer: Transfer) -> None:
    ending = cancel(transfer, "sender", lose("ACK(EOF)", 1, 2))

    assert (ending.relay.seen["EOF"], ending.relay.seen["ACK(EOF)"]) == (3, 3)


def test_a_lost_finished_that_cancels_is_repeated(transfer: Transfer) -> None:
    ending = cancel(transfer, "receiver", lose("Finished", 1, 2))

    assert ending.relay.seen["Finished"] == 3


def test_a_lost_ack_of_a_finished_that_cancels_is_given_again(transfer: Transfer) -> None:
    ending = cancel(transfer, "receiver", lose("ACK(Finished)", 1, 2))

    assert (ending.relay.seen["Finished"], ending.relay.seen["ACK(Finished)"]) == (3, 3)


def test_a_cancelled_eof_states_what_was_sent_also_when_it_is_repeated(cfdp_py: Transfer, tmp_path: Path) -> None:
    eofs = Recorder("EOF", rule=lose("EOF", 1))
    cancel(cfdp_py, "sender", eofs)

    progress = int.from_bytes(eofs.bodies[0][6:10])
    checksum = crc32.iso_hdlc((tmp_path / "file").read_bytes()[:progress])
    assert 0 < progress < SIZE_BYTES
    assert eofs.bodies == [bytes([4, CANCEL]) + checksum.to_bytes(4) + progress.to_bytes(4)] * 2


def test_a_cancelled_finished_says_that_the_file_was_discarded_and_by_whom(cfdp_py: Transfer) -> None:
    finished = Recorder("Finished")
    cancel(cfdp_py, "receiver", finished)

    is_incomplete, fault_location = 0x04, bytes([6, 2, 0, 102])
    assert finished.bodies == [bytes([5, CANCEL | is_incomplete | DISCARDED]) + fault_location]


def test_a_receiver_without_metadata_cancels_too(transfer: Transfer) -> None:
    ending = cancel(transfer, "receiver", lambda kind, _, pdu: [] if kind == "Metadata" else [pdu])

    assert ending.relay.seen["ACK(Finished)"] == 1


def test_a_receiver_cancels_the_transaction_that_begins_after_the_request(transfer: Transfer) -> None:
    orders = {("Metadata", 1): [("receiver", signal.SIGHUP, 0)]}
    ending = cancel(transfer, "receiver", lose("Metadata", 1), orders=orders)

    assert ending.relay.seen["Data"] < 20


@pytest.mark.parametrize(
    ("side", "kind"), [("sender", "ACK(Finished)"), ("receiver", "Finished")], ids=["sender", "receiver"]
)
def test_a_transfer_that_is_complete_cannot_be_cancelled(transfer: Transfer, side: str, kind: str) -> None:
    assert_complete(transfer(orders={(kind, 1): [(side, signal.SIGHUP, 0)]}))


def test_a_sender_gives_up_if_nobody_acknowledges_that_it_cancels(cfdp_py: Transfer) -> None:
    rule = lose("EOF", 1, 2, 3, 4)
    orders = while_data_flow("sender")
    ending = cfdp_py(rule, *SLOW, "--ack-limit", 3, "--idle-limit-s", 3, size_bytes=SIZE_BYTES, orders=orders)

    assert "failed: this side cancelled, no answer to EOF, sent 3 times" in ending.sender_said
    assert ending.relay.seen["EOF"] == 3


def test_a_receiver_gives_up_if_nobody_acknowledges_that_it_cancels(cfdp_py: Transfer) -> None:
    finished = Recorder("Finished", rule=lose("Finished", 1, 2, 3, 4))
    orders = while_data_flow("receiver")
    options = ("--ack-limit", 3, "--idle-limit-s", 3, "--ack-timer-s", 0.1)
    ending = cfdp_py(finished, *SLOW, *options, size_bytes=SIZE_BYTES, orders=orders)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert HERE in ending.receiver_said
    assert [body[1] & 0xF0 for body in finished.bodies] == [CANCEL] * 3


def suspended(side: str, *while_suspended: tuple[float, signal.Signals]) -> Orders:
    """From the 20th data on for a second."""
    orders = [(0.0, signal.SIGUSR1), *while_suspended, (1.0, signal.SIGUSR2)]
    return {("Data", 20): [(side, which, after_s) for after_s, which in orders]}


def test_a_suspended_sender_sends_nothing_until_it_is_resumed(transfer: Transfer) -> None:
    data = Recorder("Data")
    ending = transfer(data, *SLOW, "--outages", "announced", size_bytes=SIZE_BYTES, orders=suspended("sender"))

    assert_complete(ending)
    assert max(after - before for before, after in pairwise(data.times_s)) > 0.9
    assert ending.relay.seen["Data"] == DATA


def test_a_suspended_receiver_sends_nothing_until_it_is_resumed(transfer: Transfer) -> None:
    data, answers = Recorder("Data"), Recorder("ACK(EOF)", "Finished", "NAK")
    ending = transfer(
        lambda kind, number, pdu: data(kind, number, pdu) and answers(kind, number, pdu),
        *SLOW, "--outages", "announced", size_bytes=SIZE_BYTES, orders=suspended("receiver"),
    )  # fmt: skip

    assert_complete(ending)
    assert answers.times_s[0] - data.times_s[19] > 0.9
    assert answers.times_s[0] - data.times_s[-1] > 0.1


def test_a_suspended_side_cancels_without_being_resumed(transfer: Transfer) -> None:
    recorder = Recorder("Data", "EOF")
    orders: Orders = {("Data", 20): [("sender", signal.SIGUSR1, 0.0), ("sender", signal.SIGHUP, 0.3)]}
    cancel(transfer, "sender", recorder, "--outages", "announced", orders=orders)

    assert recorder.times_s[-1] - recorder.times_s[19] > 0.25
    assert recorder.bodies[-1][:2] == bytes([4, CANCEL])
