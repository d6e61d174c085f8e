"""Runs during which the clock is set."""

from __future__ import annotations

import pytest

from orchestrator.steady_clock import ClockStep, step_doubts


def test_a_clock_that_goes_on_evenly_gives_no_doubt() -> None:
    assert ClockStep().doubts() == []


@pytest.mark.parametrize(("step_ns", "words"), [(3600 * 10**9, "+3600.000 s"), (-2_000_000, "-0.002 s")])
def test_a_step_of_the_clock_makes_a_run_suspect(step_ns: int, words: str) -> None:
    (doubt,) = step_doubts(step_ns)

    assert f"the clock was set by {words} during the run" in doubt
