"""A statement about the instrument, and what the runs say about it."""

from __future__ import annotations

from dataclasses import dataclass

from owlt.reports.validation.equivalence import Verdict


@dataclass(frozen=True)
class Statement:
    """What was to be shown, the verdict, and the numbers that led to it."""

    id: str
    states: str
    verdict: Verdict
    numbers: str


def percent_text(ratio: float) -> str:
    """A ratio as a deviation: +0.42 %."""
    return f"{100 * (ratio - 1):+.2f} %"


def interval_text(low: float, high: float) -> str:
    """An interval of ratios as deviations: -0.10 to +0.42 %."""
    return f"{100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %"
