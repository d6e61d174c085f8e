"""Jitter as netem's tables: moments and quantiles of what is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.channel.link import Jitter, Reordering
from owlt.emulator.channel.text import LARGEST_TABLE
from owlt.emulator.kernel.netem import ONE, jitter_table, offsets_ns, reordering_table


def mean_and_deviation(jitter: Jitter) -> tuple[float, float]:
    offsets = offsets_ns(jitter.amount_ns, jitter_table(jitter))
    mean = sum(offsets) / len(offsets)
    return mean, (sum((offset - mean) ** 2 for offset in offsets) / len(offsets)) ** 0.5


@pytest.mark.parametrize(
    ("distribution", "mean", "deviation"), [("uniform", 0, 3**-0.5), ("normal", 0, 1), ("pareto", -0.023, 0.737)]
)
def test_a_distribution_has_its_mean_and_deviation(distribution: Any, mean: float, deviation: float) -> None:
    drawn = mean_and_deviation(Jitter(amount_ns=10**6, distribution=distribution))

    assert drawn[0] / 10**6 == pytest.approx(mean, abs=0.005)
    assert drawn[1] / 10**6 == pytest.approx(deviation, abs=0.002)


def test_uniform_jitter_stays_within_its_amount_and_reaches_it() -> None:
    offsets = offsets_ns(10**6, jitter_table(Jitter(amount_ns=10**6, distribution="uniform")))

    assert -(10**6) <= min(offsets) < -999_000
    assert 999_000 < max(offsets) <= 10**6


def test_a_table_is_drawn_as_given() -> None:
    jitter = Jitter(amount_ns=1000, distribution="table", table=(3.0, -1.0, 0.5))

    assert offsets_ns(1000, jitter_table(jitter)) == [-1000, 500, 3000]


@given(st.floats(1 / LARGEST_TABLE, 1), st.integers(1, 2**31 - 1))
def test_a_reordered_share_is_late_by_exactly_what_was_asked(rate: float, by_ns: int) -> None:
    table = reordering_table(Reordering(rate=rate, by_ns=by_ns))
    offsets = offsets_ns(by_ns, table)

    assert set(offsets) <= {0, by_ns}
    assert len(table) <= LARGEST_TABLE
    assert offsets.count(by_ns) / len(offsets) == pytest.approx(rate, abs=1 / LARGEST_TABLE)


def test_a_value_of_one_is_netems_scale() -> None:
    assert jitter_table(Jitter(amount_ns=1, distribution="table", table=(1.0,))) == (ONE,)
