"""When adaptive repetitions end: a decision from results alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.inputs.sweep import Adaptive
from owlt.reports.comparison.stopping import Stop, stop, stops_of, width_percent, with_due_runs
from owlt.reports.results.load import load_results
from owlt.results.files import FAILURE_NAME
from tests.unit.reports.conftest import UNSUMMARISED, few, page_text, write_results

RULE = Adaptive(at_least=3, at_most=8, until_interval_percent=10)


def goodputs(*values: float | None) -> dict[int, float | None]:
    return dict(enumerate(values, start=1))


def test_an_interval_needs_six_values() -> None:
    assert width_percent((1.0,) * 5) is None
    assert width_percent((1.0,) * 6) == 0


def test_the_width_is_relative_to_the_median() -> None:
    assert width_percent((9.0, 10.0, 10.0, 10.0, 10.0, 11.0)) == pytest.approx(20)


def test_repetitions_end_with_the_first_interval_that_is_narrow() -> None:
    assert stop(RULE, goodputs(*(10.0,) * 8)) == Stop(6, "narrow", 0)


def test_repetitions_that_follow_do_not_change_the_decision() -> None:
    assert stop(RULE, goodputs(*(10.0,) * 6, 1.0, 99.0)) == Stop(6, "narrow", 0)


def test_a_wide_interval_calls_for_the_next_repetition() -> None:
    decision = stop(RULE, goodputs(9.0, 10.0, 10.0, 10.0, 10.0, 11.0))

    assert (decision.repetitions, decision.reason) == (7, "open")
    assert decision.width_percent == pytest.approx(20)


def test_repetitions_end_at_the_bound() -> None:
    decision = stop(RULE, goodputs(*(5.0, 15.0) * 4))

    assert (decision.repetitions, decision.reason) == (8, "bound")
    assert decision.width_percent == pytest.approx(100)


def test_the_first_repetitions_are_due_before_any_decision() -> None:
    assert stop(RULE, {}) == Stop(3, "open")
    assert stop(RULE, goodputs(10.0)) == Stop(3, "open")


def test_a_missing_repetition_is_due_whatever_is_recorded_after_it() -> None:
    values = goodputs(*(10.0,) * 8)
    del values[5]

    assert stop(RULE, values) == Stop(5, "open")


def test_a_permutation_without_a_delivery_ends_after_the_first_repetitions() -> None:
    assert stop(RULE, goodputs(None, None, None)) == Stop(3, "undelivered")


def test_failed_runs_count_as_repetitions_without_a_value() -> None:
    assert stop(RULE, goodputs(10.0, None, 10.0, None, 10.0, 10.0)) == Stop(7, "open")
    assert stop(RULE, goodputs(10.0, None, 10.0, None, *(10.0,) * 4)) == Stop(8, "narrow", 0)


def adaptive(directory: Path, recorded: int, is_analysed: bool = True) -> Path:
    """Results with the first repetitions of each permutation; the analysis of one run has failed, or not ended."""
    rule = {"at_least": 2, "at_most": 30, "until_interval_percent": 1}
    sweep = few(packet_error_rate=0, repetitions=rule)
    write_results(directory, sweep, skip=lambda run: run.repetition > recorded)
    if is_analysed:
        (directory / "runs" / UNSUMMARISED / FAILURE_NAME).write_text("no such protocol")
    return directory


def test_planned_runs_that_are_not_due_are_no_part_of_a_report(tmp_path: Path) -> None:
    loaded = load_results(adaptive(tmp_path / "results", recorded=7))
    results = with_due_runs(loaded, stops_of(loaded))

    assert set(loaded.planned.values()) == {30}
    decisions = stops_of(loaded)
    assert {decision.reason for decision in decisions.values()} == {"narrow", "open"}
    for point, decision in decisions.items():
        assert results.planned[point] == (8 if decision.reason == "open" else 7)
    assert {run.repetition for run in results.unrecorded} == {8}


def test_a_run_that_is_not_analysed_yet_leaves_its_permutation_open(tmp_path: Path) -> None:
    loaded = load_results(adaptive(tmp_path / "results", recorded=7, is_analysed=False))
    decisions = {point.implementation: decision for point, decision in stops_of(loaded).items()}

    assert decisions["norm"] == Stop(2, "open")


def test_the_page_has_the_rule_and_the_decision_for_each_permutation(tmp_path: Path) -> None:
    text = page_text(adaptive(tmp_path / "results", recorded=7))

    assert "2 to 30 of each of 2 permutations, until the interval of the median goodput is 1 % wide" in text
    assert text.count("<td>more repetitions are due</td>") == 1
    assert text.count("<td>the interval is narrow enough</td>") == 1


def test_a_fixed_number_of_repetitions_needs_no_decision(tmp_path: Path) -> None:
    loaded = load_results(write_results(tmp_path / "results", few(repetitions=2)))

    assert stops_of(loaded) == {}
    assert with_due_runs(loaded, {}) == loaded
