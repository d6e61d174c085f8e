"""Boxes held against the files they are made of, and against numpy."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.reports.comparison.cells import boxes_of
from owlt.reports.comparison.estimates import Box, box_numbers
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.results.load import Results, load_results
from tests.unit.reports.conftest import FAILED, SUSPECT, TIMED_OUT, UNSUMMARISED

GOODPUT = METRICS[0]
SAMPLES = st.lists(st.floats(0, 1e9), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def results(demo: Path) -> Results:
    return load_results(demo)


def runs_in(boxes: list[Box]) -> list[str]:
    return [run.run_id for box in boxes for run, _ in box.values]


@given(SAMPLES)
def test_quartiles_are_numpys(values: list[float]) -> None:
    numbers = box_numbers(values)

    assert [numbers.minimum, numbers.q1, numbers.median, numbers.q3, numbers.maximum] == pytest.approx(
        np.quantile(values, [0, 0.25, 0.5, 0.75, 1], method="linear").tolist()
    )


def test_a_whisker_ends_at_the_last_value_within_one_and_a_half_interquartile_ranges() -> None:
    numbers = box_numbers([1, 2, 3, 4, 5, 7, 100])  # Q3 = 6, 1.5 (Q3 - Q1) = 5.25

    assert numbers.whisker_high == 7


def test_an_outlier_is_the_maximum_though_no_whisker_reaches_it() -> None:
    assert box_numbers([1, 2, 3, 4, 5, 7, 100]).maximum == 100


def test_the_number_of_runs_is_that_of_completed_records_with_a_summary(results: Results, demo: Path) -> None:
    completed: Counter[tuple[object, ...]] = Counter()
    for directory in (demo / "runs").iterdir():
        record = json.loads((directory / "record.json").read_text())
        if record["outcome"] == "completed" and (directory / "summary.json").exists():
            completed[
                record["implementation"], record["file_size_bytes"], record["delay_ns"], record["packet_error_rate"]
            ] += 1

    for box in boxes_of(results, GOODPUT):
        point = box.permutation
        key = point.implementation, point.file_size_bytes, point.delay_ns, point.packet_error_rate
        assert box.n == completed[key]


def test_goodput_is_in_megabits_per_second(results: Results, demo: Path) -> None:
    (value,) = [v for box in boxes_of(results, GOODPUT) for run, v in box.values if run.run_id == SUSPECT]
    summary = json.loads((demo / "runs" / SUSPECT / "summary.json").read_text())

    assert value == summary["goodput_bps"] / 1e6


@pytest.mark.parametrize("run_id", [FAILED, TIMED_OUT, UNSUMMARISED])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.slug)
def test_a_run_that_has_no_result_is_in_no_box(results: Results, run_id: str, metric: object) -> None:
    assert run_id not in runs_in(boxes_of(results, metric))


def test_a_suspect_run_is_in_its_box(results: Results) -> None:
    assert SUSPECT in runs_in(boxes_of(results, GOODPUT))


def test_every_other_run_is_in_one_box(results: Results) -> None:
    assert Counter(runs_in(boxes_of(results, GOODPUT))) == Counter(
        {run.record.run_id for run in results.runs} - {FAILED, TIMED_OUT, UNSUMMARISED}
    )


def test_a_box_with_fewer_runs_than_planned_says_so(results: Results) -> None:
    assert Counter(box.n_text for box in boxes_of(results, GOODPUT)) == {"3": 21, "2/3": 3}
