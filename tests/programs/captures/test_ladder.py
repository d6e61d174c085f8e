"""The session as a ladder: every message with the time at which it left and those at which its copies arrived."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.protocols.ladder import LeftOut, Rung, ending, thin
from owlt.captures.protocols.messages import messages
from tests.unit.captures.making import SESSION, START_NS, Timed, flip, later, timed, write_pcap
from tests.unit.captures.octets import ACK_OF_FINISHED, CFDP, CFDP_RUN, frame

DELAY_NS = 250_000_000
ANSWERS = (5, 6, 8)
"""Which messages of the run are the receiver's."""


def climb(
    tmp_path: Path, lost: Sequence[int] = (), damaged: Sequence[int] = (), twice: Sequence[int] = (), bit: int = 8 * 44
) -> list[Rung]:
    """The run over a channel that does this to the packets with these numbers; `bit` is flipped in damaged ones."""
    left = [
        (time_ns + (DELAY_NS if number in ANSWERS else 0), octets)
        for number, (time_ns, octets) in enumerate(timed(CFDP_RUN))
    ]
    captures: dict[bool, list[Timed]] = {True: [], False: []}
    for number, packet in enumerate(left):
        of_receiver = number in ANSWERS
        captures[not of_receiver].append(packet)
        if number in lost:
            continue
        copies = later([packet] * (2 if number in twice else 1), DELAY_NS)
        captures[of_receiver] += [(when, flip(octets, bit) if number in damaged else octets) for when, octets in copies]
    paths = [write_pcap(tmp_path / f"{at_sender}.pcap", sorted(captures[at_sender])) for at_sender in (True, False)]
    return inspect(*read_both(*paths), Case(SESSION, CFDP)).rungs


def test_each_message_left_once_and_arrived_after_its_delay(tmp_path: Path) -> None:
    rungs = climb(tmp_path)

    assert len(rungs) == len(CFDP_RUN)
    assert [rung.left_ns for rung in rungs] == sorted(rung.left_ns for rung in rungs)
    assert all(rung.arrived_ns == (rung.left_ns + DELAY_NS,) for rung in rungs)
    assert rungs[0].left_ns == START_NS


def test_a_lost_message_did_not_arrive(tmp_path: Path) -> None:
    rungs = climb(tmp_path, lost=[2, 6])

    assert [rung.message.name for rung in rungs if not rung.arrived_ns] == ["data", "NAK"]


def test_a_damaged_message_arrived_damaged_and_keeps_its_name(tmp_path: Path) -> None:
    rungs = climb(tmp_path, damaged=[4])

    assert [rung.message.name for rung in rungs if rung.is_damaged] == ["EOF"]


def test_only_damage_to_the_source_address_of_ethernet_is_accepted(tmp_path: Path) -> None:
    bits = (5 * 8 + 7, 6 * 8, 11 * 8 + 7, 12 * 8)

    assert [climb(tmp_path, damaged=[4], bit=bit)[4].is_accepted for bit in bits] == [False, True, True, False]


def test_a_message_that_the_channel_doubled_arrived_twice(tmp_path: Path) -> None:
    rungs = climb(tmp_path, twice=[0])

    assert [len(rung.arrived_ns) for rung in rungs] == [2, *[1] * 9]


def test_kinds_tell_new_data_from_data_again(tmp_path: Path) -> None:
    kinds = [(rung.message.name, rung.kind) for rung in climb(tmp_path)]

    assert kinds.count(("data", "new data")) == 3
    assert kinds.count(("data", "data again")) == 1
    assert ("EOF", "of the sender") in kinds
    assert ("NAK", "of the receiver") in kinds


def test_the_ending_begins_at_the_last_new_data(tmp_path: Path) -> None:
    steps = ending(climb(tmp_path), lead=0)

    assert isinstance(steps[0], Rung)
    assert steps[0].message.detail == "bytes 2000-2499"


def test_what_is_left_out_is_still_there(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed([frame(ACK_OF_FINISHED)] * 9))
    found = messages(capture, SESSION, CFDP)
    rungs = [Rung(message, message.time_ns, (), False, "of the sender") for message in found]
    steps = thin(rungs, alike=2)

    assert isinstance(steps[2], LeftOut)
    assert (steps[2].host, steps[2].text) == ("sender", "6 more like these: ACK of Finished")
    assert [rung.message.frame for rung in steps[2].rungs] == [3, 4, 5, 6, 7, 8]
