"""What stands in a report of implementations that did not deliver every file, and where they stand."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from owlt.captures.accounting.derived_files import keep
from owlt.captures.accounting.summary import load_summary
from owlt.reports.comparison.cells import boxes_of, cells_of
from owlt.reports.comparison.derived_tables import statistics_csv
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.drawing.boxes import n_colour
from owlt.reports.looks import ALARM, MUTED
from owlt.reports.page.tables import HEADS, TEXT_HEADS, tcp_cells
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import run_rows
from owlt.results.record import SUMMARY
from tests.unit.reports.conftest import change_record, few, page_text, write_results

GOODPUT = METRICS[0]
NAMES = ["udp-blast", "norm", "cfdp", "saratoga"]
SWEEP = few(implementations=NAMES, repetitions=2)


def made(directory: Path, **outcomes: dict[str, str]) -> Results:
    """Results in which runs, by implementation and the end of their ids, ended otherwise than completed."""
    write_results(directory, SWEEP)
    for path in directory.glob("runs/*"):
        name, _, rest = path.name.partition("_")
        for ending, outcome in outcomes.get(name.replace("-", "_"), {}).items():
            if rest.endswith(ending):
                change_record(directory, path.name, outcome=outcome, reason="")
    return load_results(directory)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Of the blast one of four files was not delivered, of norm none; cfdp and saratoga delivered all."""
    return made(tmp_path, udp_blast={"per0.01_r2": "incomplete"}, norm={"": "timed_out"})


def test_who_delivered_every_file_stands_first_and_who_delivered_none_last(results: Results) -> None:
    assert list(results.implementations) == ["cfdp", "saratoga", "udp-blast", "norm"]


def test_among_those_who_delivered_every_file_the_sweep_decides(tmp_path: Path) -> None:
    assert list(made(tmp_path).implementations) == NAMES


def test_a_run_that_the_rig_aborted_does_not_change_the_order(tmp_path: Path) -> None:
    assert list(made(tmp_path, udp_blast={"per0.01_r2": "aborted"}).implementations) == NAMES


def test_an_unsupported_run_moves_an_implementation_back(tmp_path: Path) -> None:
    results = made(tmp_path, udp_blast={"per0.01_r2": "unsupported"})

    assert list(results.implementations) == ["norm", "cfdp", "saratoga", "udp-blast"]


def test_looks_stay_those_of_the_sweep_whoever_stands_first(results: Results) -> None:
    assert results.series == {name: number for number, name in enumerate(NAMES)}


def test_every_table_has_the_order_of_the_report(results: Results) -> None:
    order = list(results.implementations)

    statistics = list(csv.DictReader(io.StringIO(statistics_csv(cells_of(run_rows(results))))))
    for rows in (statistics, run_rows(results)):
        first_of_a_point = [row["implementation"] for row in rows if float(row["packet_error_rate"]) == 0]
        assert list(dict.fromkeys(first_of_a_point)) == order


def test_a_median_has_beside_it_how_many_files_were_delivered(results: Results) -> None:
    told = {
        (box.permutation.implementation, box.permutation.packet_error_rate): (box.delivered_text, box.is_short)
        for box in boxes_of(results, GOODPUT)
    }

    assert told["cfdp", 0.01] == ("2/2", False)
    assert told["udp-blast", 0] == ("2/2", False)
    assert told["udp-blast", 0.01] == ("1/2", True)
    assert told["norm", 0] == ("0/2", True)


def test_who_delivered_none_has_no_goodput(results: Results) -> None:
    values = {box.permutation.implementation: box.numbers for box in boxes_of(results, GOODPUT)}

    assert values["norm"] is None


def test_a_file_that_was_not_delivered_is_red_under_its_box(results: Results) -> None:
    colours = {
        (box.permutation.implementation, box.permutation.packet_error_rate): n_colour(box)
        for box in boxes_of(results, GOODPUT)
    }

    assert colours["udp-blast", 0.01] == ALARM
    assert colours["udp-blast", 0] == colours["cfdp", 0.01] == MUTED


def test_a_summary_of_before_has_no_goodput_of_a_file_that_was_not_delivered(results: Results) -> None:
    undelivered = [run for run in results.runs if not run.completed]

    kept = [summary for run in undelivered if (summary := load_summary(run.directory)) is not None]
    assert len(kept) == 4
    assert all(summary.goodput_bps for summary in kept)
    assert {run.summary.goodput_bps for run in undelivered if run.summary} == {None}
    rows = [row for row in run_rows(results) if row["outcome"] != "completed"]
    assert len(rows) == 5
    of_the_file = ("goodput_bps", "goodput_to_delivery_bps", "normalized_goodput_bps", "efficiency", "data_ratio")
    assert {row[name] for row in rows for name in of_the_file} == {None}


def test_a_run_that_delivered_nothing_keeps_its_packets(results: Results) -> None:
    assert all(run.summary.str_sent for run in results.runs if run.summary)


def test_the_page_warns_of_implementations_that_did_not_deliver_every_file(results: Results) -> None:
    page = page_text(results.directory)
    said = re.sub(r"<[^>]*>", "", page[page.index("Not every file was delivered") : page.index("</header>")])

    assert "UDP blast delivered 3 of 4; NORM delivered none of 4." in " ".join(said.split())


def test_a_page_of_delivered_files_says_nothing_of_that(tmp_path: Path) -> None:
    made(tmp_path)

    assert "Not every file" not in page_text(tmp_path)


def test_a_permutation_over_tcp_of_which_no_file_was_delivered_has_a_row_without_numbers(tmp_path: Path) -> None:
    results = made(tmp_path, norm={"": "failed"})
    for run in results.runs:
        change_record(tmp_path, run.record.run_id, tcp={"sender": {"sockets": [{"port": 5000}]}})

    rows = [cells for cells in tcp_cells(load_results(tmp_path)) if cells[0].startswith("NORM")]

    assert [cells[TEXT_HEADS] for cells in rows] == ["0/2", "0/2"]
    assert {cell for cells in rows for cell in cells[TEXT_HEADS + 1 :]} == {"–"}
    assert {len(cells) for cells in rows} == {len(HEADS)}


def test_the_numbers_of_a_box_are_of_all_that_delivered_but_those_without_a_summary(tmp_path: Path) -> None:
    results = made(tmp_path)
    (results.runs[0].directory / SUMMARY).unlink()
    box = boxes_of(load_results(tmp_path), GOODPUT)[0]

    assert (box.delivered, box.n, box.delivered_text, box.is_short) == (2, 1, "1/2", True)


def test_a_measure_that_no_run_has_is_not_marked_as_undelivered(tmp_path: Path) -> None:
    results = made(tmp_path)
    summarised = [run for run in results.runs if run.summary is not None]
    for run in summarised:
        keep(run.directory / SUMMARY, run.summary.model_copy(update={"goodput_bps": None}))  # type: ignore[union-attr]

    assert {(box.delivered_text, box.is_short) for box in boxes_of(load_results(tmp_path), GOODPUT)} == {("2/2", False)}
