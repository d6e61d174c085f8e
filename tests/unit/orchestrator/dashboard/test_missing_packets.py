"""The packets that did not arrive as they were sent, from captures of ten packets of CFDP, some of them dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.captures.accounting.derived_files import CAPTURES, keep
from owlt.captures.accounting.summary import load_summary
from owlt.orchestrator.dashboard.missing_packets import MissingPacket, main, missing_packets, read_missing
from owlt.results.record import SUMMARY
from tests.unit.captures.making import RECEIVER_MAC, SESSION, flip, timed, write_pcap
from tests.unit.captures.octets import CFDP_RUN
from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL
from tests.unit.reports.conftest import change_record, write_results

STEP_NS, DELAY_NS = 100_000_000, 25_000_000
DATA, NAK = 2, 6
"""Places in CFDP_RUN: of a file segment, which is sent again later, and of the receiver's request for it."""
FLIPPED_BIT = 8 * 900


def lossy_run(results: Path, dropped: tuple[int, ...] = (), damaged: tuple[int, ...] = ()) -> Path:
    """A recorded run with captures in which the channel dropped and damaged these packets, and its summary says so."""
    run = results / "runs" / COMPLETED
    at_sender, at_receiver = [], []
    for place, (time_ns, frame) in enumerate(timed(CFDP_RUN, STEP_NS)):
        is_forward = frame[6:12].hex() != RECEIVER_MAC.replace(":", "")
        near, far = (at_sender, at_receiver) if is_forward else (at_receiver, at_sender)
        near.append((time_ns, frame))
        if place not in dropped:
            arrived = flip(frame, FLIPPED_BIT) if place in damaged else frame
            far.append((time_ns + DELAY_NS, arrived))
    for name, frames in zip(CAPTURES, (at_sender, at_receiver), strict=True):
        write_pcap(run / name, sorted(frames))
    change_record(results, COMPLETED, session=SESSION.model_dump(mode="json"))
    summary = load_summary(run)
    assert summary is not None
    lost = len(dropped) + len(damaged)
    ledger = summary.ledger_forward.model_copy(update={"lost": lost, "delivered": summary.ledger_forward.sent - lost})
    keep(run / SUMMARY, summary.model_copy(update={"ledger_forward": ledger}))
    return run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path / "small", SMALL, skip=lambda run: run.run_id != COMPLETED)


def test_a_dropped_packet_is_named_with_its_time_direction_kind_and_fate(results: Path) -> None:
    found = missing_packets(lossy_run(results, dropped=(DATA,)))

    assert found.count == 1
    assert found.packets == [
        MissingPacket(
            direction="forward",
            frame=3,
            sent_s=0.2,
            kind="data bytes 1000-1999",
            wire_bytes=len(CFDP_RUN[DATA]),
            fate="lost",
        )
    ]


def test_packets_of_both_directions_are_in_the_order_of_their_departure(results: Path) -> None:
    found = missing_packets(lossy_run(results, dropped=(NAK,), damaged=(DATA,)))

    assert [(each.direction, each.sent_s, each.fate) for each in found.packets] == [
        ("forward", 0.2, "corrupted"),
        ("reverse", 0.6, "lost"),
    ]


def test_of_a_run_without_drops_nothing_is_listed(results: Path) -> None:
    assert missing_packets(lossy_run(results)).count == 0


def test_all_packets_are_counted_and_only_the_first_are_listed(results: Path) -> None:
    found = missing_packets(lossy_run(results, dropped=(DATA, NAK)), most=1)

    assert (found.count, len(found.packets)) == (2, 1)


def test_the_list_is_written_for_the_server_and_the_results_stay_as_they_are(results: Path, tmp_path: Path) -> None:
    run = lossy_run(results, dropped=(DATA,))
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}

    status = main(run, tmp_path / "out")

    found = read_missing(tmp_path / "out")
    assert (status, found and found.count) == (0, 1)
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before


def test_captures_that_cannot_be_read_are_a_problem_with_the_reason(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = lossy_run(results, dropped=(DATA,))
    (run / "sender.pcap").write_bytes(b"none")

    assert main(run, tmp_path / "out") == 1
    assert "sender.pcap" in capsys.readouterr().err
    assert read_missing(tmp_path / "out") is None
