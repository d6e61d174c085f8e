"""The remaining time of a sweep."""

from __future__ import annotations

import pytest

from owlt.orchestrator.sweep.state_reader import LATEST_RUNS, time_left_s


def test_the_pace_is_that_of_the_runs_since_the_start() -> None:
    assert time_left_s(30, 100.0, [110.0, 120.0], 120.0) == pytest.approx(300.0)


def test_time_without_a_new_run_counts() -> None:
    assert time_left_s(30, 100.0, [110.0, 120.0], 140.0) == pytest.approx(600.0)


def test_only_the_latest_runs_count() -> None:
    slow = [float(second) for second in range(100, 20_100, 100)]
    fast = [slow[-1] + second for second in range(1, LATEST_RUNS + 1)]

    assert time_left_s(60, 0.0, [*slow, *fast], fast[-1]) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("started_s", "published_s", "now_s"),
    [(100.0, [], 120.0), (None, [110.0], 120.0), (100.0, [110.0], 50.0)],
    ids=["before the first run", "of an older version", "the clock was set back"],
)
def test_without_a_pace_the_time_is_unknown(started_s: float | None, published_s: list[float], now_s: float) -> None:
    assert time_left_s(30, started_s, published_s, now_s) is None


def test_nothing_left_takes_no_time() -> None:
    assert time_left_s(0, None, [], 0.0) == 0.0
