"""Closed forms held against their sources and against Monte Carlo; expectations against runs whose times are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.reports.comparison import theory
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.comparison.theory import (
    NOT_IN_THEORY,
    THEORIES,
    Comparison,
    agreements,
    comparisons_of,
    cubic_window,
    curve,
    expected_rounds,
    least_slow_start_s,
    least_transfer_s,
    mathis_rate,
    padhye_rate,
    probability_of_rounds,
    rounds_quantile,
    time_to_delivery_s,
)
from owlt.reports.page import page
from tests.unit.reports.conftest import few, page_text, write_results
from tests.validation.rates import last_signal_s

PACKETS, BITS, RATE, DELAY_S = 1000, 8480, 10e6, 1.25
SENDING_S = PACKETS * BITS / RATE


def run(time_s: float, **changes: Any) -> dict[str, Any]:
    """A row of a run that delivered 1 MB after so many seconds."""
    return dict.fromkeys(NOT_IN_THEORY) | {
        "outcome": "completed", "suspect": "", "protocol": "LTP", "file_size_bytes": 1_000_000, "bypass": False,
        "forward_rate_bps": RATE, "forward_delay_ns": 1_250_000_000, "rtt_ns": 2_500_000_000,
        "forward_packet_error_rate": 0.01, "reverse_packet_error_rate": 0.01,
        "str_sent": 1010, "str_sent_bytes": 1_070_600,
        "goodput_to_delivery_bps": 8e6 / time_s, "goodput_bps": 8e6 / time_s,
    } | changes  # fmt: skip


def compared(*runs: dict[str, Any]) -> Comparison:
    point = Point("", RATE, 1_250_000_000, 1_000_000, 0.01)
    (comparison,) = comparisons_of([Cell(point, {"ltp": Sample(runs)})])
    return comparison


# Rounds


@pytest.mark.parametrize(("loss", "expected"), [(0.01, 2.069), (0.1, 3.587), (0.0, 1.0)])
def test_the_mean_number_of_rounds_of_715_packets(loss: float, expected: float) -> None:
    assert expected_rounds(715, loss) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.3])
def test_the_mean_number_of_rounds_is_that_of_a_simulation(loss: float) -> None:
    random, trials = np.random.default_rng(1), 4000
    needed = random.geometric(1 - loss, size=(trials, 200)).max(axis=1)  # transmissions of the last packet

    error = needed.std() / sqrt(trials)
    assert abs(needed.mean() - expected_rounds(200, loss)) < 5 * error


@given(st.floats(0.01, 0.99), st.integers(1, 10_000), st.floats(1e-6, 0.9))
def test_a_quantile_is_the_least_number_of_rounds_that_suffices(share: float, packets: int, loss: float) -> None:
    needed = rounds_quantile(share, packets, loss)

    assert probability_of_rounds(needed, packets, loss) >= share
    assert probability_of_rounds(needed - 1, packets, loss) < share


def test_the_time_to_delivery_has_a_round_trip_for_each_further_round() -> None:
    first, third = (time_to_delivery_s(PACKETS, BITS, RATE, DELAY_S, 2 * DELAY_S, 0.0, number) for number in (1, 3))

    assert first == pytest.approx(SENDING_S + DELAY_S)
    assert third - first == pytest.approx(4 * DELAY_S)


def test_a_loss_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="less than 1"):
        expected_rounds(10, 1.0)


# TCP


def test_mathis_has_the_constants_of_the_paper() -> None:
    assert mathis_rate(1.0, 0.01, segments_per_ack=1) == pytest.approx(sqrt(3 / 2) / 0.1)
    assert mathis_rate(1.0, 0.01) == pytest.approx(sqrt(3 / 4) / 0.1)


def test_padhye_is_mathis_for_rare_losses_and_lower_for_frequent_ones() -> None:
    rare, frequent = 1e-8, 0.05

    assert padhye_rate(0.1, rare, timeout_s=1) == pytest.approx(mathis_rate(0.1, rare), rel=0.01)
    assert padhye_rate(0.1, frequent, timeout_s=1) < 0.5 * mathis_rate(0.1, frequent)


def test_padhye_is_limited_by_the_window() -> None:
    assert padhye_rate(0.1, 1e-8, timeout_s=1, window=20) == pytest.approx(200)
    assert padhye_rate(0.1, 0.0, timeout_s=1) == inf


def test_the_window_of_cubic_has_the_factor_of_the_rfc() -> None:
    assert cubic_window(1.0, 1.0) == pytest.approx(1.054, abs=5e-4)
    assert cubic_window(0.1, 1e-4) == pytest.approx(1.054 * 1000**0.75, rel=1e-3)


@pytest.mark.parametrize(("segments", "round_trips"), [(10, 1.5), (11, 2.5), (30, 2.5), (31, 3.5)])
def test_tcp_needs_a_handshake_and_a_round_trip_for_each_window(segments: int, round_trips: float) -> None:
    assert least_slow_start_s(segments, rtt_s=1.0) == round_trips


# Custody and capacity


def test_custody_signals_take_as_long_as_in_the_paper() -> None:
    """Seed 000: 1200 s of light time and 190 s of signals on the return link."""
    assert last_signal_s(600, signals=190, signal_bytes=1000, reverse_rate_bps=8000) == 1390


def test_nothing_is_faster_than_the_channel() -> None:
    assert least_transfer_s(1_000_000, 8e6, 1.25) == 2.25


# Expectations


@pytest.mark.parametrize(
    ("time_s", "verdict"), [(SENDING_S + DELAY_S + 2 * DELAY_S, "inside"), (1.9, "faster"), (30.0, "slower")]
)
def test_a_median_is_inside_its_theory_or_outside(time_s: float, verdict: str) -> None:
    assert compared(run(time_s)).verdict == verdict


def test_the_median_decides_and_undelivered_files_have_no_time() -> None:
    failed = run(1.0) | {"outcome": "failed", "goodput_bps": None, "goodput_to_delivery_bps": None}
    comparison = compared(run(4.6), run(4.7), run(99.0), failed)

    assert (comparison.n, comparison.measured_s, comparison.verdict) == (3, pytest.approx(4.7), "inside")


def test_a_slower_median_states_how_many_times_the_upper_bound_it_took() -> None:
    comparison = compared(run(30.0))

    assert comparison.factor == pytest.approx(30.0 / comparison.expected.high_s)


def test_tcp_and_others_have_only_a_lower_bound() -> None:
    assert compared(run(99.0, protocol="TCP")).expected.high_s == inf
    assert compared(run(5.0, protocol="TCP")).verdict == "faster"
    assert compared(run(2.2, protocol="UDP")).verdict == "inside"
    assert compared(run(1.9, protocol="UDP")).verdict == "faster"


@pytest.mark.parametrize(
    "change",
    [
        {"timeline": "{}"},
        {"forward_loss": "{}"},
        {"forward_coding": "{}"},
        {"reverse_coding": "{}"},
        {"forward_bit_error_rate": 1e-6},
        {"reverse_bit_error_rate": 1e-6},
        {"reverse_jitter": "{}"},
        {"reverse_error_pattern": "[1]"},
        {"forward_reordering_rule": "{}"},
        {"reverse_duplication_rate": 0.01},
        {"forward_overhead_bytes": 24},
        {"reverse_packet_error_rate": 0.02},
        {"forward_rate_bps": None, "forward_delay_ns": 0, "rtt_ns": 0},
    ],
)
def test_a_channel_without_a_theory_is_not_compared(change: dict[str, Any]) -> None:
    point = Point("", RATE, 1_250_000_000, 1_000_000, 0.01)

    assert comparisons_of([Cell(point, {"ltp": Sample((run(5.0, **change),))})]) == []


def test_a_further_round_takes_a_round_trip_of_two_different_delays() -> None:
    short = compared(run(5.0, rtt_ns=1_300_000_000)).expected

    assert compared(run(5.0)).expected.high_s - short.high_s == pytest.approx(2 * 1.2)


def test_an_implementation_has_its_medians_outside_the_farthest_first() -> None:
    point = Point("", RATE, 1_250_000_000, 1_000_000, 0.01)
    cells = [Cell(point, {"ltp": Sample((run(time_s),))}) for time_s in (30.0, 4.6, 99.0)]
    (agreement,) = agreements(comparisons_of(cells))

    assert (agreement.inside, [each.measured_s for each in agreement.outside]) == (1, pytest.approx([99.0, 30.0]))


def test_the_page_points_out_medians_outside_their_theory(demo: Path) -> None:
    page = page_text(demo)

    assert 'id="theory"' in page
    assert "times the upper bound" in page  # the made-up norm waits 20 round trips


# Curves


def test_a_curve_of_rounds_is_the_goodput_of_the_mean_number_of_rounds() -> None:
    (value,) = curve(THEORIES["rounds"], [[run(4.6), run(4.7)]])
    packets = 1000
    mean = expected_rounds(packets, 0.01)

    assert value == pytest.approx(8e6 / (SENDING_S / 0.99 + DELAY_S + 2 * DELAY_S * (mean - 1)), rel=1e-3)


def test_a_curve_of_tcp_is_limited_by_the_channel() -> None:
    assert curve(THEORIES["mathis"], [[run(5.0, forward_packet_error_rate=0.0, reverse_packet_error_rate=0.0)]]) == [
        RATE
    ]
    (value,) = curve(THEORIES["mathis"], [[run(5.0)]])
    assert value == pytest.approx(8 * 1448 * mathis_rate(2.5, 0.01))


def test_runs_with_different_settings_have_no_curve() -> None:
    assert curve(THEORIES["capacity"], [[run(5.0), run(5.0, file_size_bytes=100_000)], []]) == [None, None]


def test_the_theory_of_a_report_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = write_results(tmp_path / "results", few(implementations=["cfdp", "norm"]))
    calls: list[int] = []

    def counting(cells: Sequence[Cell]) -> list[Comparison]:
        calls.append(len(cells))
        return comparisons_of(cells)

    for module in (page, theory):
        monkeypatch.setattr(module, "comparisons_of", counting, raising=False)
    page.build_report(results, print)

    assert len(calls) == 1
