"""The time that a sweep still takes, from the times at which its latest runs were published."""

from __future__ import annotations

from collections.abc import Sequence

LATEST_RUNS = 200
"""Only so many runs decide: other work on the machine may come and go."""


def runs_per_s(started_s: float, published_s: Sequence[float], now_s: float) -> float | None:
    """How many runs are published in a second; None before the first, or if the clock was set back meanwhile.

    The runs of a sweep are in random order, so the latest ones represent those that follow.
    """
    if not published_s:
        return None
    counted = min(len(published_s), LATEST_RUNS)
    began_s = started_s if counted == len(published_s) else published_s[-counted - 1]
    elapsed_s = now_s - began_s
    return counted / elapsed_s if elapsed_s > 0 else None


def time_left_s(left: int, started_s: float | None, published_s: Sequence[float], now_s: float) -> float | None:
    """How long the runs that are left take at the latest pace; None if the pace is unknown."""
    if not left:
        return 0.0
    pace = None if started_s is None else runs_per_s(started_s, published_s, now_s)
    return None if pace is None else left / pace
