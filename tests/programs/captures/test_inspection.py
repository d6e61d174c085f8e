"""All that two captures say: a row for each packet with its fate, clocks put right, what is not known noted."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from owlt.captures.accounting.measures import direction_counters
from owlt.captures.accounting.summary import read_both
from owlt.captures.accounting.suspicion import Expected
from owlt.captures.inspection.inspection import Case, Inspection, inspect
from owlt.captures.inspection.packet_tables import write_table
from owlt.captures.matches.bottleneck import Link
from tests.unit.captures.making import (
    RECEIVER,
    SENDER,
    SESSION,
    START_NS,
    Timed,
    flip,
    later,
    timed,
    udp_frame,
    write_pcap,
)

OWD_NS = 25_000_000
SENT = timed([udp_frame(n.to_bytes(4, "big") * 50) for n in range(20)])
REPLIES = timed(
    [udp_frame(b"ack %d" % n, source=RECEIVER, destination=SENDER) for n in range(5)], start_ns=START_NS + OWD_NS + 100
)


def inspected(folder: Path, at_sender: list[Timed], at_receiver: list[Timed], case: Case) -> Inspection:
    pcaps = [
        write_pcap(folder / f"{name}.pcap", sorted(frames))
        for name, frames in (("sender", at_sender), ("receiver", at_receiver))
    ]
    return inspect(*read_both(*pcaps), case)


def run(folder: Path, case: Case = Case(SESSION), ahead_ns: int = 0) -> Inspection:  # noqa: B008
    """20 packets of which the third is lost, the fifth damaged and the eighth doubled; five replies."""
    arriving = [*SENT[:2], *SENT[3:4], (SENT[4][0], flip(SENT[4][1], 8 * 100)), *SENT[5:], SENT[7]]
    at_receiver = [*later(arriving, OWD_NS), *REPLIES]
    return inspected(folder, SENT + later(REPLIES, OWD_NS), later(at_receiver, ahead_ns), case)


def fates(found: Inspection) -> list[str]:
    return [str(fate) for fate in found.packets["fate"]]


def test_every_packet_is_a_row_with_its_fate(tmp_path: Path) -> None:
    assert fates(run(tmp_path)) == [
        *("delivered", "delivered", "lost", "delivered", "corrupted"),
        *["delivered"] * 15,
        *["delivered"] * 5,
    ]


def test_of_a_packet_that_nobody_dropped_the_fate_is_undetermined(tmp_path: Path) -> None:
    pipe = {"packets": 20, "waiting_packets": 0, "dropped_packets": 0}
    found = run(tmp_path, Case(SESSION, expected=Expected(forward=direction_counters({"pipe": pipe}))))
    assert fates(found)[2] == "undetermined"
    assert found.summary.ledger_forward.unexplained_missing == 1
    assert found.summary.suspect


def test_rows_have_frames_times_and_copies(tmp_path: Path) -> None:
    packets = run(tmp_path).packets
    assert packets["frame"][:3].tolist() == [1, 2, 3]
    assert packets["sent_ns"][:2].tolist() == [SENT[0][0], SENT[1][0]]
    assert packets["delay_ns"][:4].tolist() == [OWD_NS, OWD_NS, None, OWD_NS]
    assert packets["copies"].tolist() == [1, 1, 0, 1, 1, 1, 1, 2, *[1] * 17]
    assert packets["host"].tolist() == ["sender"] * 20 + ["receiver"] * 5


def test_a_table_is_the_same_as_csv_and_as_parquet(tmp_path: Path) -> None:
    packets = run(tmp_path).packets
    with write_table(packets, tmp_path / "packets.csv").open() as file:
        rows = list(csv.DictReader(file))
    parquet = write_table(packets, tmp_path / "packets.parquet")
    columns = duckdb.sql(f"SELECT * FROM '{parquet}'").fetchnumpy()
    assert [int(row["sent_ns"]) for row in rows] == columns["sent_ns"].tolist() == packets["sent_ns"].tolist()
    assert [row["fate"] for row in rows] == columns["fate"].tolist() == fates(run(tmp_path))


def test_a_table_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none/packets\.csv: cannot be written"):
        write_table({"a": np.zeros(1)}, tmp_path / "none" / "packets.csv")


def test_two_clocks_are_put_right_and_said(tmp_path: Path) -> None:
    case = Case(SESSION, two_clocks=True)
    found = run(tmp_path, case, ahead_ns=-3_000_000_000)
    assert found.clocks is not None
    assert found.clocks.offset_ns == pytest.approx(-3e9, abs=1000)
    assert found.summary.owd_forward.p50_ns == pytest.approx(OWD_NS, abs=1000)
    assert any(note.startswith("two clocks: the receiver's is -3000.000 ms") for note in found.notes)
    assert not any("two clocks" in reason for reason in found.summary.suspect)


def test_two_clocks_that_are_taken_for_one_are_suspect(tmp_path: Path) -> None:
    found = run(tmp_path, ahead_ns=-3_000_000_000)
    assert any("were the captures taken with two clocks?" in reason for reason in found.summary.suspect)


def test_a_known_delay_tells_how_the_round_trip_is_shared(tmp_path: Path) -> None:
    slow = Link(OWD_NS, 1e12)
    case = Case(SESSION, two_clocks=True, forward_link=slow, reverse_link=replace(slow, delay_ns=OWD_NS))
    found = run(tmp_path, case, ahead_ns=7_000)
    assert found.clocks is not None
    assert found.clocks.offset_ns == pytest.approx(7_000, abs=10)


def clock_note(found: Inspection) -> str:
    (note,) = (note for note in found.notes if note.startswith("two clocks"))
    return note


def test_the_note_says_how_true_offset_and_drift_are(tmp_path: Path) -> None:
    note = clock_note(run(tmp_path, Case(SESSION, two_clocks=True), ahead_ns=-3_000_000_000))
    assert re.search(
        r"if both directions have the same delay, otherwise with an error of up to [0-9.]+ ms; its drift is", note
    )
    assert re.search(r"its drift is [+-][0-9.]+ ± [0-9.]+ ppm", note)


def test_a_delay_that_is_given_without_a_rate_shares_the_round_trip(tmp_path: Path) -> None:
    found = run(tmp_path, Case(SESSION, two_clocks=True, delay_ns=OWD_NS), ahead_ns=7_000)
    assert "according to the given delays, with an error of up to" in clock_note(found)
    assert not any("corrected clocks" in reason for reason in found.summary.suspect)


def test_packets_that_take_less_than_the_delay_that_is_given_are_suspect(tmp_path: Path) -> None:
    found = run(tmp_path, Case(SESSION, two_clocks=True, delay_ns=2 * OWD_NS), ahead_ns=-3_000_000_000)
    assert any(reason.startswith("with corrected clocks the smallest round trip") for reason in found.summary.suspect)


def test_without_the_files_size_there_is_no_goodput_and_it_says_so(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.summary.goodput_bps is None
    assert any("--file-size" in note for note in found.notes)


def test_with_it_there_is(tmp_path: Path) -> None:
    found = run(tmp_path, Case(SESSION, file_size_bytes=4000, rate_bps=1e7))
    assert found.summary.goodput_bps == pytest.approx(32_000 / found.summary.session_s)
    assert found.summary.efficiency == pytest.approx(found.summary.goodput_bps / 1e7)


def test_cut_frames_are_noted(tmp_path: Path) -> None:
    pcaps = [write_pcap(tmp_path / f"{name}.pcap", SENT, snaplen=96) for name in ("a", "b")]
    assert any("frames are cut" in note for note in inspect(*read_both(*pcaps), Case(SESSION)).notes)
