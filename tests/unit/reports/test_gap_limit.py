"""The simulation of a receiver that keeps only so many gaps."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from tests.validation.gap_limit import GAPS, PACKETS, transfer


def test_without_losses_each_packet_is_sent_once() -> None:
    assert transfer(100, 0, 5, np.random.default_rng(1)) == (100, 1)


def test_with_room_for_all_gaps_only_what_was_lost_is_sent_again() -> None:
    """N / (1 - p) packets, in 1,000 transfers."""
    chance = np.random.default_rng(1)
    sent = [transfer(100, 0.1, 100, chance).sent for _ in range(1000)]

    assert fmean(sent) == pytest.approx(100 / 0.9, rel=0.01)


def test_what_follows_the_last_gap_is_sent_again() -> None:
    """Of packets 1, 3 and 5 lost, the limit of two gaps has room for the first two: 5 to 9 are requested again."""

    class Losing(np.random.Generator):
        def random(self, size: int) -> np.ndarray:  # type: ignore[override]
            lost = np.isin(np.arange(size), (1, 3, 5)) if size == 10 else np.zeros(size, bool)
            return np.where(lost, 0.0, 1.0)

    assert transfer(10, 0.5, 2, Losing(np.random.PCG64())) == (10 + 2 + 5, 2)


def test_the_papers_limit_gives_the_papers_numbers() -> None:
    """Nearly 20,000 packets more at 0.01, no drop at 0.001, and a goodput of a few percent at 0.1."""
    chance = np.random.default_rng(2012)
    few, some, many = ([transfer(PACKETS, loss, GAPS, chance) for _ in range(30)] for loss in (0.001, 0.01, 0.1))

    assert fmean(run.goodput_ratio(PACKETS) for run in few) > 0.99
    assert fmean(run.sent - PACKETS for run in some) == pytest.approx(20_000, rel=0.1)
    assert 0.03 < fmean(run.goodput_ratio(PACKETS) for run in many) < 0.05


@pytest.mark.parametrize(("most_gaps", "loss"), [(0, 0.1), (5, 1.0)])
def test_a_transfer_that_never_ends_is_refused(most_gaps: int, loss: float) -> None:
    with pytest.raises(ValueError, match="expected at least 1, and less than 1"):
        transfer(10, loss, most_gaps, np.random.default_rng(1))
