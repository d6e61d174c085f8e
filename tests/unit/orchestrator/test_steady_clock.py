"""Runs during which the clock is set."""

from __future__ import annotations

import time

import pytest

from owlt.orchestrator.steady_clock import ClockStep, step_doubts


def test_a_clock_that_goes_on_evenly_gives_no_doubt() -> None:
    assert ClockStep().doubts() == []


@pytest.mark.parametrize(("step_ns", "words"), [(3600 * 10**9, "+3600.000 s"), (-2_000_000, "-0.002 s")])
def test_a_step_of_the_clock_makes_a_run_suspect(step_ns: int, words: str) -> None:
    (doubt,) = step_doubts(step_ns)

    assert f"the clock was set by {words} during the run" in doubt


class Clocks:
    """Both clocks of a machine that twice does something else for 8 ms before a reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_ns = self._readings = 0
        self.set_ns = 0
        monkeypatch.setattr(time, "monotonic_ns", self._read)
        monkeypatch.setattr(time, "time_ns", lambda: self._read() + self.set_ns)

    def _read(self) -> int:
        self._readings += 1
        self._now_ns += 8_000_000 if self._readings in (4, 5) else 1000
        return self._now_ns


def test_an_interrupted_reading_of_the_clocks_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    Clocks(monkeypatch)

    assert ClockStep().doubts() == []


def test_a_step_is_seen_although_the_reading_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    step = ClockStep()
    clocks.set_ns = 5_000_000

    assert "+0.005 s" in step.doubts()[0]
