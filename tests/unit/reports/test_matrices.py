"""Matrices of senders and receivers, their section of the page, and `owlt pairs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands import cli
from owlt.reports.comparison.cells import Cell, cells_of
from owlt.reports.comparison.matrices import SHOWN, Entry, Matrix, matrices_of
from owlt.reports.page.page import build_report
from owlt.reports.results.load import Results, load_results
from owlt.reports.sessions.protocols import shown_runs
from tests.unit.reports.conftest import change_record, sweep, write_results, write_view

NAMES = ["cfdp", "cfdp-librecube"]
SWEEP = {
    "implementations": [*NAMES, "norm"],
    "pairs": "all",
    "file_size": "1 MB",
    "delay": "25 ms",
    "packet_error_rate": [0, 0.01],
}
TO, BACK = "cfdp-to-cfdp-librecube", "cfdp-librecube-to-cfdp"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CFDP's pairs, three times each with and without errors; one run of cfdp failed."""
    return write_results(tmp_path_factory.mktemp("pairs"), sweep(**SWEEP))


@pytest.fixture(scope="module")
def loaded(results: Path) -> Results:
    return load_results(results)


def matrices(loaded: Results, left_out: dict[str, str] | None = None, **changes: Any) -> list[Matrix]:
    """Its matrices; `changes` are columns of the runs of the first pair."""
    rows = [row | (changes if row["implementation"] == TO else {}) for row in loaded.rows]
    return matrices_of(cells_of(rows), loaded.profiles, left_out or {})


def entry(matrix: Matrix, sender: str, receiver: str) -> Entry:
    (only,) = matrix.rows[sender][matrix.receivers.index(receiver)].entries
    return only


def test_there_is_a_matrix_for_each_family_with_pairs_and_each_cell(loaded: Results) -> None:
    found = matrices(loaded)

    assert [matrix.family for matrix in found] == ["CFDP class 2 over UDP"] * 2
    assert [matrix.point.packet_error_rate for matrix in found] == [0, 0.01]


def test_rows_send_and_columns_receive(loaded: Results) -> None:
    first, *_ = matrices(loaded)

    assert [*first.rows] == NAMES
    assert first.receivers == (*NAMES,)
    assert entry(first, "cfdp", "cfdp-librecube").name == TO
    assert entry(first, "cfdp-librecube", "cfdp").name == BACK


def test_the_diagonal_has_the_implementations_themselves(loaded: Results) -> None:
    first, *_ = matrices(loaded)

    assert [entry(first, name, name).name for name in NAMES] == NAMES
    assert [square.is_own for row in first.rows.values() for square in row] == [True, False, False, True]


def test_an_entry_of_which_nothing_was_launched_is_unsupported(loaded: Results) -> None:
    first, *_ = matrices(loaded, outcome="unsupported", reason="a file that is too large")

    assert entry(first, "cfdp", "cfdp-librecube").delivered == "unsupported"
    assert entry(first, "cfdp", "cfdp-librecube").why_unsupported == "a file that is too large"
    assert entry(first, "cfdp", "cfdp").why_unsupported == ""
    assert entry(first, "cfdp", "cfdp").delivered != "unsupported"


def test_an_entry_has_the_medians_of_the_runs_that_delivered(loaded: Results) -> None:
    first, *_ = matrices(loaded)
    values = sorted(row["str_sent"] for row in entry(first, "cfdp", "cfdp-librecube").sample.rows)

    assert [metric.slug for metric in SHOWN] == ["goodput", "str", "rts"]
    assert entry(first, "cfdp", "cfdp-librecube").median(SHOWN[1]) == values[1]


def test_runs_that_did_not_deliver_are_counted_and_named(loaded: Results) -> None:
    first, *_ = matrices(loaded, outcome="timed_out")
    pair = entry(first, "cfdp", "cfdp-librecube")

    assert pair.delivered == "0 of 3"
    assert [row["run_id"] for row in pair.failed] == [f"{TO}_1MB_10Mbps_25ms_per0_r{number}" for number in (1, 2, 3)]
    assert pair.median(SHOWN[0]) is None


def test_a_run_that_the_rig_lost_is_no_failure_of_the_pair(loaded: Results) -> None:
    first, *_ = matrices(loaded, outcome="aborted")

    assert entry(first, "cfdp", "cfdp-librecube").failed == []


def test_a_pair_that_is_not_possible_has_the_reason(loaded: Results) -> None:
    cells = [Cell(each.point, {name: each.samples[name] for name in (*NAMES, BACK)}) for each in cells_of(loaded.rows)]
    first, *_ = matrices_of(cells, loaded.profiles, {TO: "the checksums differ"})

    assert [(square.why_not, square.entries) for square in first.rows["cfdp"]][1] == ("the checksums differ", ())


def test_a_sweep_without_pairs_has_no_matrix(loaded: Results) -> None:
    plain = {name: each for name, each in loaded.profiles.items() if not each.pair}

    assert matrices_of(cells_of(loaded.rows), plain, {}) == []


def test_the_page_has_the_matrices_and_the_way_to_a_failed_run(results: Path) -> None:
    page = build_report(results).read_text()

    assert page.count('<table class="matrix">') == 2
    assert "sends ╲ receives" in page
    assert '<a class="short" href="#run-cfdp_1MB_10Mbps_25ms_per0.01_r3">failed</a>' in page
    assert "owlt analyse RESULTS/runs/cfdp_1MB_10Mbps_25ms_per0.01_r3" in page


def test_the_command_prints_the_matrices(results: Path) -> None:
    shown = CliRunner().invoke(cli.app, ["pairs", str(results)]).output

    assert "CFDP class 2 over UDP; PER 0\n" in shown
    assert "sends \\ receives" in shown
    assert "[2 of 3: " in shown


def test_the_command_gives_every_pair_as_json(results: Path) -> None:
    value = json.loads(CliRunner().invoke(cli.app, ["pairs", str(results), "--json"]).output)
    last = value["matrices"][-1]

    assert [pair["name"] for pair in last["pairs"]] == ["cfdp", TO, BACK, "cfdp-librecube"]
    assert last["pairs"][0]["failed"] == ["cfdp_1MB_10Mbps_25ms_per0.01_r3"]
    assert last["packet_error_rate"] == 0.01


def test_the_command_says_that_a_sweep_has_no_pairs(demo: Path) -> None:
    done = CliRunner().invoke(cli.app, ["pairs", str(demo)])

    assert "has no pairs, expected the results of a sweep with 'pairs'" in str(done.exception)


def test_of_a_pair_between_implementations_of_the_sweep_only_a_failed_run_is_drawn(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "results", sweep(**SWEEP))
    runs = [f"{TO}_1MB_10Mbps_25ms_per0_r{number}" for number in (1, 2)]
    for run_id in runs:
        write_view(directory, run_id)
    assert [each.name for each in shown_runs(load_results(directory))] == []

    change_record(directory, runs[1], outcome="timed_out")
    assert [each.run.record.run_id for each in shown_runs(load_results(directory))] == [runs[1]]
