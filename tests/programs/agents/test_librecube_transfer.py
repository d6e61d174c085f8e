"""Real CFDP transfers with LibreCube's engine, and with cfdp-py at the other end, over a relay that loses PDUs."""

import random
import re
from pathlib import Path

import pytest
from cfdp import CfdpEntity  # type: ignore[import-untyped]
from cfdp.filestore import NativeFileStore  # type: ignore[import-untyped]
from cfdp.transport.udp import UdpTransport  # type: ignore[import-untyped]

from owlt.agents.librecube.settings import LARGEST_FILE_BYTES
from tests.programs.agents.cfdp_transfer import CFDP_PY, LIBRECUBE, Transfer, assert_complete, everything, transfers
from tests.programs.agents.conftest import Start
from tests.programs.agents.relay import Rule, lose


@pytest.fixture
def transfer(start: Start, tmp_path: Path) -> Transfer:
    return transfers(start, tmp_path, LIBRECUBE)


def test_a_clean_transfer_sends_each_pdu_once(transfer: Transfer) -> None:
    ending = transfer()

    assert_complete(ending)
    expected = {"Metadata": 1, "Data": 30, "EOF": 1, "ACK(EOF)": 1, "Finished": 1, "ACK(Finished)": 1}
    assert dict(ending.relay.seen) == expected


def test_entity_ids_can_be_chosen(transfer: Transfer) -> None:
    seen: set[int] = set()

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        seen.add(pdu[4])
        return [pdu]

    ending = transfer(rule, "--sender-entity", 7, "--receiver-entity", 200)

    assert_complete(ending)
    assert seen == {7}


def test_a_sender_keeps_to_its_rate(transfer: Transfer) -> None:
    ending = transfer(everything, "--rate-bps", 1e6, size_bytes=50_000)

    least_s = 50 * 8 * (1000 + 11 + 42) / 1e6
    duration = re.search(r"duration_s=([0-9.]+)", ending.sender_said)
    assert_complete(ending)
    assert duration is not None
    assert least_s < float(duration[1]) < least_s + 0.3


@pytest.mark.parametrize("segment_bytes", [1, 999, 1400, 65_496])
def test_segments_have_the_chosen_size(transfer: Transfer, segment_bytes: int) -> None:
    ending = transfer(everything, "--segment-bytes", segment_bytes, size_bytes=segment_bytes * 2)

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 2
    assert ending.relay.largest["Data"] == segment_bytes + 11


def test_an_empty_file_arrives(transfer: Transfer) -> None:
    assert_complete(transfer(size_bytes=0))


@pytest.mark.parametrize(
    "rule",
    [
        lose("Metadata", 1, 2),
        lose("Data", 1, 2, 10, 30),
        lose("Data", 10, 31),
        lose("NAK", 1, 2),
        lose("EOF", 1, 2),
        lose("ACK(EOF)", 1, 2, 3),
        lose("Finished", 1, 2),
        lose("ACK(Finished)", 1, 2),
        lambda _kind, _number, pdu: [pdu, pdu],
    ],
    ids=["metadata", "data", "data twice", "nak", "eof", "ack of eof", "finished", "ack of finished", "all come twice"],
)
def test_what_is_lost_or_doubled_is_mended(transfer: Transfer, rule: Rule) -> None:
    def any_rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if (kind, number) == ("Data", 5) else rule(kind, number, pdu)

    assert_complete(transfer(any_rule))


def test_a_gap_is_sent_again_in_segments(transfer: Transfer) -> None:
    ending = transfer(lose("Data", 5, 6, 7, 8))

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 34
    assert ending.relay.largest["Data"] == 1011


def test_a_gap_can_be_sent_again_as_the_engine_does_in_one_pdu(transfer: Transfer) -> None:
    ending = transfer(lose("Data", 5, 6, 7, 8), "--gaps", "whole")

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 31
    assert ending.relay.largest["Data"] == 4011


def test_a_gap_beyond_a_pdu_ends_a_sender_that_does_not_split_it(transfer: Transfer) -> None:
    rule = lose("Data", *range(10, 90))
    ending = transfer(rule, "--gaps", "whole", "--idle-limit-s", 3, size_bytes=100_000)

    assert ending.sender_status == 1
    assert "failed: LibreCube's engine raised ValueError: bytes must be in range(0, 256)" in ending.sender_said
    assert ending.receiver_status == 1


def test_a_gap_beyond_a_pdu_is_mended_in_segments(transfer: Transfer) -> None:
    assert_complete(transfer(lose("Data", *range(10, 90)), size_bytes=100_000))


def test_everything_lost_but_eof_ends_the_engine_with_its_reason(transfer: Transfer) -> None:
    """A misspelt method of the library; its own thread would die of it and nobody hear."""

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if number <= {"Metadata": 1, "Data": 30}.get(kind, 0) else [pdu]

    ending = transfer(rule, "--idle-limit-s", 3)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert "failed: LibreCube's engine raised AttributeError" in ending.receiver_said


def test_repeated_requests_and_losses_together_end_well(transfer: Transfer) -> None:
    chance = random.Random(4)

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        return [pdu] * chance.choice([0, 1, 1, 1, 2])

    assert_complete(transfer(rule))


def test_rubbish_between_the_pdus_disturbs_nobody(transfer: Transfer) -> None:
    chance = random.Random(6)

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        cut = pdu[: chance.randrange(len(pdu))]
        strange = bytes([pdu[0] ^ 0x08]) + pdu[1:]  # the direction bit: one's own PDU comes back
        return [chance.randbytes(40), cut, strange, b"", pdu]

    assert_complete(transfer(rule))


