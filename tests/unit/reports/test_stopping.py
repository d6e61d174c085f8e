"""When adaptive repetitions end: a decision from results alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from owlt.emulator.channel.channel_file import load_channel
from owlt.inputs.sweep import Adaptive
from owlt.orchestrator.profiles.catalogue import channel_files
from owlt.reports.comparison.stopping import Stop, stop, stops, stops_of, width_percent, with_due_runs
from owlt.reports.results.columns import DIRECTIONS, has_chance
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import link_cells
from owlt.results.files import FAILURE_NAME
from owlt.results.permutation import Permutation
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

    assert (
        "2 to 30 repetitions, until the interval of the median goodput is 1 % wide, of each of 2 permutations" in text
    )
    assert text.count("<td>more repetitions are due</td>") == 1
    assert text.count("<td>the interval is narrow enough</td>") == 1


def test_a_fixed_number_of_repetitions_needs_no_decision(tmp_path: Path) -> None:
    loaded = load_results(write_results(tmp_path / "results", few(repetitions=2)))

    assert stops_of(loaded) == {}
    assert with_due_runs(loaded, {}) == loaded


# Until the choice is decided

FAST = [1.0 + 0.001 * number for number in range(20)]


def decisions(
    runs: Mapping[str, Sequence[float | None]], has_chance: bool = True, clock: str = "exact"
) -> dict[str, tuple[int, str]]:
    """The repetitions and the reason of each implementation of a cell that is looked at after 9, 13 and 20."""
    sweep = few(repetitions={"at_least": 9, "at_most": 20, "until": "decided"}, clock=clock)
    points = {
        name: Permutation(
            implementation=name, file_size_bytes=1000, rate_bps=1e6, delay_ns=10**6, packet_error_rate=0.1
        )
        for name in runs
    }
    found = stops(sweep, {points[name]: goodputs(*of_name) for name, of_name in runs.items()}, lambda _: has_chance)
    return {name: (found[point].repetitions, found[point].reason) for name, point in points.items()}


def scaled(factor: float, number: int) -> list[float]:
    return [factor * value for value in FAST[:number]]


def test_the_repetitions_of_a_cell_end_when_it_is_shown_what_may_be_taken() -> None:
    assert decisions({"a": scaled(1, 9), "b": scaled(0.5, 9)}) == {"a": (9, "decided"), "b": (9, "decided")}


def test_an_excluded_implementation_ends_before_those_that_are_undecided() -> None:
    wide = [1.0, 1.4, 0.8, 1.2, 0.9, 1.3, 1.1, 0.95, 1.25]
    found = decisions({"a": wide, "b": [1.05 * value for value in reversed(wide)], "c": scaled(0.1, 9)})

    assert found == {"a": (13, "open"), "b": (13, "open"), "c": (9, "decided")}


def test_an_undecided_cell_ends_at_the_bound() -> None:
    wide = [1.0, 1.4, 0.8, 1.2, 0.9, 1.3, 1.1, 1.0, 0.95, 1.15] * 2

    assert decisions({"a": wide, "b": wide[::-1]}) == {"a": (20, "bound"), "b": (20, "bound")}


def test_without_random_errors_two_identical_runs_are_enough() -> None:
    runs = {"a": [1.0, 1.0], "b": [0.9, 0.9]}

    assert decisions(runs, has_chance=False) == {"a": (2, "identical"), "b": (2, "identical")}
    assert decisions(runs) == {"a": (9, "open"), "b": (9, "open")}
    assert decisions(runs, has_chance=False, clock="real") == {"a": (9, "open"), "b": (9, "open")}


def test_runs_that_differ_without_random_errors_are_repeated() -> None:
    assert decisions({"a": [1.0, 1.0], "b": [0.9, 0.8]}, has_chance=False) == {"a": (2, "identical"), "b": (9, "open")}


def test_one_that_delivers_half_of_its_files_ends() -> None:
    found = decisions(
        {"a": scaled(1, 9), "b": [1.0, None, None, None, 1.0, None, 1.0, None, None], "c": scaled(1.002, 9)}
    )

    assert found["b"] == (9, "undelivered")


@pytest.mark.parametrize("keys", [{}, {"until": "decided", "until_interval_percent": 5}])
def test_one_of_both_ends_is_needed(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="until_interval_percent"):
        Adaptive.model_validate({"at_least": 6, "at_most": 20, **keys})


def test_no_channel_that_makes_random_choices_at_some_time_has_columns_without_them() -> None:
    channels = [load_channel(path).channel for path in channel_files()]
    of_columns = []
    for wire in (channel.to_wire() for channel in channels):
        cells = {f"{way}_{name}": cell for way in DIRECTIONS for name, cell in link_cells(wire[way]).items()}
        of_columns.append(has_chance(cells | {"timeline": json.dumps(wire.get("timeline"))}))

    assert all(found or not channel.draws for found, channel in zip(of_columns, channels, strict=True))
    assert {True, False} == {found for found, each in zip(of_columns, channels, strict=True) if each.timeline}
