"""What one capture alone tells: its packets, and the session with the round trip added where that is due."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.captures.accounting.one_side import one_side
from owlt.captures.accounting.suspicion import Claims
from owlt.captures.frames.columns import Columns, read_columns
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, Timed, later, timed, udp_frame, write_pcap

DATA = timed([udp_frame(bytes(1000))] * 11)
REPLY = timed([udp_frame(bytes(10), source=RECEIVER, destination=SENDER)], start_ns=START_NS + 20_000_000)
OWD_NS = 250_000_000


def captured(folder: Path, *frames: Timed) -> Columns:
    return read_columns(write_pcap(folder / "one.pcap", sorted(frames)))


def test_at_the_sender_the_session_is_what_was_seen(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA, *REPLY), SESSION, "sender", Claims(10_000, None, OWD_NS, OWD_NS))
    assert (found.session_seen_s, found.round_trip_added_s, found.session_s) == (0.02, 0, 0.02)
    assert found.goodput_bps == found.goodput_seen_bps == pytest.approx(4e6)


def test_at_the_receiver_the_round_trip_is_added_and_said(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA, *REPLY), SESSION, "receiver", Claims(10_000, None, OWD_NS, OWD_NS))
    assert (found.session_seen_s, found.round_trip_added_s, found.session_s) == (0.02, 0.5, 0.52)
    assert found.goodput_bps == pytest.approx(80_000 / 0.52)
    assert "the round trip of 0.5 s was added" in found.notes[1]
    assert len(found.notes) == 2


def test_at_the_receiver_without_a_delay_there_is_no_session(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA), SESSION, "receiver", Claims(10_000))
    assert found.session_s is found.goodput_bps is found.round_trip_added_s is None
    assert "unknown without --delay" in found.notes[1]


@pytest.mark.parametrize(
    ("frames", "note"),
    [
        ([*DATA, *REPLY, *later(DATA[:1], 30_000_000)], "the sender sent the last one"),
        ([*later(REPLY, -30_000_000), *DATA, *REPLY], "the receiver sent the first packet"),
        (
            [*later(REPLY, -30_000_000), *DATA],
            "the receiver sent the first packet and the sender sent the last one",
        ),
    ],
)
def test_where_the_round_trip_is_too_much_it_says_so(tmp_path: Path, frames: list[Timed], note: str) -> None:
    found = one_side(captured(tmp_path, *frames), SESSION, "receiver", Claims(None, None, OWD_NS, OWD_NS))
    assert found.notes[2] == f"{note}: the session was shorter than stated, by up to the round trip"


def test_packets_and_bytes_are_by_who_sent_them(tmp_path: Path) -> None:
    stranger = timed([udp_frame(b"x", port=9)])
    found = one_side(captured(tmp_path, *DATA, *REPLY, *stranger), SESSION, "sender", Claims())
    assert (found.str_packets, found.str_bytes) == (11, 11 * 1042)
    assert (found.rts_packets, found.rts_bytes, found.background_packets) == (1, 52, 1)


def test_a_capture_without_the_session_has_no_times_and_says_so(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path), SESSION, "receiver", Claims(1, None, 1, 1))
    assert found.session_seen_s is found.session_s is found.goodput_bps is None
    assert "no packet of the session" in found.notes[1]


def test_damage_is_reported(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "cut.pcap", DATA)
    path.write_bytes(path.read_bytes()[:-1])
    found = one_side(read_columns(path), SESSION, "sender", Claims(10_000))
    assert "is incomplete" in found.suspect[0]
    assert found.goodput_bps is not None


def test_frames_that_no_link_carries_are_reported(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *timed([udp_frame(bytes(1473))])), SESSION, "sender", Claims())
    assert "is segmentation offload on?" in found.suspect[0]
    assert one_side(captured(tmp_path, *DATA), SESSION, "sender", Claims()).suspect == []


def test_a_file_that_is_larger_than_what_was_sent_is_suspect_and_has_no_goodput(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA, *REPLY), SESSION, "sender", Claims(12_000))
    assert found.suspect[0].startswith("11462 bytes in total were sent by the sender, of a file of 12000 bytes")
    assert found.goodput_bps is found.goodput_seen_bps is None


def test_so_is_one_of_which_the_messages_carry_less(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA), SESSION, "sender", Claims(10_000), carried_file_bytes=9_000)
    assert found.suspect[0].startswith("the messages carry 9000 bytes of a file of 10000 bytes")


def test_so_is_a_rate_that_was_exceeded_behind_the_channel(tmp_path: Path) -> None:
    columns = captured(tmp_path, *DATA)
    assert "the rate is wrong" in one_side(columns, SESSION, "receiver", Claims(None, 1e6, OWD_NS, OWD_NS)).suspect[0]
    assert one_side(columns, SESSION, "receiver", Claims(None, 1e7, OWD_NS, OWD_NS)).suspect == []
    assert one_side(columns, SESSION, "sender", Claims(None, 1e6, OWD_NS, OWD_NS)).suspect == []


def test_efficiency_is_of_the_rate_that_is_given(tmp_path: Path) -> None:
    found = one_side(captured(tmp_path, *DATA, *REPLY), SESSION, "sender", Claims(10_000, 1e7))
    assert found.efficiency == pytest.approx(0.4)
