"""The drivers of other CFDP libraries: a user cancels with SIGHUP, or suspends with SIGUSR1 until SIGUSR2."""

from __future__ import annotations

import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from owlt.orchestrator.own_directories import third_party_directory
from tests.conftest import require
from tests.programs.agents.cfdp_transfer import CFDP_PY, Ending, Orders, Transfer, assert_complete, transfers
from tests.programs.agents.conftest import Start
from tests.programs.agents.relay import Rule, lose
from tests.programs.agents.test_cfdp_cancel import CANCEL, DATA, SIZE_BYTES, SLOW, Recorder, suspended

PYCFDP, CFDP_RS = "pycfdp", "cfdp-rs"
COMMON = (
    "--segment-bytes", 1000, "--ack-timer-s", "auto", "--ack-limit", 250, "--nak-timer-s", "auto", "--nak-limit", 250,
    "--sender-entity", 101, "--receiver-entity", 102,
)  # fmt: skip
OWN = {
    PYCFDP: ("--packet-bytes", 4096, "--idle-limit-s", "auto", "--inter-pdu-delay-s", "auto"),
    CFDP_RS: ("--checksum", "modular"),
}


@pytest.fixture
def with_drivers(start: Start, tmp_path: Path) -> Start:
    """Starts drivers, by the names of their libraries, with the options that they need; everything else as it is."""

    def start_either(program: str, side: str, *arguments: object) -> subprocess.Popen[str]:
        if program not in OWN:
            return start(program, side, *arguments)
        path = third_party_directory() / program / "bin" / f"owlt-{program}"
        capability = f"{program} (owlt third-party install {program})"
        if program == PYCFDP:
            require(path.exists(), capability)
        elif not path.exists():  # CI does not compile it
            pytest.skip(f"missing capability: {capability}")
        name = ("--name", "file") if (program, side) == (CFDP_RS, "send") else ()
        as_drivers_call_it = ["--file" if argument == "--output" else argument for argument in arguments]
        return start(path, side, *COMMON, *OWN[program], *name, *as_drivers_call_it)

    return start_either


def between(with_drivers: Start, directory: Path, sender: str, receiver: str) -> Transfer:
    run = transfers(with_drivers, directory, CFDP_PY)

    def between_these(rule: Rule, orders: Orders) -> Ending:
        modular = ("--checksum", "modular") if sender == CFDP_PY else ()
        options = {"sender": sender, "receiver": receiver, "sender_options": modular}
        return run(rule, *SLOW, size_bytes=SIZE_BYTES, orders=orders, **options)

    return between_these


WITH_OURS = [(PYCFDP, CFDP_PY), (CFDP_PY, PYCFDP), (CFDP_RS, CFDP_PY), (CFDP_PY, CFDP_RS)]


def cancel(side: str) -> Orders:
    return {("Data", 20): [(side, signal.SIGHUP, 0)]}


@pytest.mark.parametrize(("sender", "receiver"), [(PYCFDP, PYCFDP), (CFDP_RS, CFDP_RS), *WITH_OURS])
def test_a_sender_cancels_with_an_eof(with_drivers: Start, tmp_path: Path, sender: str, receiver: str) -> None:
    eofs = Recorder("EOF")
    ending = between(with_drivers, tmp_path, sender, receiver)(eofs, cancel("sender"))

    assert (ending.sender_status, ending.receiver_status) == (1, 1), ending
    assert {eof[1] for eof in eofs.bodies} == {CANCEL}
    assert ending.relay.seen["Data"] < DATA
    assert not ending.same


@pytest.mark.parametrize(("sender", "receiver"), [(PYCFDP, PYCFDP), *WITH_OURS])
def test_a_receiver_cancels_with_a_finished(with_drivers: Start, tmp_path: Path, sender: str, receiver: str) -> None:
    finished = Recorder("Finished")
    ending = between(with_drivers, tmp_path, sender, receiver)(finished, cancel("receiver"))

    assert (ending.sender_status, ending.receiver_status) == (1, 1), ending
    assert {body[1] & 0xF0 for body in finished.bodies} == {CANCEL}
    assert not ending.same
    assert (ending.relay.seen["Data"] < DATA) == (sender != CFDP_RS)


def test_a_receiver_with_cfdp_rs_takes_the_file_of_a_sender_that_refuses_to_stop(
    with_drivers: Start, tmp_path: Path
) -> None:
    """A cfdp-rs sender refuses Finished before its EOF, and the receiver goes on with what comes."""
    finished = Recorder("Finished")
    ending = between(with_drivers, tmp_path, CFDP_RS, CFDP_RS)(finished, cancel("receiver"))

    assert_complete(ending)
    assert [finished.bodies[0][1] & 0xF0, finished.bodies[-1][1] & 0xF0] == [CANCEL, 0]


@pytest.mark.parametrize(("side", "kind"), [("sender", "EOF"), ("sender", "ACK(EOF)"), ("receiver", "Finished")])
def test_what_is_lost_of_a_cancellation_with_pycfdp_is_sent_again(
    with_drivers: Start, tmp_path: Path, side: str, kind: str
) -> None:
    ending = between(with_drivers, tmp_path, PYCFDP, PYCFDP)(lose(kind, 1), cancel(side))

    assert (ending.sender_status, ending.receiver_status) == (1, 1), ending
    assert ending.relay.seen[kind] == 2


def test_a_sender_with_pycfdp_is_suspended_until_it_is_resumed(with_drivers: Start, tmp_path: Path) -> None:
    data = Recorder("Data")
    ending = between(with_drivers, tmp_path, PYCFDP, PYCFDP)(data, suspended("sender"))

    assert_complete(ending)
    assert max(after - before for before, after in pairwise(data.times_s)) > 0.9
    assert ending.relay.seen["Data"] == DATA
