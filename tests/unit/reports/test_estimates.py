"""Estimates held against textbooks, against scipy, and at the edges: one value, equal values, no value."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from owlt.reports.comparison.estimates import (
    CONFIDENCE,
    LEAST_BOOTSTRAP,
    LEAST_EXACT,
    Level,
    estimate,
    levels,
    median_interval,
    share,
)

VALUES = [float(value) for value in (3, 1, 4, 1.5, 9, 2.6, 5.3, 5.8, 9.7, 9.3)]


def test_the_interval_of_ten_values_is_between_the_second_and_the_ninth() -> None:
    interval = median_interval(VALUES)

    assert interval is not None
    assert (interval.low, interval.high) == (sorted(VALUES)[1], sorted(VALUES)[8])
    assert interval.confidence == pytest.approx(0.9785, abs=1e-4)  # the tables of order statistics
    assert interval.method == "order statistics"


@pytest.mark.parametrize("n", range(LEAST_EXACT, LEAST_BOOTSTRAP))
def test_the_interval_between_order_statistics_is_that_of_scipys_quantile_test(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    interval = median_interval(values.tolist())
    expected = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)

    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("n", "confidence"), [(2, 0.5), (3, 0.75), (5, 0.9375)])
def test_the_interval_of_few_values_is_their_range_with_its_lower_confidence(n: int, confidence: float) -> None:
    interval = median_interval(VALUES[:n])

    assert interval is not None
    assert (interval.low, interval.high) == (min(VALUES[:n]), max(VALUES[:n]))
    assert (interval.confidence, interval.method) == (confidence, "range")


def test_the_interval_of_many_values_is_scipys_bca_and_always_the_same() -> None:
    values = np.random.default_rng(1).exponential(size=40).tolist()
    interval = median_interval(values)
    expected = stats.bootstrap((values,), np.median, n_resamples=4999, rng=np.random.default_rng(2012))

    assert interval is not None
    assert (interval.low, interval.high) == tuple(expected.confidence_interval)
    assert interval.method == "BCa"
    assert median_interval(values) == interval


@pytest.mark.parametrize("n", [2, 6, 30])
def test_equal_values_have_an_interval_of_that_value(n: int) -> None:
    interval = median_interval([7.0] * n)

    assert interval is not None
    assert (interval.low, interval.high) == (7, 7)


@pytest.mark.parametrize("n", [6, 10, 15])
def test_the_interval_contains_the_median_as_often_as_it_states(n: int) -> None:
    samples = np.random.default_rng(n).normal(size=(4000, n))
    intervals = [interval for row in samples if (interval := median_interval(row.tolist()))]
    hits = sum(interval.low <= 0 <= interval.high for interval in intervals)

    # five standard deviations of the number of hits
    stated = intervals[0].confidence
    assert abs(hits / 4000 - stated) < 5 * sqrt(stated * (1 - stated) / 4000)


def test_one_value_has_neither_an_interval_nor_a_standard_error() -> None:
    numbers = estimate([3.0])

    assert numbers is not None
    assert (numbers.n, numbers.median, numbers.mean, numbers.interval, numbers.sem) == (1, 3, 3, None, None)


def test_no_value_has_no_estimate() -> None:
    assert estimate([]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=15))
def test_mean_and_standard_error_are_scipys(values: list[float]) -> None:
    numbers = estimate(values)

    assert numbers is not None
    assert numbers.mean == pytest.approx(np.mean(values))
    assert numbers.sem == pytest.approx(stats.sem(values), abs=1e-9)


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_of_a_share_is_that_of_the_textbook(count: int, n: int, low: float, high: float) -> None:
    """Newcombe 1998, table I: the score interval without correction for continuity."""
    of_runs = share(count, n)

    assert of_runs is not None
    assert (of_runs.low, of_runs.high) == pytest.approx((low, high), abs=5e-5)
    assert of_runs.value == count / n


def test_the_share_of_failures_is_known_if_all_runs_failed_and_unknown_without_runs() -> None:
    all_failed = share(3, 3)

    assert all_failed is not None
    assert (all_failed.value, all_failed.high) == (1, 1)
    assert 0 < all_failed.low < 1
    assert share(0, 0) is None


def test_the_levels_of_a_sample_are_found() -> None:
    assert levels([41, 12.1, 40, 12, 12.2, 40.5, 90]) == (Level(3, 12, 12.2), Level(3, 40, 41), Level(1, 90, 90))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1, 2, 3, 4, 5, 6], "evenly spread"),
        ([1, 1, 9, 9], "of few runs, levels are too often chance"),
        ([1, 1, 1, 1.04, 1.04, 1.04], "a gap that does not matter"),
        ([5] * 6, "all equal"),
        ([1, 4, 4, 9, 9, 9.5, 11, 12, 14], "gaps that are not much wider than the spread of a level"),
        ([1, 2, 3, 4, 5, 6, 6], "more than five"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_levels_are_found_where_gaps_are_chance_or_do_not_matter(values: list[float], why: str) -> None:
    assert levels(values) == ()


def test_samples_of_one_normal_distribution_are_seldom_taken_for_levels() -> None:
    draws = np.random.default_rng(1).normal(10, 2, (2000, 10))

    assert sum(levels(list(draw)) != () for draw in draws) < 0.02 * len(draws)
