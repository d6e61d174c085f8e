"""Exact intervals, against published values, sums of exact terms, and what they promise."""

from __future__ import annotations

from math import comb, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.emulator.certification.intervals import at_most, beta_share, mean_run_interval, quantile_ranks, share_interval


def summed(hits: int, trials: int, probability: float) -> float:
    """The probability of that many hits or fewer, term by term."""
    return sum(comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(hits + 1))


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(10, 1000, 0.00480551, 0.01831324), (1, 20, 0.00126509, 0.24873276), (10, 20, 0.27195781, 0.72804219)],
)
def test_the_interval_of_a_share_is_that_of_clopper_and_pearson(
    hits: int, trials: int, low: float, high: float
) -> None:
    assert share_interval(hits, trials, 0.05) == pytest.approx((low, high), abs=1e-7)


def test_without_a_hit_the_interval_begins_at_none_and_ends_by_the_rule_of_three() -> None:
    low, high = share_interval(0, 1000, 0.1)

    assert low == 0
    assert high == pytest.approx(1 - 0.05 ** (1 / 1000))


def test_where_all_are_hits_the_interval_ends_at_all() -> None:
    low, high = share_interval(1000, 1000, 0.1)

    assert low == pytest.approx(0.05 ** (1 / 1000))
    assert high == 1


def test_without_a_trial_nothing_is_known() -> None:
    assert share_interval(0, 0, 0.05) == (0, 1)


def test_more_hits_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 to the number of trials, 2, got 3"):
        share_interval(3, 2, 0.05)


@given(st.integers(0, 60), st.integers(1, 60), st.floats(1e-6, 0.5))
def test_at_the_ends_of_the_interval_what_was_seen_is_just_as_unlikely_as_alpha_says(
    hits: int, others: int, alpha: float
) -> None:
    trials = hits + others
    low, high = share_interval(hits, trials, alpha)

    assert summed(hits, trials, high) == pytest.approx(alpha / 2, rel=1e-4)
    if hits:
        assert 1 - summed(hits - 1, trials, low) == pytest.approx(alpha / 2, rel=1e-4, abs=1e-13)


@given(st.integers(-1, 50), st.integers(1, 50), st.floats(0.001, 0.999))
def test_a_binomial_tail_is_the_sum_of_its_terms(hits: int, trials: int, probability: float) -> None:
    wanted = summed(min(hits, trials), trials, probability)

    assert at_most(hits, trials, probability) == pytest.approx(wanted, abs=1e-12)


@given(st.floats(0, 1), st.floats(0.5, 1e6), st.floats(0.5, 1e6))
def test_the_beta_function_is_a_probability_and_mirrors_itself(x: float, a: float, b: float) -> None:
    rest = 1 - x
    x = 1 - rest  # so that x and the rest are together 1 in floating point too
    share = beta_share(x, a, b)

    assert 0 <= share <= 1
    assert share + beta_share(rest, b, a) == pytest.approx(1, abs=1e-6)


def test_billions_of_trials_are_no_matter() -> None:
    """Few of very many are Poisson: 20 of them, 0.95, is 12.217 to 30.888 (Garwood, 1936)."""
    low, high = share_interval(20, 4e9, 0.05)

    assert (low * 4e9, high * 4e9) == pytest.approx((12.217, 30.888), abs=1e-3)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 60), st.floats(1e-5, 0.4))
def test_at_the_ends_of_the_interval_of_a_run_length_such_a_total_is_as_unlikely_as_alpha_says(
    runs: int, more: int, alpha: float
) -> None:
    total = runs + more
    shortest, longest = mean_run_interval(runs, total, alpha)

    at_most_total = 1 - summed(runs - 1, total, 1 / longest)
    assert at_most_total == pytest.approx(alpha / 2, rel=1e-4, abs=1e-12)
    if more:
        at_least_total = summed(runs - 1, total - 1, 1 / shortest)
        assert at_least_total == pytest.approx(alpha / 2, rel=1e-4, abs=1e-12)


def test_runs_of_one_may_all_be_of_one() -> None:
    assert mean_run_interval(10, 10, 0.05)[0] == 1


def test_without_a_run_its_length_is_unknown() -> None:
    assert mean_run_interval(0, 0, 0.05) == (1, inf)


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    """A probability of 0.979 (Conover, Practical Nonparametric Statistics)."""
    assert quantile_ranks(10, 0.5, 0.05) == (2, 9)


def test_a_high_quantile_of_few_values_may_lie_above_them_all() -> None:
    assert quantile_ranks(100, 0.99, 0.05)[1] == 101


@given(st.integers(1, 80), st.floats(0, 1), st.floats(1e-4, 0.4))
def test_the_ranks_enclose_the_quantile_as_often_as_promised(count: int, quantile: float, alpha: float) -> None:
    """Rank r lies below the quantile when at least r of the values do."""
    low, high = quantile_ranks(count, quantile, alpha)

    outside = at_most(low - 1, count, quantile) + 1 - at_most(high - 1, count, quantile)
    assert outside <= alpha + 1e-9
