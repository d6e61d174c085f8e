"""Real CFDP transfers between two programs, over a relay that loses, repeats or damages chosen PDUs."""

import random
import time
from pathlib import Path

import numpy as np
import pytest

from owlt.agents.cfdp.pdus import lengths_of, with_lengths
from tests.programs.agents.cfdp_transfer import CFDP_PY, Transfer, assert_complete, everything, transfers
from tests.programs.agents.conftest import Start
from tests.programs.agents.relay import lose
from tests.validation.gap_limit import transfer as simulation

LOSS, SEED = 0.2, 34


@pytest.fixture
def transfer(start: Start, tmp_path: Path) -> Transfer:
    return transfers(start, tmp_path, CFDP_PY)


def test_a_clean_transfer_sends_each_pdu_once(transfer: Transfer) -> None:
    ending = transfer()

    assert_complete(ending)
    expected = {"Metadata": 1, "Data": 30, "EOF": 1, "ACK(EOF)": 1, "Finished": 1, "ACK(Finished)": 1}
    assert dict(ending.relay.seen) == expected


def test_a_sender_keeps_to_its_rate(transfer: Transfer) -> None:
    ending = transfer(everything, "--rate-bps", 1e6, size_bytes=50_000)

    least_s = 50 * 8 * (1000 + 14 + 42) / 1e6
    assert_complete(ending)
    assert ending.fact("duration_s") > least_s


def test_an_empty_file_arrives(transfer: Transfer) -> None:
    ending = transfer(size_bytes=0)

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 0


def test_lost_metadata_are_asked_for_and_no_data_go_twice(transfer: Transfer) -> None:
    ending = transfer(lose("Metadata", 1))

    assert_complete(ending)
    assert ending.relay.seen["Metadata"] == 2
    assert ending.relay.seen["NAK"] == 1
    assert ending.relay.seen["Data"] == 30


def test_metadata_lost_again_and_again_are_asked_for_again(transfer: Transfer) -> None:
    ending = transfer(lose("Metadata", 1, 2, 3))

    assert_complete(ending)
    assert ending.relay.seen["Metadata"] == 4


