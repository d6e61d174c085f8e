"""Certificates as values, and the verdicts in them."""

from __future__ import annotations

import json
import xmlrpc.client
from typing import Any

import numpy as np
import pytest

from owlt.emulator.certification.certificate import Certificate, Check, CheckVerdict, power_text
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import wrong_share
from owlt.emulator.certification.judging import RATE_ERROR, RATE_TOLERANCE, Judges
from owlt.emulator.certification.probe_statistics import Count
from owlt.emulator.channel.link import Jitter
from owlt.emulator.channel.loss_models import GilbertElliott
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec

ALPHA = 0.001
OK = Check("forward", "rate, bit/s", "ok", 10e6, 10_000_010.0, 9_990_000.0, 10_010_000.0, 50, "", 9.99e6, 10.01e6, 0.99)
FAILED = Check("reverse", "depth of the queue, packets", "failed", 10.0, 9.0, 9.0, 9.0, 1, "not as specified")
NOT_MEASURED = Check("reverse", "changes with time", "not measured", reason="only the first step is")


def certificate(*checks: Check) -> Certificate:
    channel = ChannelSpec(forward=LinkSpec(delay_ns=1_250_000_000, rate_bps=10e6))
    return Certificate(channel.to_wire(), checks, 1_767_225_600_123_456_789, 29.25, "7.3.4", ALPHA)


def judges(tolerance_ns: int = 1000, **link: Any) -> Judges:
    return Judges("forward", Expectations(LinkSpec(**link), rtt_ns=0), tolerance_ns)


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ((), "ok"),
        ((OK,), "ok"),
        ((OK, NOT_MEASURED), "incomplete"),
        ((OK, NOT_MEASURED, FAILED), "failed"),
    ],
)
def test_the_verdict_is_that_of_the_worst_check(checks: tuple[Check, ...], verdict: str) -> None:
    assert certificate(*checks).verdict == verdict


def test_a_failed_check_is_a_suspicion_in_words() -> None:
    assert certificate(OK, NOT_MEASURED, FAILED).suspicion() == [
        "reverse: depth of the queue, packets: specified 10, measured 9 (between 9 and 9): not as specified"
    ]


def test_a_certificate_comes_back_from_json_as_it_was() -> None:
    sent = certificate(OK, NOT_MEASURED, FAILED)

    assert Certificate.from_wire(json.loads(json.dumps(sent.to_wire()))) == sent


def test_a_certificate_comes_back_from_xml_rpc_as_it_was() -> None:
    sent = certificate(OK, NOT_MEASURED, FAILED)
    ((received,), _) = xmlrpc.client.loads(xmlrpc.client.dumps((sent.to_wire(),)))

    assert Certificate.from_wire(received) == sent  # type: ignore[arg-type]


@pytest.mark.parametrize("measured_ns", [[], [600_000_000_000]])
def test_a_delay_of_minutes_crosses_xml_rpc_whose_integers_have_32_bits(measured_ns: list[int]) -> None:
    check = judges().steady_delay("delay, ns", 600_000_000_000, np.array(measured_ns), 0)(ALPHA)
    ((received,), _) = xmlrpc.client.loads(xmlrpc.client.dumps((certificate(check).to_wire(),)))

    assert Certificate.from_wire(received).checks == (check,)  # type: ignore[arg-type]


def test_a_certificate_with_other_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="certificate: expected the keys"):
        Certificate.from_wire(certificate().to_wire() | {"more": 1})


@pytest.mark.parametrize(
    ("measured_ns", "verdict"), [(999_999, "failed"), (1_000_000, "ok"), (1_001_000, "ok"), (1_001_001, "failed")]
)
def test_a_delay_may_be_longer_by_the_clocks_tolerance_and_never_shorter(measured_ns: int, verdict: str) -> None:
    judge = judges().steady_delay("delay, ns", 1_000_000, np.array([measured_ns]), 0)

    assert judge(ALPHA).verdict == verdict


@pytest.mark.parametrize(("rate_bps", "verdict"), [(9.994e6, "failed"), (9.996e6, "ok"), (10.006e6, "failed")])
def test_a_rate_is_right_to_half_a_thousandth(rate_bps: float, verdict: str) -> None:
    assert judges(rate_bps=10e6).rate(rate_bps, 50, 1_211_200)(ALPHA).verdict == verdict


