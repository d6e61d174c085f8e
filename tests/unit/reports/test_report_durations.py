"""The report of a sweep that sends data for a duration: its page, its figures, its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.captures.accounting.measures import Amounts, measure
from owlt.reports.comparison.grid import DURATION, Grid
from owlt.reports.comparison.panels import comparisons
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import run_rows
from tests.unit.reports.conftest import few, page_text, write_results

AMOUNTS = Amounts(2_000_000, 1_900_000, 1000, 900)
"""Of packets that went on for some time after the duration."""


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("timed") / "results"
    return write_results(directory, few(file_size=None, duration=["2 s", "600 s"]))


@pytest.fixture(scope="module")
def results(timed: Path) -> Results:
    return load_results(timed)


def test_goodput_is_over_the_duration_whatever_the_session_lasts() -> None:
    measures = measure(AMOUNTS, 0, 13_000_000_000, 1_250_000, None, 2e6, duration_s=10)

    assert (measures.goodput_bps, measures.efficiency, measures.session_s) == (1e6, 0.5, 13)
    assert measures.throughput_forward_bps == pytest.approx(8 * 1_900_000 / 13)


def test_what_relates_all_packets_to_the_data_is_not_defined() -> None:
    measures = measure(AMOUNTS, 0, 13_000_000_000, 1_250_000, None, 2e6, duration_s=10)

    assert (measures.data_ratio, measures.normalized_goodput_bps, measures.goodput_to_delivery_bps) == (None,) * 3


def test_a_run_that_did_not_complete_has_no_goodput() -> None:
    assert measure(AMOUNTS, 0, 13_000_000_000, None, None, 2e6, duration_s=10).goodput_bps is None


def test_the_durations_are_the_loads_of_the_grid(results: Results) -> None:
    grid = Grid.of(results)

    assert (grid.load_axis, grid.loads) == (DURATION, (2 * 10**9, 600 * 10**9))
    assert [axis.label for axis in grid.axes] == ["packet error rate", "duration"]


def test_figures_are_of_metrics_that_are_defined_without_a_file(results: Results) -> None:
    figures = list(comparisons(results))

    assert {figure.panels[0][0].metric.slug for figure in figures} == {"goodput", "str", "rts", "total-data"}
    assert {figure.axis for figure in figures} == set(Grid.of(results).axes)
    assert all(figure.boxes for figure in figures)


def test_the_page_names_the_durations_and_no_file_size(timed: Path) -> None:
    text = page_text(timed)

    assert "<dt>Duration</dt><dd>2 s, 600 s</dd>" in text
    assert "File size" not in text


def test_the_table_of_runs_has_durations_and_no_file_sizes(results: Results) -> None:
    rows = run_rows(results)

    assert {row["duration_ns"] for row in rows} == {2 * 10**9, 600 * 10**9}
    assert {row["file_size_bytes"] for row in rows} == {None}
