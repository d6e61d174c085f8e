"""The drift of a sweep's baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.reports.page.provenance import Drift, drift_of
from owlt.reports.results.load import Results, load_results
from tests.unit.reports.conftest import sweep, write_results

BASELINE = {"implementations": "cfdp", "file_size": "1 MB", "delay": "25 ms", "packet_error_rate": 0}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    asked = sweep(repetitions=1, baseline=BASELINE | {"every": 3})
    directory: Path = tmp_path_factory.mktemp("baseline")
    return load_results(write_results(directory, asked, skip=lambda run: not run.is_baseline))


def with_goodput(results: Results, goodput_bps: Callable[[int], float]) -> Drift | None:
    """The drift if the runs of the baseline had these goodputs, by their number."""
    runs = [
        replace(run, summary=run.summary.model_copy(update={"goodput_bps": goodput_bps(run.record.repetition)}))
        for run in results.runs
        if run.summary
    ]
    return drift_of(replace(results, runs=tuple(runs)))


def test_the_runs_of_the_baseline_are_known_by_the_plan(results: Results) -> None:
    assert {run.record.run_id for run in results.runs} == results.baseline
    assert len(results.baseline) == 9


def test_a_goodput_that_grows_with_every_run_is_a_drift(results: Results) -> None:
    drift = with_goodput(results, lambda number: 1e6 * (1 + 0.01 * number))

    assert drift is not None
    assert drift.is_significant
    assert drift.runs == 9
    assert drift.change == pytest.approx(0.08 / 1.05, rel=0.1)


def test_a_goodput_that_goes_up_and_down_is_no_drift(results: Results) -> None:
    drift = with_goodput(results, lambda number: 1e6 * (1 + 0.01 * (-1) ** number))

    assert drift is not None
    assert not drift.is_significant


def test_a_single_disturbed_run_is_no_drift(results: Results) -> None:
    drift = with_goodput(results, lambda number: 1e6 * (0.1 if number == 9 else 1 + 0.001 * (-1) ** number))

    assert drift is not None
    assert not drift.is_significant


def test_runs_with_the_same_place_in_two_versions_of_the_plan_all_count(results: Results) -> None:
    first, *others = results.runs
    same = replace(first, record=first.record.model_copy(update={"order": others[0].record.order}))

    drift = with_goodput(replace(results, runs=(same, *others)), lambda number: 1e6 * (1 + 0.01 * number))

    assert drift is not None
    assert drift.runs == 9


def test_a_sweep_without_a_baseline_has_no_drift(demo: Path) -> None:
    assert drift_of(load_results(demo)) is None


def test_few_runs_have_no_drift(results: Results) -> None:
    assert drift_of(replace(results, runs=results.runs[:3])) is None


def test_a_drift_is_stated_with_its_interval() -> None:
    assert (
        Drift(9, 0.012, -0.003, 0.02).text == "+1.2% from the first to the last of 9 runs (95% interval -0.3% to +2.0%)"
    )