def test_damage_that_nobody_noticed_is_found_in_the_checksum(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu[:-1] + bytes([pdu[-1] ^ 1])] if (kind, number) == ("Data", 9) else [pdu]

    ending = transfer(rule)

    assert ending.receiver_status == 1
    assert "file incomplete" in ending.receiver_said
    assert not ending.same


@pytest.mark.parametrize("silent", [("ACK(Finished)",), ("ACK(Finished)", "Finished")])
def test_a_receiver_without_any_ack_of_finished_ends_with_its_file(transfer: Transfer, silent: tuple[str, ...]) -> None:
    ending = transfer(lambda kind, _, pdu: [] if kind in silent else [pdu], "--idle-limit-s", 4)

    assert ending.receiver_status == 0
    assert ending.same


def test_both_sides_end_with_a_reason_when_the_other_vanishes(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu] if kind == "Metadata" or (kind == "Data" and number < 5) else []

    ending = transfer(rule, "--idle-limit-s", 0.5, "--ack-limit", 3)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert "failed: the transaction ended with ABANDONED" in ending.sender_said
    assert "failed: " in ending.receiver_said


def test_a_receiver_that_nobody_calls_ends_with_a_reason(start: Start, tmp_path: Path) -> None:
    usual = ["--local", "127.0.0.1:25030", "--peer", "127.0.0.1:9", "--rate-bps", 0, "--rtt-s", 0]
    program = start(LIBRECUBE, "receive", "--output", tmp_path / "out", *usual, "--idle-limit-s", 0.3)
    _, error = program.communicate(timeout=120)

    assert program.returncode == 1
    assert "failed: the sender was silent for 0.3" in error


def test_a_file_beyond_the_engines_limit_is_not_supported(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(LARGEST_FILE_BYTES + 1)

    usual = ["--local", "127.0.0.1:25031", "--peer", "127.0.0.1:9", "--rate-bps", 0, "--rtt-s", 0]
    program = start(LIBRECUBE, "send", "--file", tmp_path / "large", *usual)
    _, error = program.communicate(timeout=120)

    assert program.returncode == 127
    assert f"unsupported: a file of {LARGEST_FILE_BYTES + 1} bytes" in error


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--segment-bytes", 0], 127, "unsupported: segments of 0 bytes; a UDP datagram holds 1 to 65496"),
        (["--segment-bytes", 65_497], 127, "unsupported: segments of 65497 bytes"),
        (["--ack-limit", 0], 2, "got '0', expected a whole number of at least 1"),
        (["--nak-timer-s", "soon"], 2, "got 'soon', expected a number of at least 0"),
        (["--gaps", "none"], 2, "invalid choice: 'none'"),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(start: Start, arguments: list[object], status: int, said: str) -> None:
    usual = ["--file", "/dev/null", "--local", "127.0.0.1:25032", "--peer", "127.0.0.1:9"]

    program = start(LIBRECUBE, "send", *usual, "--rate-bps", 0, "--rtt-s", 0, *arguments)
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]


def test_the_library_with_its_own_threads_and_socket_takes_the_file(start: Start, tmp_path: Path) -> None:
    """The adapter leaves the engine's PDUs as they are: the library as it comes is at the other end."""
    content = random.Random(2).randbytes(20_500)
    (tmp_path / "file").write_bytes(content)
    transport = UdpTransport(routing={"*": [("127.0.0.1", 25033)]})
    library = CfdpEntity(102, NativeFileStore(tmp_path / "inbox"), transport)
    (tmp_path / "inbox").mkdir()
    transport.bind("127.0.0.1", 25034)
    try:
        usual = ["--local", "127.0.0.1:25033", "--peer", "127.0.0.1:25034", "--rate-bps", 20e6, "--rtt-s", 0.01]
        program = start(LIBRECUBE, "send", "--file", tmp_path / "file", *usual)
        said, error = program.communicate(timeout=120)
    finally:
        transport.unbind()
        library.shutdown()

    assert program.returncode == 0, error
    assert "sent=24 (Ack=1 Eof=1 FileData=21 Metadata=1) received=2 (Ack=1 Finished=1)" in said
    assert (tmp_path / "inbox" / "file").read_bytes() == content


LOSSES = {("Metadata", 1), ("Data", 1), ("Data", 17), ("Data", 18), ("Data", 30), ("ACK(EOF)", 1), ("Finished", 1)}


def lossy(kind: str, number: int, pdu: bytes) -> list[bytes]:
    return [] if (kind, number) in LOSSES else [pdu]


def test_librecubes_engine_sends_to_cfdp_py(transfer: Transfer) -> None:
    assert_complete(transfer(lossy, receiver=CFDP_PY))


def test_librecubes_engine_answers_immediate_naks_after_its_eof(transfer: Transfer) -> None:
    order: list[str] = []

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        order.append(kind)
        return lossy(kind, number, pdu)

    ending = transfer(rule, receiver=CFDP_PY, receiver_options=("--nak", "immediate"), size_bytes=200_000)

    assert_complete(ending)
    assert order.index("NAK") < order.index("EOF")
    assert order[: order.index("EOF")].count("Data") == 200


def test_librecubes_engine_sends_an_empty_file_to_cfdp_py(transfer: Transfer) -> None:
    assert_complete(transfer(receiver=CFDP_PY, size_bytes=0))


def test_cfdp_py_sends_to_librecubes_engine(transfer: Transfer) -> None:
    assert_complete(transfer(lossy, sender=CFDP_PY, sender_options=("--checksum", "modular")))


def test_cfdp_pys_own_checksum_is_not_one_that_librecubes_engine_knows(transfer: Transfer) -> None:
    ending = transfer(sender=CFDP_PY)

    assert ending.receiver_status == 1
    assert not ending.same
