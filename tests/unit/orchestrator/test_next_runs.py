"""Which runs of a batch its next guest performs."""

from __future__ import annotations

from orchestrator.next_runs import next_runs
from tests.unit.orchestrator.test_supervisor import small_plan

RUNS = small_plan().runs
ONE, TWO, THREE, FOUR, FIVE, SIX = (run.run_id for run in RUNS)


def chosen(done: set[str], passed_over: set[str] = frozenset(), exact: bool = True, split: bool = False) -> list[str]:  # type: ignore[assignment]
    return [run.run_id for run in next_runs(RUNS, done, passed_over, exact, split)]


def test_nothing_is_left_when_all_are_done() -> None:
    assert chosen({ONE, TWO, THREE, FOUR, FIVE, SIX}) == []


def test_on_the_exact_clock_a_guest_begins_with_the_first_run_and_ends_with_the_last_missing_one() -> None:
    assert chosen({ONE, TWO, FOUR, FIVE, SIX}) == [ONE, TWO, THREE]


def test_on_other_clocks_only_missing_runs_are_performed() -> None:
    assert chosen({ONE, TWO, FOUR, SIX}, exact=False) == [THREE, FIVE]


def test_a_guest_begins_behind_a_run_that_cost_its_guest() -> None:
    assert chosen({ONE, TWO, THREE}, {TWO}) == [THREE, FOUR, FIVE, SIX]


def test_a_run_that_cost_its_guest_is_left_out_where_an_earlier_one_is_missing() -> None:
    assert chosen({ONE, THREE}, {THREE}) == [ONE, TWO, FOUR, FIVE, SIX]


def test_a_batch_that_is_split_has_a_guest_for_each_missing_run() -> None:
    assert chosen({ONE, THREE}, split=True) == [TWO]
