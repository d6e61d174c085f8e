"""Tests of differences held against textbooks, against scipy and R, and at the edges."""

from __future__ import annotations

from math import comb, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from owlt.reports.comparison.differences import (
    MOST_REPETITIONS,
    Pair,
    compare,
    holm,
    kruskal_wallis,
    least_repetitions,
    mann_whitney,
    ratio,
)

PERMEABILITY = (
    [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46],
    [1.15, 0.88, 0.90, 0.74, 1.21],
)
"""Hollander and Wolfe 1973, page 69: W = 35, and 0.1272 for one side, as in R's wilcox.test."""
CLEARANCE = ([2.9, 3.0, 2.5, 2.6, 3.2], [3.8, 2.7, 4.0, 2.4], [2.8, 3.4, 3.7, 2.2, 2.0])
"""Hollander and Wolfe 1973, page 116: H = 0.7714, p = 0.68, as in R's kruskal.test."""


def pair(a12: float | None, p_holm: float | None = None) -> Pair:
    return Pair("one", "other", 10, 10, p_holm, p_holm, a12)


def test_the_exact_test_of_two_samples_is_that_of_the_textbook() -> None:
    (p,) = mann_whitney([PERMEABILITY])

    assert p == pytest.approx(2 * 0.1272, abs=1e-4)


def test_the_test_of_several_samples_is_that_of_the_textbook() -> None:
    assert kruskal_wallis([CLEARANCE]) == [pytest.approx(0.68, abs=5e-4)]


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 9), min_size=1, max_size=9)] * 2), min_size=1, max_size=5))
def test_many_pairs_at_once_have_the_p_values_of_each_alone(pairs: list[tuple[list[int], list[int]]]) -> None:
    for (one, other), p in zip(pairs, mann_whitney(pairs), strict=True):
        if len({*one, *other}) == 1:
            assert p == 1
        else:
            tied = len({*one, *other}) < len(one) + len(other)
            expected = stats.mannwhitneyu(one, other, method="asymptotic" if tied else "exact").pvalue
            assert p == pytest.approx(min(1, max(expected, 2 / comb(len(one) + len(other), len(one)))))


def test_three_runs_each_are_never_significant_even_if_values_are_tied() -> None:
    one, other = [1.0] * 3, [2.0] * 3
    assert stats.mannwhitneyu(one, other, method="asymptotic").pvalue < 0.05

    assert mann_whitney([(one, other)]) == [pytest.approx(0.1)]


def test_an_empty_sample_has_no_p_value() -> None:
    assert mann_whitney([([], [1.0, 2.0])]) == [None]
    assert kruskal_wallis([[[], [1.0]]]) == [None]


def test_equal_values_do_not_differ() -> None:
    (comparison,) = compare([{"ltp": [2.0] * 5, "cfdp": [2.0] * 5}])

    assert (comparison.p, comparison.pairs[0].p, comparison.pairs[0].a12) == (1, 1, 0.5)
    assert not comparison.pairs[0].differs


def test_failed_runs_count_as_the_worst_result() -> None:
    (comparison,) = compare([{"good": [1.0, 1.1, 1.2, 1.3, 1.4], "fails": [9.0, -inf, -inf, -inf, -inf]}])

    assert comparison.pairs[0].a12 == pytest.approx(0.8)


def test_two_that_failed_in_all_runs_do_not_differ() -> None:
    (comparison,) = compare([{"one": [-inf] * 3, "other": [-inf] * 4}])

    assert (comparison.p, comparison.pairs[0].p, comparison.pairs[0].differs) == (1, 1, False)


def test_single_runs_show_nothing() -> None:
    (comparison,) = compare([{"one": [1.0], "other": [2.0]}])

    assert comparison.pairs[0].p == 1
    assert not comparison.pairs[0].differs


def test_clearly_different_samples_of_unequal_size_differ() -> None:
    (comparison,) = compare([{"fast": [float(10 + each) for each in range(10)], "slow": [1.0, 2, 3, 4, 5]}])

    assert comparison.pairs[0].differs
    assert comparison.pairs[0].a12 == 1


def test_a_pair_can_be_seen_from_the_other_side() -> None:
    (comparison,) = compare([{"fast": [5.0, 6, 7], "slow": [1.0, 2]}])
    turned = comparison.pair("slow", "fast")

    assert turned is not None
    assert (turned.one, turned.n_one, turned.n_other, turned.a12) == ("slow", 2, 3, 0)


def test_holms_correction_is_that_of_the_textbook() -> None:
    """Holm 1979 as in R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_a_missing_p_value_does_not_count_in_the_correction() -> None:
    assert holm([0.02, None, 0.01]) == [pytest.approx(0.02), None, pytest.approx(0.02)]


@pytest.mark.parametrize(("pairs", "least"), [(1, 4), (3, 5), (6, 5), (15, 6)])
def test_so_few_runs_cannot_be_significant(pairs: int, least: int) -> None:
    assert least_repetitions(pairs) == least
    assert 2 / comb(2 * least, least) <= 0.05 / pairs < 2 / comb(2 * least - 2, least - 1)


def test_the_repetitions_needed_show_the_difference_as_often_as_intended() -> None:
    shift = 1.0  # of normal values: A12 = Phi(1 / sqrt(2))
    needed = pair(float(stats.norm.cdf(shift / np.sqrt(2)))).repetitions_needed(1)
    assert needed is not None
    random = np.random.default_rng(5)
    values = random.normal(size=(2, 2000, needed))
    shown = stats.mannwhitneyu(values[0] + shift, values[1], axis=1).pvalue <= 0.05

    assert 0.75 < shown.mean() < 0.9


def test_no_number_of_repetitions_shows_what_is_no_difference() -> None:
    assert pair(0.5).repetitions_needed(1) is None
    assert pair(None).repetitions_needed(1) is None
    assert pair(0.5001).repetitions_needed(1) is None
    assert MOST_REPETITIONS >= 100


def test_samples_apart_need_only_as_many_runs_as_can_be_significant() -> None:
    assert pair(1.0).repetitions_needed(6) == least_repetitions(6)


def test_a_ratio_is_the_median_of_all_ratios_with_the_interval_of_the_test() -> None:
    one, other = ([2.2, 3.1, 4.7, 5.2, 6.9, 8.1], [1.0, 1.3, 1.9, 2.5, 3.3])
    size = ratio(one, other)

    assert size is not None
    assert size.value == pytest.approx(np.median([value / by for value in one for by in other]))
    inside, outside = other * np.array(size.low * 1.0001), other * np.array(size.low * 0.9999)
    assert stats.mannwhitneyu(one, inside, method="exact").pvalue > 0.05
    assert stats.mannwhitneyu(one, outside, method="exact").pvalue <= 0.05
    assert size.confidence >= 0.95


def test_the_ratio_of_three_runs_each_has_the_confidence_that_three_runs_allow() -> None:
    size = ratio([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])

    assert size is not None
    assert size.confidence == pytest.approx(0.9)
    assert (size.low, size.high) == (1 / 6, 3 / 4)


def test_there_is_no_ratio_to_nothing() -> None:
    assert ratio([], [1.0]) is None
    assert ratio([1.0, 2.0], [0.0, 3.0]) is None
