"""Figures that cannot be are told in words that say what is wrong; a transfer that can be has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.inspection import Case, Inspection, inspect
from owlt.captures.matches.bottleneck import Link
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, Timed, later, timed, udp_frame, write_pcap

OWD_NS = 25_000_000
SENT = timed([udp_frame(n.to_bytes(4, "big") * 50) for n in range(20)])
REPLIES = timed(
    [udp_frame(b"ack %d" % n, source=RECEIVER, destination=SENDER) for n in range(5)], start_ns=START_NS + OWD_NS + 100
)
AT_SENDER = sorted([*SENT, *later(REPLIES, OWD_NS)])
AT_RECEIVER = sorted([*later(SENT, OWD_NS), *REPLIES])
SENT_BYTES = 20 * 242
FITTING = Case(SESSION, file_size_bytes=4000, delay_ns=OWD_NS, rate_bps=2e6)


def pcaps(folder: Path, at_sender: list[Timed], at_receiver: list[Timed]) -> tuple[Path, Path]:
    return write_pcap(folder / "s.pcap", at_sender), write_pcap(folder / "r.pcap", at_receiver)


def looked_at(
    folder: Path, case: Case, at_sender: list[Timed] = AT_SENDER, at_receiver: list[Timed] = AT_RECEIVER
) -> Inspection:
    return inspect(*read_both(*pcaps(folder, at_sender, at_receiver)), case)


def test_what_fits_together_is_not_suspect(tmp_path: Path) -> None:
    found = looked_at(tmp_path, FITTING)
    assert found.summary.suspect == []
    assert found.left_out == ""
    assert found.summary.goodput_bps
    assert found.summary.efficiency


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            replace(FITTING, file_size_bytes=SENT_BYTES + 1),
            "4840 bytes in total were sent by the sender, of a file of 4841",
        ),
        (replace(FITTING, rate_bps=1e6), "packets arrived at 1936 kbit/s, faster than the channel's 1000 kbit/s"),
        (
            replace(FITTING, delay_ns=26_000_000),
            "the smallest forward one-way delay is 25.000 ms, less than the channel's 26 ms",
        ),
        (
            replace(FITTING, delay_ns=None, reverse_link=Link(26_000_000, 1e9)),
            "the smallest reverse one-way delay is 25.000 ms",
        ),
    ],
)
def test_what_is_given_and_cannot_be_is_suspect_and_has_no_goodput(tmp_path: Path, case: Case, sentence: str) -> None:
    found = looked_at(tmp_path, case)
    assert any(sentence in reason for reason in found.summary.suspect)
    assert found.left_out == "the transfer is suspect"
    assert found.summary.goodput_bps is found.summary.normalized_goodput_bps is found.summary.efficiency is None
    assert found.summary.utilisation is None


def test_swapped_files_are_reported(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION), AT_RECEIVER, AT_SENDER)
    assert found.summary.suspect[0].endswith("the files look swapped; give the sender's first")


def test_on_two_clocks_too(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION, two_clocks=True), later(AT_RECEIVER, 10**9), AT_SENDER)
    assert found.summary.suspect[0].endswith("the files look swapped; give the sender's first")


def both_ways(delay_ns: int) -> tuple[list[Timed], list[Timed]]:
    """Captures in which every packet of both ways took so long."""
    return sorted([*SENT, *later(REPLIES, delay_ns)]), sorted([*later(SENT, delay_ns), *REPLIES])


def test_delays_below_zero_by_less_than_the_error_of_two_clocks_are_not_suspect(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION, two_clocks=True), *both_ways(-802))

    assert found.summary.suspect == []


def test_delays_further_below_zero_are_suspect_without_asking_for_two_clocks(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION, two_clocks=True), *both_ways(-50_000))

    assert found.summary.suspect[0].endswith("the files look swapped; give the sender's first")
    assert any("the offset and drift of the two clocks do not explain" in reason for reason in found.summary.suspect)
    assert not any("with two clocks?" in reason for reason in found.summary.suspect)


def test_one_way_before_its_time_names_the_clocks(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION), at_receiver=later(AT_RECEIVER, -3_000_000_000))
    assert found.summary.suspect[0].endswith("the captures were taken with two clocks; use --clocks two")


def test_where_nobody_answers_it_may_be_either(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION), later(SENT, OWD_NS), SENT)
    assert "swapped" in found.summary.suspect[0]
    assert "--clocks two" in found.summary.suspect[0]


def test_the_same_file_twice_is_reported(tmp_path: Path) -> None:
    pcap, _ = pcaps(tmp_path, AT_SENDER, AT_RECEIVER)
    assert inspect(*read_both(pcap, pcap), FITTING).summary.suspect[0].startswith("both captures are the same file")


def test_the_same_capture_in_two_files_is_reported(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION), at_receiver=AT_SENDER)
    assert found.summary.suspect[0] == "all delays are 0: both files contain the same capture"


def test_a_channel_without_delay_is_not_taken_for_that(tmp_path: Path) -> None:
    assert looked_at(tmp_path, Case(SESSION, delay_ns=0), at_receiver=AT_SENDER).summary.suspect == []


def test_captures_of_two_transfers_are_reported(tmp_path: Path) -> None:
    others = later(timed([udp_frame(b"other %d" % n) for n in range(20)]), OWD_NS)
    found = looked_at(tmp_path, Case(SESSION), at_receiver=others)
    assert found.summary.suspect[0].startswith("the captures have no packet in common")


def test_an_empty_capture_is_reported(tmp_path: Path) -> None:
    assert "r.pcap is empty: it has no frames" in looked_at(tmp_path, FITTING, at_receiver=[]).summary.suspect


def test_a_channel_that_loses_all_is_no_contradiction(tmp_path: Path) -> None:
    found = looked_at(tmp_path, Case(SESSION), SENT, REPLIES)
    assert found.summary.suspect == []


def test_of_a_transfer_that_failed_the_bytes_may_be_few_but_there_is_no_goodput(tmp_path: Path) -> None:
    found = looked_at(tmp_path, replace(FITTING, file_size_bytes=10**6, outcome="failed", reason="because"))
    assert found.summary.suspect == []
    assert found.left_out == "the transfer did not complete"
    assert found.summary.goodput_bps is found.summary.data_ratio is found.summary.efficiency is None
    assert found.summary.utilisation is not None
