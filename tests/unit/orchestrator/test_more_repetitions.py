"""More repetitions of a stored plan, without the sweep file."""

from __future__ import annotations

import pytest

from owlt.orchestrator.errors import SweepMistake
from owlt.orchestrator.planning.plan import Plan, with_repetitions
from tests.unit.orchestrator.small_sweep import small_plan


@pytest.mark.parametrize("clock", ["exact", "skip"])
@pytest.mark.parametrize("baseline", [None, {"every": 4, "packet_error_rate": 0}])
def test_the_plan_is_that_of_a_sweep_file_with_this_number(clock: str, baseline: object) -> None:
    stored = Plan.model_validate_json(small_plan(clock, certify=True, baseline=baseline).model_dump_json())

    assert with_repetitions(stored, 7) == small_plan(clock, certify=True, baseline=baseline, repetitions=7)


def test_the_runs_that_were_there_keep_their_names_and_seeds() -> None:
    before, after = small_plan(), with_repetitions(small_plan(), 3)

    assert {(run.run_id, run.seed) for run in before.runs} < {(run.run_id, run.seed) for run in after.runs}


def test_fewer_repetitions_are_refused_with_the_number_now() -> None:
    with pytest.raises(SweepMistake, match="repetitions: got 1, expected 2, the number now, to 10000"):
        with_repetitions(small_plan(), 1)


def test_a_sweep_with_adaptive_repetitions_is_resumed_with_its_largest_number() -> None:
    plan = small_plan(repetitions={"at_least": 3, "at_most": 9, "until_interval_percent": 10})

    assert with_repetitions(plan, 9) == plan


def test_adaptive_repetitions_are_extended_in_the_sweep_file() -> None:
    rule = {"at_least": 3, "at_most": 9, "until_interval_percent": 10}

    with pytest.raises(SweepMistake, match="change 'at_most' in the sweep file"):
        with_repetitions(small_plan(repetitions=rule), 20)
