"""Cells, criteria and the tables derived from them, held against the rows of the table of runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

from owlt.reports.comparison.cells import (
    CRITERIA,
    GOODPUT,
    TO_DELIVERY,
    Cell,
    Point,
    Sample,
    cells_of,
    criteria_of,
    implementations_in,
    misleading_goodput,
)
from owlt.reports.comparison.derived_tables import (
    COMPARISONS_COLUMNS,
    STATISTICS_COLUMNS,
    comparisons_csv,
    statistics_csv,
)
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.results.columns import NOT_RUN, Column
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import names_of, run_rows
from tests.unit.reports.conftest import FAILED, SUSPECT


@pytest.fixture(scope="module")
def cells(demo: Path) -> list[Cell]:
    return cells_of(run_rows(load_results(demo)))


def sample_of(run_id: str, cells: Sequence[Cell]) -> Sample:
    (sample,) = [
        sample for cell in cells for sample in cell.samples.values() if run_id in [row["run_id"] for row in sample.rows]
    ]
    return sample


def row(outcome: str = "completed", **values: Any) -> dict[str, Any]:
    measures = {"goodput_bps": 1e6, "goodput_to_delivery_bps": 1e6, "rts_sent": 5, "total_data_bytes": 1e6}
    return {"outcome": outcome, "suspect": "", **measures, **values}


def cell(**rows: list[dict[str, Any]]) -> Cell:
    return Cell(Point("", 1e7, 25_000_000, 100_000, 0.01), {name: Sample(tuple(each)) for name, each in rows.items()})


def test_a_cell_has_all_implementations_of_a_channel_and_size(cells: list[Cell]) -> None:
    assert len(cells) == 12
    assert implementations_in(cells) == list(cells[0].samples) == list(cells[-1].samples)


def test_a_failed_run_is_in_its_sample_and_has_the_worst_score(cells: list[Cell]) -> None:
    sample = sample_of(FAILED, cells)

    assert (sample.tried, sample.delivered, sample.undelivered) == (3, 2, 1)
    assert len(sample.values(METRICS[0])) == 2
    assert sample.scores(METRICS[0], higher_is_better=True).count(-inf) == 1


def test_a_suspect_run_has_its_value_in_the_sample_and_is_counted(cells: list[Cell]) -> None:
    sample = sample_of(SUSPECT, cells)

    assert sample.suspect == 1
    assert len(sample.values(METRICS[0])) == 3


def test_runs_of_which_the_rig_is_to_blame_or_that_are_planned_count_as_no_failure() -> None:
    sample = Sample((row(), row("aborted"), row(NOT_RUN)))

    assert (sample.tried, sample.undelivered, len(sample.rows)) == (1, 0, 3)


def test_a_lower_number_of_packets_has_a_higher_score() -> None:
    few, many = (Sample((row(rts_sent=number),)) for number in (5, 50))
    (packets_back,) = [criterion for criterion in CRITERIA if criterion.slug == "rts"]

    assert few.scores(packets_back.metric, False) > many.scores(packets_back.metric, False)


def test_goodput_is_first_if_sessions_end_after_delivery() -> None:
    cells = [cell(ltp=[row(goodput_bps=8e5)])]

    assert misleading_goodput(cells) == []
    assert criteria_of(cells)[0] == GOODPUT


def test_goodput_is_not_first_if_a_session_ends_before_its_file_is_delivered() -> None:
    cells = [cell(ltp=[row()], blast=[row(goodput_bps=9e6)])]

    assert misleading_goodput(cells) == ["blast"]
    assert criteria_of(cells)[0] == TO_DELIVERY
    assert set(criteria_of(cells)) == set(CRITERIA)


def test_goodput_is_the_first_criterion_if_data_is_sent_for_a_duration() -> None:
    point = Point("", 1e7, 25_000_000, None, 0.01, 10**10)

    assert [each.slug for each in criteria_of([Cell(point, {"tcp": Sample((row(),))})])] == [
        "goodput",
        "rts",
        "delivery",
    ]


def test_the_statistics_have_a_row_for_each_sample_and_count_failures(cells: list[Cell]) -> None:
    rows = list(csv.DictReader(io.StringIO(statistics_csv(cells))))
    goodput = [each for each in rows if each["metric"] == "goodput"]

    assert len(goodput) == 24
    assert sum(int(each["undelivered"]) for each in goodput) == 2
    assert {each["median_interval"] for each in goodput} == {"range"}
    assert all(float(each["undelivered_low"]) > 0 for each in goodput if each["undelivered"] == "1")


def test_the_comparisons_have_a_row_for_each_pair_and_criterion(cells: list[Cell]) -> None:
    rows = list(csv.DictReader(io.StringIO(comparisons_csv(cells))))

    assert len(rows) == (len(CRITERIA) - 1) * len(cells)  # the probability of delivery is a share, not a ratio
    assert {(each["one"], each["other"]) for each in rows} <= {("norm", "cfdp"), ("cfdp", "norm")}
    assert {each["differs"] for each in rows} == {"False"}  # three runs each cannot be significant


@pytest.mark.parametrize("columns", [STATISTICS_COLUMNS, COMPARISONS_COLUMNS], ids=["statistics", "comparisons"])
def test_every_column_of_a_derived_table_is_described_once(columns: tuple[Column, ...]) -> None:
    assert len(set(names_of(columns))) == len(columns)
    assert all(column.meaning for column in columns)


@pytest.mark.parametrize("table", ["statistics", "comparisons"])
def test_the_columns_of_a_derived_table_are_described_beside_it(reported: Path, table: str) -> None:
    with (reported / "report" / f"{table}.csv").open(newline="") as file:
        columns = csv.DictReader(file).fieldnames
    with (reported / "report" / f"{table}-columns.csv").open(newline="") as file:
        described = [row["name"] for row in csv.DictReader(file)]

    assert described == columns
