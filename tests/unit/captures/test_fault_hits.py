"""Hits of aimed faults are found in the capture by the beginning of the frame, its length and the time."""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.inspection import NamedHit, named_hits
from owlt.captures.matches.matching import match_captures
from owlt.results.record import FaultCount, FaultHit, Faults
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, Timed, later, timed, udp_frame, write_pcap

MS = 1_000_000
EOF, NAK = udp_frame(b"eof"), udp_frame(b"nak", source=RECEIVER, destination=SENDER)
DATA = [udp_frame(bytes([number]) * 200) for number in range(5)]
FORWARD = timed([*DATA, EOF, EOF, EOF], step_ns=10 * MS)
"""Five frames of data, then three equal ones 50, 60 and 70 ms after the start."""


def hit(frame: bytes, at_ms: int, occurrence: int = 1, direction: str = "forward") -> FaultHit:
    head = frame[:128].hex()
    values = {"fault": 0, "direction": direction, "occurrence": occurrence, "at_ns": at_ms * MS}
    return FaultHit.model_validate(values | {"frame_bytes": len(frame), "head": head})


def hits(folder: Path, *found: FaultHit, packet: str = "cfdp.eof", sent: list[Timed] = FORWARD) -> list[NamedHit]:
    fault = FaultCount(fault=packet, packet=packet, action="dropped", seen=9, hits=len(found))
    answered = timed([NAK], start_ns=START_NS + 80 * MS)
    at_sender = write_pcap(folder / "sender.pcap", sorted([*sent, *later(answered, 5 * MS)]))
    at_receiver = write_pcap(folder / "receiver.pcap", sorted([*later(sent[:5], 5 * MS), *answered]))
    crossing = match_captures(*read_both(at_sender, at_receiver), SESSION)
    return named_hits(Faults(faults=[fault], hits=list(found), started_at_ns=START_NS), crossing)


def test_a_hit_is_named_by_its_action_class_occurrence_and_frame(tmp_path: Path) -> None:
    assert [each.text for each in hits(tmp_path, hit(EOF, 55))] == ["dropped: cfdp.eof #1, frame 6 of sender.pcap"]


def test_of_equal_frames_it_is_the_latest_before_the_hit(tmp_path: Path) -> None:
    assert [each.frame for each in hits(tmp_path, hit(EOF, 65, 2))] == [7]


def test_a_frame_belongs_to_one_hit(tmp_path: Path) -> None:
    assert [each.frame for each in hits(tmp_path, hit(EOF, 75, 2), hit(EOF, 75, 3))] == [8, 7]


def test_frames_that_differ_behind_their_heads_are_told_apart_by_their_length(tmp_path: Path) -> None:
    long, longer = udp_frame(bytes(200)), udp_frame(bytes(200), identification=0) + b"\0"
    sent = timed([DATA[1], longer, long], step_ns=10 * MS)

    assert [each.frame for each in hits(tmp_path, hit(longer, 90), hit(long, 90), sent=sent)] == [2, 3]


def test_a_hit_of_the_reverse_direction_is_in_the_receivers_capture(tmp_path: Path) -> None:
    found = hits(tmp_path, hit(NAK, 80, direction="reverse"))

    assert [(each.host, each.frame) for each in found] == [("receiver", 6)]


def test_a_frame_that_was_not_captured_before_the_hit_is_not_found(tmp_path: Path) -> None:
    (found,) = hits(tmp_path, hit(EOF, 45))

    assert found.text == "dropped: cfdp.eof #1, not found in sender.pcap"


def test_hits_of_all_packets_are_named_packets(tmp_path: Path) -> None:
    assert hits(tmp_path, hit(EOF, 55), packet="any")[0].text.startswith("dropped: packet #1, ")


def test_hits_are_in_the_order_of_time(tmp_path: Path) -> None:
    found = hits(tmp_path, hit(NAK, 85, direction="reverse"), hit(EOF, 75))

    assert [each.at_ns - START_NS for each in found] == [75 * MS, 85 * MS]
