"""Verdicts on claims: from values in repetitions and shares of runs, with the error that chance leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from owlt.reports.reproduction.claim_verdicts import (
    LEAST_DECIDING,
    MOST_ERROR,
    Count,
    Judged,
    Value,
    family_of,
    judge_cases,
)
from owlt.reports.reproduction.claims import Claim


def claim(**changes: Any) -> Claim:
    values = {"id": "one", "kind": "measurement", "states": "S", "place": "1", "paper": 10, "ours": "SELECT 1"}
    return Claim.model_validate(values | {"accept": {"within": 0.1}} | changes)


def judged(values: Sequence[Value], **changes: Any) -> Judged:
    return judge_cases(claim(**changes), {"": values})


AROUND = (0.02, -0.02, 0.01, -0.01, 0.03, -0.03)


@pytest.mark.parametrize(
    ("accept", "middle", "verdict"),
    [
        ({"within": 0.1}, 10.5, "confirmed"),
        ({"within": 0.1}, 9.5, "confirmed"),
        ({"within": 0.1}, 11.5, "not confirmed"),
        ({"within": 0.1}, 8.5, "not confirmed"),
        ({"within": 0.1}, 11.0, "undecided"),
        ({"least": 5}, 5.5, "confirmed"),
        ({"least": 5}, 4.5, "not confirmed"),
        ({"most": 5}, 4.5, "confirmed"),
        ({"most": 5}, 5.5, "not confirmed"),
        ({"least": 1, "most": 5}, 3.0, "confirmed"),
        ({"least": 1, "most": 5}, 5.01, "undecided"),
    ],
)
def test_the_whole_interval_decides(accept: dict[str, float], middle: float, verdict: str) -> None:
    assert judged([middle + each for each in AROUND], accept=accept).verdict == verdict


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fewer_than_five_repetitions_decide_nothing(n: int) -> None:
    assert judged([10.0 + 0.001 * each for each in range(n)]).verdict == "undecided"


def test_five_repetitions_on_one_side_decide() -> None:
    verdict = judged([10.0, 10.1, 10.2, 9.9, 9.8])

    assert verdict.verdict == "confirmed"
    assert verdict.error == pytest.approx(1 / 32)


def test_a_single_value_that_nothing_random_decides_is_a_point() -> None:
    verdict = judged([10.0], determined=True)

    assert (verdict.verdict, verdict.error) == ("confirmed", 0)


def test_values_that_differ_are_no_point_even_if_nothing_random_should_decide_them() -> None:
    assert judged([10.0, 10.5], determined=True).verdict == "undecided"


def test_all_cases_have_to_be_inside() -> None:
    inside, outside = [10 + each for each in AROUND], [12 + each for each in AROUND]

    assert judge_cases(claim(), {"a": inside, "b": inside}).verdict == "confirmed"
    assert judge_cases(claim(), {"a": inside, "b": outside}).verdict == "not confirmed"
    assert judge_cases(claim(), {"a": inside, "b": [11 + each for each in AROUND]}).verdict == "undecided"


def test_one_case_of_many_outside_has_to_be_so_with_the_error_of_all() -> None:
    inside, outside = [10.0 + each for each in AROUND[:5]], [12.0 + each for each in AROUND[:5]]
    verdict = judge_cases(claim(), {"outside": outside, **{str(number): inside for number in range(9)}})

    assert verdict.verdict == "undecided"
    assert verdict.runs_needed == 8  # 10 / 2^8 is below 0.05


@pytest.mark.parametrize(
    ("count", "bounds", "verdict"),
    [
        (Count(0, 50), {"most": 0.5}, "confirmed"),
        (Count(50, 50), {"most": 0.5}, "not confirmed"),
        (Count(26, 50), {"most": 0.5}, "undecided"),
        (Count(50, 50), {"least": 0.99}, "undecided"),
        (Count(500, 500), {"least": 0.99}, "confirmed"),
    ],
)
def test_a_share_has_the_exact_binomial_interval(count: Count, bounds: dict[str, float], verdict: str) -> None:
    assert judged([count], accept=bounds).verdict == verdict


@pytest.mark.parametrize(
    ("count", "bounds", "same"),
    [
        (Count(50, 50), {"least": 0.9, "most": 1}, {"least": 0.9}),
        (Count(0, 200), {"least": 0, "most": 0.05}, {"most": 0.05}),
        (Count(40, 200), {"least": 0, "most": 0.05}, {"most": 0.05}),
        (Count(65, 100), {"least": 0.2, "most": 0.5}, {"most": 0.5}),
    ],
)
def test_the_error_of_a_share_is_that_of_the_nearest_bound_that_it_can_cross(
    count: Count, bounds: dict[str, float], same: dict[str, float]
) -> None:
    error = judged([count], accept=bounds).error

    assert 0 < error < MOST_ERROR
    assert error == pytest.approx(judged([count], accept=same).error)


def test_shares_of_repetitions_are_added() -> None:
    verdict = judged([Count(9, 10), Count(10, 10)], accept={"least": 0.1})

    assert verdict.of is not None
    assert (verdict.of.value, verdict.of.n) == (0.95, 20)


def test_the_number_of_runs_that_would_decide_grows_with_the_spread() -> None:
    few, many = (judged([10.9 + width * each for each in AROUND]).runs_needed or 0 for width in (8.0, 16.0))

    assert LEAST_DECIDING <= few < many


def test_the_number_of_repetitions_that_would_decide_is_above_that_performed() -> None:
    """Though the spread of five values of which one is just outside would need fewer."""
    assert (judged([10.0, 10.1, 10.2, 9.9, 11.01]).runs_needed or 0) > 5


def test_repetitions_that_are_outside_stay_outside_when_more_are_performed() -> None:
    """The interval leaves out one value of nine, and none of eight."""
    values = [10.0, 10.1, 10.2, 9.9, 11.01]

    assert judged(values).runs_needed == 9
    assert judged([*values, 10.0, 10.1, 10.2]).verdict == "undecided"
    assert judged([*values, 10.0, 10.1, 10.2, 9.9]).verdict == "confirmed"


def test_one_case_of_many_outside_takes_more_repetitions_than_performed() -> None:
    """One of nine is inside; four cases need only seven of which all are outside."""
    outside = [12.0 + 0.01 * each for each in range(8)]
    inside = [10.0 + 0.01 * each for each in range(9)]
    verdict = judge_cases(claim(), {"outside": [*outside, 10.0], **{str(case): inside for case in range(3)}})

    assert (verdict.verdict, verdict.runs_needed) == ("undecided", 10)


def test_a_share_needs_repetitions_of_as_many_runs_as_before() -> None:
    """About 94 of 100 runs succeed; to tell that from 0.9 takes more runs, in repetitions of 50."""
    needed = judged([Count(47, 50), Count(47, 50)], accept={"least": 0.9}).runs_needed or 0

    assert 2 < needed < 10


def test_an_undecided_case_outside_takes_the_repetitions_of_all_cases() -> None:
    cases = {str(case): [10.0 + each for each in AROUND] for case in range(9)}
    verdict = judge_cases(claim(), {"outside": [11.2, 11.3, 11.2, 11.3, 11.2, 10.99], **cases})

    assert verdict.verdict == "undecided"
    assert (verdict.runs_needed or 0) >= 8  # 10 / 2^8 is below 0.05


def test_the_number_of_runs_that_would_decide_does_decide() -> None:
    """In nearly all of 200 experiments with that number of runs."""
    draw = np.random.default_rng(34)
    pilot = list(10.8 + 0.5 * draw.standard_normal(10))
    needed = judged(pilot, accept={"most": 11}).runs_needed or LEAST_DECIDING
    verdicts = [
        judged(list(10.8 + 0.5 * draw.standard_normal(2 * needed)), accept={"most": 11}).verdict for _ in range(200)
    ]

    assert verdicts.count("confirmed") > 100
    assert verdicts.count("not confirmed") <= 10


def test_a_value_on_its_bound_is_decided_wrongly_no_more_often_than_stated() -> None:
    """Of a median on the bound of the claim, on either side with the probability 1/2."""
    draw = np.random.default_rng(34)
    verdicts = [judged(list(draw.standard_normal(10)), accept={"most": 0}).verdict for _ in range(1000)]

    assert verdicts.count("confirmed") / 1000 <= MOST_ERROR


def test_the_error_of_a_family_is_the_sum_and_points_have_none() -> None:
    five = [10.0, 10.1, 10.2, 9.9, 9.8]
    family = family_of([judged(five), judged(five), judged([10.0], determined=True)])

    assert family.verdicts == 2
    assert family.error == pytest.approx(2 / 32)
    assert family.hold == ()  # 2 x 1/32 is above 0.05


def test_verdicts_of_enough_repetitions_hold_together() -> None:
    family = family_of([judged([10 + 0.01 * each for each in range(10)])] * 20)

    assert len(family.hold) == 20
    assert family.least_needed is None


def test_a_family_states_the_repetitions_without_which_no_verdict_can_be_significant() -> None:
    family = family_of([judged([10.0, 10.1, 10.2, 9.9, 9.8])] * 9)

    assert (family.most_performed, family.least_needed) == (5, 8)  # 9 / 2^8 is below 0.05, 9 / 2^7 is not


def test_verdicts_that_hold_do_not_count_for_the_repetitions_of_the_others() -> None:
    twenty = judged([10 + 0.01 * each for each in range(20)], id="twenty")
    family = family_of([twenty, *[judged([10.0, 10.1, 10.2, 9.9, 9.8])] * 3])

    assert family.hold == ("twenty",)
    assert (family.most_performed, family.least_needed) == (5, 6)  # of the other three: 3 / 2^6 is below 0.05
