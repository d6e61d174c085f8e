"""Quantities as text."""

from __future__ import annotations

import pytest

from owlt.reports.comparison.metrics import METRICS
from owlt.reports.units import (
    delay_text,
    listed,
    measured_text,
    moment_text,
    number_text,
    probability_text,
    rate_text,
    size_text,
    tick_text,
)


@pytest.mark.parametrize(
    ("delay_ns", "text"),
    [
        (0, "0 ms"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (250_000, "0.25 ms"),
        (25_000_000, "25 ms"),
        (1_250_000_000, "1250 ms"),
        (12_500_000_000, "12.5 s"),
        (600_000_000_000, "10 min"),
        (14_400_000_000_000, "4 h"),
    ],
)
def test_a_delay_has_the_unit_that_the_field_would_use(delay_ns: int, text: str) -> None:
    assert delay_text(delay_ns) == text


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(None, "unlimited rate"), (300.0, "300 bit/s"), (9600.0, "9.6 kbit/s"), (1e7, "10 Mbit/s"), (1e9, "1 Gbit/s")],
)
def test_a_rate_is_in_bits_per_second(rate_bps: float | None, text: str) -> None:
    assert rate_text(rate_bps) == text


@pytest.mark.parametrize(("size_bytes", "text"), [(512, "512 B"), (100_000, "100 kB"), (1_000_000, "1 MB")])
def test_a_size_is_decimal(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("probability", "text"), [(0, "0"), (0.01, "0.01"), (0.001, "0.001"), (1e-4, "10⁻⁴"), (2.5e-5, "2.5·10⁻⁵")]
)
def test_a_small_probability_is_a_power_of_ten(probability: float, text: str) -> None:
    assert probability_text(probability) == text


@pytest.mark.parametrize(("value", "text"), [(980, "980"), (1019.5, "1\u202f019.5"), (0.01, "0.01"), (0, "0")])
def test_a_number_has_no_needless_zeros(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4.95, "4.950"), (0.0158, "0.01580"), (1234, "1234"), (0.00003281, "3.281·10⁻⁵")]
)
def test_a_measured_number_has_four_digits(value: float, text: str) -> None:
    assert measured_text(value) == text


@pytest.mark.parametrize(("texts", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_a_list_reads_as_a_sentence_has_it(texts: list[str], text: str) -> None:
    assert listed(texts) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00001, "10⁻⁵"), (0.0004, "4·10⁻⁴"), (0.001, "0.001"), (1000, "1\u202f000")]
)
def test_a_number_on_an_axis_is_short(value: float, text: str) -> None:
    assert tick_text(value) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 s"),
        (480 * 10**9, "8 min"),
        (11_760 * 10**9, "3 h 16 min"),
        (90 * 10**9, "1 min 30 s"),
        (5 * 10**8, "500 ms"),
    ],
)
def test_a_moment_is_in_hours_minutes_and_seconds(time_ns: int, text: str) -> None:
    assert moment_text(time_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.5, "12.50 Mbit/s"), (0.9182, "918.2 kbit/s"), (8.329e-4, "832.9 bit/s"), (2e3, "2.000 Gbit/s")],
)
def test_a_measured_rate_has_the_unit_that_suits_it(value: float, text: str) -> None:
    assert METRICS[0].quantity_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.9182, "0.9182"), (8.329e-4, "832.9 bit/s"), (0.0, "0.000")])
def test_a_value_too_small_for_the_unit_of_its_column_has_its_own(value: float, text: str) -> None:
    assert METRICS[0].cell_text(value) == text


def test_a_count_has_no_other_unit() -> None:
    assert METRICS[2].quantity_text(12_000) == "12\u202f000 packets"