def test_lost_metadata_and_lost_data_are_both_mended(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if (kind, number) in {("Metadata", 1), ("Data", 1), ("Data", 17), ("Data", 30)} else [pdu]

    ending = transfer(rule)

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 33


def test_metadata_lost_with_everything_before_eof_are_mended(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if number <= {"Metadata": 1, "Data": 30}.get(kind, 0) else [pdu]

    ending = transfer(rule)

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 60


def test_lost_data_go_once_more(transfer: Transfer) -> None:
    ending = transfer(lose("Data", 1, 2, 10, 30))

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 34


def test_data_lost_twice_go_a_third_time(transfer: Transfer) -> None:
    ending = transfer(lose("Data", 10, 31))

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 32


def test_a_lost_nak_is_repeated(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if (kind, number) in {("Data", 5), ("NAK", 1)} else [pdu]

    ending = transfer(rule)

    assert_complete(ending)
    assert ending.relay.seen["NAK"] == 2


def test_a_lost_eof_is_repeated(transfer: Transfer) -> None:
    ending = transfer(lose("EOF", 1))

    assert_complete(ending)
    assert ending.relay.seen["EOF"] == 2


def test_a_lost_ack_of_eof_does_not_hold_up_a_complete_file(transfer: Transfer) -> None:
    ending = transfer(lose("ACK(EOF)", 1, 2, 3))

    assert_complete(ending)
    assert ending.relay.seen["EOF"] == 1


def test_a_lost_ack_of_eof_is_repeated_while_data_are_missing(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        lost = (kind == "ACK(EOF)" and number == 1) or (kind == "NAK" and number <= 2) or (kind, number) == ("Data", 7)
        return [] if lost else [pdu]

    ending = transfer(rule)

    assert_complete(ending)
    assert ending.relay.seen["ACK(EOF)"] >= 2


def test_a_lost_finished_is_repeated(transfer: Transfer) -> None:
    ending = transfer(lose("Finished", 1, 2))

    assert_complete(ending)
    assert ending.relay.seen["Finished"] == 3


def test_a_lost_ack_of_finished_is_given_again(transfer: Transfer) -> None:
    ending = transfer(lose("ACK(Finished)", 1, 2))

    assert_complete(ending)
    assert ending.relay.seen["ACK(Finished)"] == 3


def test_a_receiver_without_any_ack_of_finished_ends_with_its_file(transfer: Transfer) -> None:
    ending = transfer(lambda kind, _, pdu: [] if kind == "ACK(Finished)" else [pdu])

    assert_complete(ending)


def test_every_pdu_may_come_twice(transfer: Transfer) -> None:
    ending = transfer(lambda _kind, _number, pdu: [pdu, pdu])

    assert_complete(ending)


def test_repeated_requests_and_losses_together_end_well(transfer: Transfer) -> None:
    chance = random.Random(4)

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        return [pdu] * chance.choice([0, 1, 1, 1, 2])

    assert_complete(transfer(rule))


def test_an_immediate_nak_asks_before_eof(transfer: Transfer) -> None:
    order: list[str] = []

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        order.append(kind)
        return [] if (kind, number) == ("Data", 3) else [pdu]

    ending = transfer(rule, "--nak", "immediate", size_bytes=200_000)

    assert_complete(ending)
    assert order.index("NAK") < order.index("EOF")


def test_a_nak_list_longer_than_a_pdu_is_split(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if kind == "Data" and number <= 300 and number % 2 else [pdu]

    ending = transfer(rule, "--segment-bytes", 100)

    assert_complete(ending)
    assert ending.relay.seen["NAK"] == 14  # 150 gaps of 8 bytes, and 19 + 8 n <= 114 bytes in a PDU
    assert ending.relay.largest["NAK"] <= 114


@pytest.mark.parametrize("crc", ["off", "on"])
def test_a_peer_with_ids_and_numbers_of_three_octets_is_answered_with_as_many(transfer: Transfer, crc: str) -> None:
    lengths: dict[str, set[tuple[int, int]]] = {"NAK": set(), "Finished": set()}

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        lengths.setdefault(kind, set()).add(lengths_of(pdu))
        is_of_receiver = kind in ("NAK", "Finished", "ACK(EOF)")
        return [] if (kind, number) == ("Data", 3) else [pdu if is_of_receiver else with_lengths(pdu, (3, 3))]

    ending = transfer(rule, "--pdu-crc", crc)

    assert_complete(ending)
    assert lengths["NAK"] == lengths["Finished"] == lengths["ACK(EOF)"] == {(3, 3)}


@pytest.mark.parametrize("entities", [(7, 300), (2**40, 1)])
def test_entity_ids_can_be_chosen(transfer: Transfer, entities: tuple[int, int]) -> None:
    seen: set[int] = set()

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        seen.add(int.from_bytes(pdu[4 : 4 + lengths_of(pdu)[0]]))
        return [pdu]

    ending = transfer(rule, "--sender-entity", entities[0], "--receiver-entity", entities[1])

    assert_complete(ending)
    assert seen == {entities[0]}


def test_damaged_pdus_are_dropped_and_mended_with_the_crc_option(transfer: Transfer) -> None:
    chance = random.Random(5)

    def rule(_kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu] if number % 4 else [_flip_a_bit(pdu, chance)]

    ending = transfer(rule, "--pdu-crc", "on")

    assert_complete(ending)
    assert ending.relay.seen["Data"] > 30


def _flip_a_bit(pdu: bytes, chance: random.Random) -> bytes:
    bit = chance.randrange(8 * len(pdu))
    return (int.from_bytes(pdu) ^ (1 << bit)).to_bytes(len(pdu))


def test_damage_that_nobody_noticed_is_found_in_the_checksum(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu[:-1] + bytes([pdu[-1] ^ 1])] if (kind, number) == ("Data", 9) else [pdu]

    ending = transfer(rule)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert "FILE_CHECKSUM_FAILURE" in ending.sender_said
    assert "FILE_CHECKSUM_FAILURE" in ending.receiver_said
    assert not ending.same


def test_rubbish_between_the_pdus_disturbs_nobody(transfer: Transfer) -> None:
    chance = random.Random(6)

    def rule(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
        cut = pdu[: chance.randrange(len(pdu))]
        strange = bytes([pdu[0] ^ 0x08]) + pdu[1:]  # the direction bit: one's own PDU comes back
        return [chance.randbytes(40), cut, strange, b"", pdu]

    assert_complete(transfer(rule))


def test_a_receiver_whose_sender_vanishes_ends_with_a_reason(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu] if kind in {"Metadata", "NAK"} or (kind == "Data" and number < 5) else []

    ending = transfer(rule, "--idle-limit-s", 0.5)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert "failed: the sender was silent for 0.5 s" in ending.receiver_said
    assert "failed: the receiver was silent for 0.5 s" in ending.sender_said


def test_a_sender_that_gives_up_on_eof_says_so(transfer: Transfer) -> None:
    ending = transfer(lose("EOF", 1, 2, 3), "--ack-limit", 3)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert "no answer to EOF, sent 3 times" in ending.sender_said
    assert "the sender cancelled with POSITIVE_ACK_LIMIT_REACHED" in ending.receiver_said
    assert "sent=1 (Ack=1)" in ending.receiver_said


@pytest.mark.parametrize(
    ("checksum", "number"), [("modular", 0), ("crc32c", 2), ("crc32", 3), ("null", 15)], ids=lambda value: str(value)
)
def test_the_checksum_of_the_file_is_the_chosen_one(transfer: Transfer, checksum: str, number: int) -> None:
    """The receiver is not told: the low half of the octet behind the directive code is the type."""
    told: list[int] = []

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        if kind == "Metadata":
            told.append(pdu[11] & 0x0F)
        return [] if (kind, number) == ("Data", 3) else [pdu]

    ending = transfer(rule, sender_options=("--checksum", checksum))

    assert_complete(ending)
    assert told == [number]


def test_the_null_checksum_finds_no_damage(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [pdu[:-1] + bytes([pdu[-1] ^ 1])] if (kind, number) == ("Data", 9) else [pdu]

    ending = transfer(rule, sender_options=("--checksum", "null"))

    assert (ending.sender_status, ending.receiver_status) == (0, 0)
    assert not ending.same


@pytest.mark.parametrize(("closure", "bit"), [("on", 0x40), ("off", 0)])
def test_closure_is_asked_for_in_the_metadata(transfer: Transfer, closure: str, bit: int) -> None:
    told: list[int] = []

    def rule(kind: str, _number: int, pdu: bytes) -> list[bytes]:
        if kind == "Metadata":
            told.append(pdu[11] & 0x40)
        return [pdu]

    assert_complete(transfer(rule, "--closure", closure))
    assert told == [bit]


def test_a_chosen_ack_timer_repeats_eof(transfer: Transfer) -> None:
    """In less than the margin, of which the timer is made otherwise."""
    times: list[float] = []

    def rule(kind: str, _number: int, pdu: bytes) -> list[bytes]:
        if kind == "EOF":
            times.append(time.monotonic())
        return [] if kind == "EOF" and len(times) < 5 else [pdu]

    ending = transfer(rule, "--ack-timer-s", 0.02, "--timer-margin-s", 5)

    assert_complete(ending)
    assert times[4] - times[0] < 1


def test_a_chosen_nak_timer_repeats_requests(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if (kind, number) == ("Data", 5) or (kind == "NAK" and number < 4) else [pdu]

    ending = transfer(rule, "--nak-timer-s", 0.02, "--timer-margin-s", 5, "--ack-timer-s", 0.05)

    assert_complete(ending)
    assert ending.relay.seen["NAK"] == 4


@pytest.mark.parametrize("most_gaps", [3, 10])
def test_a_limit_of_gaps_repeats_as_many_packets_as_its_simulation(transfer: Transfer, most_gaps: int) -> None:
    """With the same losses: those of the simulation's random numbers, in the order of the packets."""
    simulated = simulation(120, LOSS, most_gaps, np.random.default_rng(SEED))
    chances = np.random.default_rng(SEED).random(simulated.sent)

    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if kind == "Data" and chances[number - 1] < LOSS else [pdu]

    ending = transfer(rule, size_bytes=120_000, receiver_options=("--max-gaps", most_gaps))

    assert_complete(ending)
    assert (ending.relay.seen["Data"], ending.relay.seen["NAK"]) == (simulated.sent, simulated.passes - 1)
    assert simulated.sent > 120 / (1 - LOSS) + 20  # without a limit: those that were lost


def test_a_nak_waits_for_its_timer_if_it_is_to_be_repeated_only_then(transfer: Transfer) -> None:
    """Data 5 are lost twice, and data 10 once; with the default, the pause after data 10 repeats the NAK."""
    slow, fast = (
        transfer(
            lose("Data", 5, 10, 31), "--rtt-s", 0, "--nak-timer-s", 2, receiver_options=("--nak-repeat", how)
        ).fact("duration_s")
        for how in ("timer", "pause")
    )

    assert slow > 2 > fast


def test_a_receiver_that_gives_up_on_missing_data_says_so(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        return [] if kind == "Data" and (number == 5 or number > 30) else [pdu]

    ending = transfer(rule, "--nak-limit", 3)

    assert (ending.sender_status, ending.receiver_status) == (1, 1)
    assert ending.relay.seen["NAK"] == 3
    assert "NAK_LIMIT_REACHED, file incomplete" in ending.receiver_said
    assert "the receiver finished with NAK_LIMIT_REACHED" in ending.sender_said


def test_a_receiver_without_the_crc_option_takes_pdus_that_have_one(transfer: Transfer) -> None:
    assert_complete(transfer(sender_options=("--pdu-crc", "on")))


def test_a_request_for_more_than_the_file_is_dropped(transfer: Transfer) -> None:
    def rule(kind: str, number: int, pdu: bytes) -> list[bytes]:
        greedy = pdu[:-8] + bytes(4) + b"\xff\xff\xff\xff"
        lost = (kind, number) == ("Data", 5)
        return [] if lost else [greedy] if (kind, number) == ("NAK", 1) else [pdu]

    ending = transfer(rule)

    assert_complete(ending)
    assert ending.relay.seen["Data"] == 31
    assert " unreadable=1 " in ending.sender_said


def test_the_receiver_writes_to_its_output_whatever_the_sender_names(transfer: Transfer, tmp_path: Path) -> None:
    ending = transfer()

    assert_complete(ending)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "output"}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--segment-bytes", 0], 127, "unsupported: segments of 0 bytes; a UDP datagram holds 1 to"),
        (["--segment-bytes", 70_000], 127, "unsupported: segments of 70000 bytes"),
        (["--rtt-s", "-1"], 2, "got '-1', expected a number of at least 0"),
        (["--peer", "10.77.0.1"], 2, "expected ADDRESS:PORT such as 10.77.0.1:2501"),
        (["--local", "192.0.2.1:2501"], 1, "failed: cannot listen on 192.0.2.1:2501"),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(start: Start, arguments: list[object], status: int, said: str) -> None:
    usual = ["--file", "/dev/null", "--local", "127.0.0.1:25010", "--peer", "127.0.0.1:9"]

    program = start("owlt.agents.cfdp", "send", *usual, "--rate-bps", 0, "--rtt-s", 0, *arguments)
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]


def test_a_file_beyond_32_bit_offsets_is_not_supported(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(2**32)

    usual = ["--local", "127.0.0.1:25011", "--peer", "127.0.0.1:9", "--rate-bps", 0, "--rtt-s", 0]
    program = start("owlt.agents.cfdp", "send", "--file", tmp_path / "huge", *usual)
    _, error = program.communicate(timeout=120)

    assert program.returncode == 127
    assert "unsupported: a file of 4294967296 bytes; offsets of 32 bits reach 4294967295" in error
