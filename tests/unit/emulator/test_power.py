"""Which wrong values a sample catches, against sums of exact terms; and samples that are as large as it takes."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from owlt.emulator.certification.bursts import BurstLoss, accepted_counts, caught_counts, scaled
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import (
    FACTOR,
    POWER,
    accepted_hits,
    accepted_totals,
    caught_run_length,
    caught_share,
    detectable_quantile,
    detectable_run_length,
    detectable_share,
    mean_run_interval,
    runs_for_length,
    share_interval,
    trials_for_share,
    wrong_share,
)
from owlt.emulator.channel.link import Jitter
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from tests.accuracy.simulated import certified

ALPHA = 0.001 / 40
MOST = 10**6


def outside(trials: int, asked: float, actual: float, alpha: float) -> float:
    """The probability that the interval does not hold what was asked, hit by hit."""
    missed = 0.0
    for hits in range(trials + 1):
        low, high = share_interval(hits, trials, alpha)
        if not low <= asked <= high:
            missed += comb(trials, hits) * actual**hits * (1 - actual) ** (trials - hits)
    return missed


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 40), st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.sampled_from([0.2, 0.01]))
@example(trials=1, asked=0.9375, actual=0.5, alpha=0.2)  # no hit is too few, although none is the usual number
def test_the_probability_to_catch_a_share_is_the_sum_over_the_hits_whose_interval_does_not_hold_it(
    trials: int, asked: float, actual: float, alpha: float
) -> None:
    assert caught_share(trials, asked, actual, alpha) == pytest.approx(outside(trials, asked, actual, alpha), abs=1e-9)


@pytest.mark.parametrize("asked", [0.0, 0.001, 0.01, 0.3, 0.9, 1.0])
def test_a_sample_that_is_enough_catches_what_is_wrong_by_the_factor_and_half_of_it_does_not(asked: float) -> None:
    trials = trials_for_share(asked, wrong_share(asked), ALPHA, MOST)
    wrong = [share for share in (wrong_share(asked).low, wrong_share(asked).high) if share is not None]

    assert all(caught_share(trials, asked, share, ALPHA) >= POWER for share in wrong)
    assert any(caught_share(trials // 2, asked, share, ALPHA) < POWER for share in wrong)


@pytest.mark.parametrize("asked", [0.001, 0.01, 0.3])
def test_a_right_channel_fails_no_more_often_than_alpha_says(asked: float) -> None:
    trials = trials_for_share(asked, wrong_share(asked), ALPHA, MOST)

    assert caught_share(trials, asked, asked, ALPHA) <= ALPHA


def test_a_thousand_packets_do_not_catch_that_none_is_lost_where_one_in_a_hundred_was_asked_for() -> None:
    """The sample that certificates were made of; the control is the sample that they are made of now."""
    assert caught_share(1000, 0.01, 0.0, ALPHA) == 0
    assert caught_share(trials_for_share(0.01, wrong_share(0.01), ALPHA, MOST), 0.01, 0.0, ALPHA) == 1


@pytest.mark.parametrize(("trials", "asked"), [(32_647, 0.01), (1000, 0.01), (1000, 0.0), (50, 0.9)])
def test_what_is_detectable_is_caught_just_so(trials: int, asked: float) -> None:
    found = detectable_share(trials, asked, ALPHA)

    for share, nearer in ((found.low, 1.01), (found.high, 0.99)):
        if share is not None:
            assert caught_share(trials, asked, share, ALPHA) == pytest.approx(POWER, abs=1e-6)
            assert caught_share(trials, asked, share * nearer, ALPHA) < POWER


@pytest.mark.parametrize("length", [1.2, 2.0, 4.0, 20.0])
def test_as_many_bursts_as_are_enough_catch_a_mean_length_that_is_wrong_by_the_factor(length: float) -> None:
    runs = runs_for_length(length, ALPHA, MOST)
    wrong = [length * FACTOR, *([length / FACTOR] if length >= FACTOR else [])]

    assert all(caught_run_length(runs, length, each, ALPHA) >= POWER for each in wrong)
    assert any(caught_run_length(runs // 2, length, each, ALPHA) < POWER for each in wrong)
    assert caught_run_length(runs, length, length, ALPHA) <= ALPHA


@pytest.mark.parametrize(("runs", "length"), [(1, 1.5), (20, 3.0), (200, 4.0)])
def test_totals_are_accepted_that_leave_the_length_in_the_interval(runs: int, length: float) -> None:
    least, most = accepted_totals(runs, length, ALPHA)

    for total, held in ((least - 1, False), (least, True), (most, True), (most + 1, False)):
        if total >= runs:
            low, high = mean_run_interval(runs, total, ALPHA)
            assert (low <= length <= high) == held


def test_a_length_that_is_detectable_is_caught_just_so() -> None:
    found = detectable_run_length(200, 4.0, ALPHA)

    assert found.low is not None and found.high is not None
    assert caught_run_length(200, 4.0, found.low, ALPHA) == pytest.approx(POWER, abs=1e-6)
    assert caught_run_length(200, 4.0, found.high, ALPHA) == pytest.approx(POWER, abs=1e-6)


@pytest.mark.parametrize("quantile", [0, 0.5, 0.9])
@pytest.mark.parametrize("later", [True, False])
def test_a_shift_of_jittered_delays_that_is_detectable_is_caught_as_often_as_stated(
    quantile: float, later: bool
) -> None:
    """By what is drawn: 150 samples, of which at most 8 may miss it (binomial, 0.01, once in 30,000)."""
    from owlt.emulator.certification.judging import Judges

    expected = Expectations(LinkSpec(delay_ns=50_000_000, jitter=Jitter(amount_ns=5_000_000)), 0)
    off = detectable_quantile(1000, quantile, expected.offsets_ns, ALPHA, 1000)
    shift = off.high if later else off.low
    assert shift is not None
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(150):
        delays = 50_000_000 + rng.choice(np.array(expected.offsets_ns), 1000) + round(shift)
        check = Judges("forward", expected, 1000).jittered_delay("d", 50_000_000, delays, quantile)(ALPHA)
        missed += check.verdict == "ok"
    assert missed <= 8


BURSTS = GilbertElliott(mean_rate=0.05, burst_packets=4)
LONG_BURSTS = GilbertElliott(mean_rate=0.3, burst_packets=10)
STATES = FourState(p13=0.01, p31=0.3, p32=0.3, p23=0.5, p14=0.01)


@pytest.mark.parametrize("loss", [BURSTS, STATES])
@pytest.mark.parametrize("dropped", [0.0, 0.1])
def test_the_number_of_packets_lost_in_bursts_is_distributed_as_when_it_is_drawn(
    loss: GilbertElliott | FourState, dropped: float
) -> None:
    """Mean and deviation of 5,000 draws: within five standard errors."""
    chain, packets, draws = BurstLoss.of(loss).duplicated(0.2), 500, 5000
    rng = np.random.default_rng(3)
    moves, lost = np.cumsum(np.array(chain.moves), axis=1), np.array(chain.lost)
    state, count = np.zeros(draws, int), np.zeros(draws)
    for _ in range(packets):
        gone = rng.random(draws) < dropped
        to = np.minimum((rng.random(draws)[:, None] > moves[state]).sum(axis=1), len(moves) - 1)
        count += gone | (rng.random(draws) < lost[state, to])
        state = np.where(gone, state, to)

    distribution = chain.lost_packets(packets, dropped)
    numbers = np.arange(len(distribution))
    mean = float(distribution @ numbers)
    deviation = float(np.sqrt(distribution @ (numbers - mean) ** 2))
    assert distribution.sum() == pytest.approx(1, abs=1e-9)
    assert count.mean() == pytest.approx(mean, abs=5 * deviation / draws**0.5)
    assert count.std() == pytest.approx(deviation, rel=0.06)


def test_losses_drawn_one_by_one_are_binomial() -> None:
    distribution = BurstLoss().lost_packets(20, dropped=0.3)

    assert distribution[:21] == pytest.approx([comb(20, k) * 0.3**k * 0.7 ** (20 - k) for k in range(21)], abs=1e-12)


@pytest.mark.parametrize("loss", [BURSTS, STATES])
@pytest.mark.parametrize("factor", [FACTOR, 1 / FACTOR])
def test_a_loss_rate_in_bursts_that_is_wrong_by_the_factor_is_caught_by_the_sample_that_its_memory_asks_for(
    loss: GilbertElliott | FourState, factor: float
) -> None:
    chain = BurstLoss.of(loss)
    packets = round(chain.packets_each * trials_for_share(chain.mean_rate, wrong_share(chain.mean_rate), ALPHA, MOST))
    accepted = accepted_counts(chain.lost_packets(packets), ALPHA)
    wrong = scaled(loss, factor, BurstLoss.of)

    assert wrong is not None
    assert wrong.mean_rate == pytest.approx(factor * chain.mean_rate)
    assert caught_counts(accepted, wrong.lost_packets(packets)) >= POWER
    assert caught_counts(accepted, chain.lost_packets(packets)) <= ALPHA


def test_the_numbers_accepted_of_a_distribution_are_those_of_the_interval() -> None:
    distribution = np.array([comb(200, k) * 0.1**k * 0.9 ** (200 - k) for k in range(201)])

    assert accepted_counts(distribution, ALPHA) == accepted_hits(200, 0.1, ALPHA)


def netem_copies(chain: BurstLoss, share: float, packets: int, draws: int) -> NDArray[np.int64]:
    """How many copies of each packet arrive, in many runs of netem_enqueue (net/sched/sch_netem.c) side by side."""
    rng, state = np.random.default_rng(5), np.zeros(draws, int)
    moves, lost = np.cumsum(np.array(chain.moves), axis=1), np.array(chain.lost)

    def loss_event(asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        nonlocal state
        to = np.minimum((rng.random(draws)[:, None] > moves[state]).sum(axis=1), len(moves) - 1)
        is_lost = asked & (rng.random(draws) < lost[state, to])
        state = np.where(asked, to, state)
        return is_lost

    copies = np.zeros((packets, draws), int)
    for packet in range(packets):
        count = 1 + (rng.random(draws) < share)
        count -= loss_event(np.ones(draws, bool))
        copies[packet] = np.minimum(count, 1) + ((count == 2) & ~loss_event(count == 2))
    return copies


SINGLE = BurstLoss(((1.0,),), ((0.3,),))


@pytest.mark.parametrize("chain", [SINGLE, *map(BurstLoss.of, (BURSTS, STATES, LONG_BURSTS))])
@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_losses_and_duplicates_have_the_distribution_that_netem_produces(chain: BurstLoss, share: float) -> None:
    """Mean and deviation of 2,000 runs: within five standard errors."""
    packets, draws = 400, 2000
    copies = netem_copies(chain, share, packets, draws)

    for counted, numbers in (
        (chain.duplicated(share), (copies == 0).sum(axis=0)),
        (chain.arriving_twice(share), (copies == 2).sum(axis=0)),
    ):
        distribution = counted.lost_packets(packets)
        values = np.arange(len(distribution))
        mean = float(distribution @ values)
        deviation = float(np.sqrt(max(distribution @ (values - mean) ** 2, 0)))
        assert distribution.sum() == pytest.approx(1, abs=1e-9)
        assert numbers.mean() == pytest.approx(mean, abs=5 * deviation / draws**0.5 + 1e-6)
        assert numbers.std() == pytest.approx(deviation, rel=0.1, abs=1e-3)


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.3])
def test_both_models_agree_for_single_losses_and_duplicates(loss: float) -> None:
    link = LinkSpec(packet_error_rate=loss, error_effect="drop", duplication_rate=0.2)
    chain = BurstLoss(((1.0,),), ((loss,),))
    expected = Expectations(link, 0)

    assert expected.loss_probability(64) == pytest.approx(chain.duplicated(0.2).mean_rate)
    twice = chain.arriving_twice(0.2).mean_rate / (1 - chain.duplicated(0.2).mean_rate)
    assert expected.duplicate_probability == pytest.approx(twice)


@pytest.mark.parametrize(
    "loss",
    [
        {"loss": LONG_BURSTS},
        {"loss": STATES},
        {"packet_error_rate": 0.3},
        {"loss": LONG_BURSTS, "bit_error_rate": 1e-5},
    ],
)
def test_a_correct_channel_with_duplicates_and_losses_is_certified(loss: dict[str, Any]) -> None:
    channel = ChannelSpec(forward=LinkSpec(duplication_rate=0.3, error_effect="drop", **loss))

    checks = [check for seed in range(5) for check in certified(channel, channel, seed, 1e-6, 50_000.0)]

    assert {check.quantity for check in checks} >= {"share of packets duplicated", "share of 64-byte frames lost"}
    assert {check.verdict for check in checks} == {"ok"}, [check for check in checks if check.verdict != "ok"]


def test_fewer_duplicates_than_specified_fail_certification_with_burst_losses() -> None:
    specified = ChannelSpec(forward=LinkSpec(duplication_rate=0.3, loss=LONG_BURSTS))
    truth = ChannelSpec(forward=LinkSpec(duplication_rate=0.2, loss=LONG_BURSTS))

    failed = {check.quantity for check in certified(specified, truth, 1, 0.001, 50_000.0) if check.verdict == "failed"}

    assert "share of packets duplicated" in failed