def test_a_rate_that_is_off_by_a_thousandth_is_caught_with_any_error_of_the_measurement_that_is_allowed_for() -> None:
    check = judges(rate_bps=10e6).rate(10e6, 50, 1_211_200)(ALPHA)

    assert check.detectable_low is not None and check.detectable_high is not None
    assert 0.999 * 10e6 <= check.detectable_low <= 10e6 * (1 - RATE_TOLERANCE - RATE_ERROR)
    assert 1.001 * 10e6 >= check.detectable_high >= 10e6 * (1 + RATE_TOLERANCE + RATE_ERROR)
    assert not check.falls_short


@pytest.mark.parametrize(
    ("count", "verdict"),
    [(Count(10, 1000), "ok"), (Count(60, 1000), "failed"), (Count(0, 1000), "failed"), (Count(0, 0), "not measured")],
)
def test_a_share_is_right_if_what_was_counted_leaves_it_possible(count: Count, verdict: CheckVerdict) -> None:
    check = judges().share("share of packets lost", 0.012, count)(ALPHA)

    assert check.verdict == verdict


def test_one_of_what_must_not_happen_fails() -> None:
    assert judges().share("share of packets duplicated", 0.0, Count(1, 10**6))(1e-5).verdict == "failed"


def test_losses_in_bursts_leave_more_possible_than_as_many_drawn_alone() -> None:
    bursts = GilbertElliott(mean_rate=0.01, burst_packets=5)
    alone = judges().share("lost", 0.01, Count(35, 1000))(ALPHA)
    in_bursts = judges(loss=bursts).share_in_bursts("lost", 64, Count(35, 1000))(ALPHA)

    assert (alone.verdict, in_bursts.verdict) == ("failed", "ok")


def test_a_sample_that_was_cut_says_that_it_finds_less_than_was_aimed_at() -> None:
    cut, enough = (judges().share("lost", 0.01, Count(n // 100, n), wrong_share(0.01))(ALPHA) for n in (1000, 40_000))

    assert power_text(cut) == "can only exclude 0.000148618 or less, 0.0353584 or more"
    assert not enough.falls_short
    assert (cut.aim_low, cut.aim_high, cut.detection_probability) == (0.01 / 1.5, 0.015, 0.99)


@pytest.mark.parametrize("tolerance_ns", [1_000, 200_000])
def test_a_delay_is_excluded_no_closer_than_the_clock_allows(tolerance_ns: int) -> None:
    check = judges(tolerance_ns).steady_delay("delay, ns", 25_000_000, np.array([25_000_500]), 0)(ALPHA)

    assert (check.detectable_low, check.detectable_high) == (24_999_999 - tolerance_ns, 25_000_001 + tolerance_ns)
    assert check.falls_short == (tolerance_ns > 25_000)


def test_what_cannot_fail_by_chance_takes_none_of_the_error_probability() -> None:
    nothing, some = (judges().share("lost", asked, Count(0, 1000)) for asked in (0.0, 0.1))

    assert (nothing.by_chance, some.by_chance) == (False, True)


def test_burst_lengths_are_judged_by_how_many_bursts_there_were() -> None:
    few, many = (judges().burst_length(5.0, np.full(count, 3))(ALPHA).verdict for count in (3, 300))

    assert (few, many) == ("ok", "failed")


@pytest.mark.parametrize("quantile", [0, 0.5, 0.99])
def test_delays_drawn_from_the_jitter_asked_for_are_right_and_others_wrong(quantile: float) -> None:
    link: dict[str, Any] = {"delay_ns": 10**9, "jitter": Jitter(amount_ns=10**6, distribution="uniform")}
    offsets = np.array(Expectations(LinkSpec(**link), 0).offsets_ns)
    drawn = 10**9 + np.random.default_rng(1).choice(offsets, 5000)

    right = judges(**link).jittered_delay("delay, ns", 10**9, drawn, quantile)(ALPHA)
    wrong = judges(**link).jittered_delay("delay, ns", 10**9, drawn + 200_000, quantile)(ALPHA)
    assert (right.verdict, wrong.verdict) == ("ok", "failed")


def test_a_list_says_what_is_missing_and_what_is_too_much() -> None:
    check = judges().listed("packets damaged as listed", [1, 2, 5], [1, 2, 4], 100)(ALPHA)

    assert check.verdict == "failed"
    assert check.reason == "not hit: 5; also hit: 4"
