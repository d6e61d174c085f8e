"""What a number of repetitions can decide, compared with simulated sweeps."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from owlt.reports.comparison.choice import DEFAULT_RULE, Contestant, ratios
from owlt.reports.comparison.stopping import DETECTION, detectable_ratio, repetitions_for, spread

SPREAD = 0.05


def share_excluded(ratio: float, n: int, implementations: int) -> float:
    """The share of 1,000 simulated pairs with this ratio whose worse one is excluded among so many implementations."""
    random = np.random.default_rng(1)
    level = DEFAULT_RULE.level(implementations)
    draws = np.exp(SPREAD * random.standard_normal((1000, 2, n)))
    high = [ratios(Contestant(one), Contestant(other * ratio), level)[0].high for one, other in draws]
    return float(np.mean(np.array(high) < 1 - DEFAULT_RULE.margin))


@pytest.mark.parametrize(("n", "implementations"), [(6, 2), (10, 6), (10, 3), (30, 4), (60, 4)])
def test_the_detectable_ratio_is_shown_in_nine_of_ten_sweeps_and_its_root_in_far_fewer(
    n: int, implementations: int
) -> None:
    ratio = detectable_ratio(SPREAD, n, implementations, DEFAULT_RULE)

    assert ratio is not None
    assert share_excluded(ratio, n, implementations) == pytest.approx(DETECTION, abs=0.04)
    assert share_excluded(ratio**0.5, n, implementations) < 0.5


@pytest.mark.parametrize("implementations", [2, 4, 6])
def test_fewer_repetitions_than_the_least_detect_nothing(implementations: int) -> None:
    least = DEFAULT_RULE.least_repetitions(implementations)

    assert detectable_ratio(SPREAD, least - 1, implementations, DEFAULT_RULE) is None
    assert detectable_ratio(SPREAD, least, implementations, DEFAULT_RULE) is not None


def test_identical_runs_detect_any_difference_beyond_the_margin() -> None:
    assert detectable_ratio(0.0, 7, 3, DEFAULT_RULE) == 1 / 0.99


@pytest.mark.parametrize("ratio", [1.15, 1.05, 1.02])
def test_the_repetitions_for_a_ratio_detect_it_and_a_tenth_fewer_do_not(ratio: float) -> None:
    number = repetitions_for(ratio, SPREAD, 4, DEFAULT_RULE)

    assert number is not None
    assert (
        (detectable_ratio(SPREAD, number, 4, DEFAULT_RULE) or 9)
        <= ratio
        < (detectable_ratio(SPREAD, int(0.85 * number), 4, DEFAULT_RULE) or 9)
    )


def test_no_number_is_stated_for_a_ratio_that_needs_too_many_repetitions() -> None:
    assert repetitions_for(1.001, SPREAD, 4, DEFAULT_RULE) is None


def test_the_spread_is_that_of_the_logarithms() -> None:
    assert spread([exp(-0.1), 1.0, exp(0.1)]) == pytest.approx(0.1)
    assert spread([5.0, 5.0, 5.0]) == 0


@pytest.mark.parametrize("values", [(), (1.0, 2.0), (0.0, 1.0, 2.0)])
def test_too_few_values_and_zero_have_no_spread(values: tuple[float, ...]) -> None:
    assert spread(values) is None
