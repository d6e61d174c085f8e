"""Delays and rates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.inputs.mistake import Invalid
from owlt.inputs.quantities import (
    format_delay,
    format_rate,
    format_size,
    parse_delay_ns,
    parse_probability_argument,
    parse_queue,
    parse_rate_bps,
    parse_share,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("text", "delay_ns"),
    [
        ("0 s", 0),
        ("1 ns", 1),
        ("12.3 us", 12_300),
        ("12.3 \N{MICRO SIGN}s", 12_300),
        ("12.3 \N{GREEK SMALL LETTER MU}s", 12_300),
        ("25\N{NO-BREAK SPACE}ms", 25_000_000),
        ("25\N{NARROW NO-BREAK SPACE}ms", 25_000_000),
        ("25 ms", 25_000_000),
        ("25ms", 25_000_000),
        (" 1.25 s ", 1_250_000_000),
        ("1342 s", 1_342_000_000_000),
        ("1e3 s", 1_000_000_000_000),
        ("22 min", 1_320_000_000_000),
        ("24 h", 86_400_000_000_000),
    ],
)
def test_a_delay_is_read_with_its_unit(text: str, delay_ns: int) -> None:
    assert parse_delay_ns(text) == delay_ns


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("9600 bit/s", 9600),
        ("9.6 kbit/s", 9600),
        ("10 Mbit/s", 10e6),
        ("0.1 Mbit/s", 100e3),
        ("1Gbit/s", 1e9),
        ("1 Tbit/s", 1e12),
    ],
)
def test_a_rate_is_read_with_its_unit(text: str, rate_bps: float) -> None:
    assert parse_rate_bps(text) == rate_bps


@pytest.mark.parametrize("bare", ["25", 25, 25.5, "0.5"])
def test_a_delay_without_a_unit_is_refused_with_the_right_spelling(bare: object) -> None:
    with pytest.raises(ValueError, match=rf'got {bare!r}.* write the unit, as in "{bare} ms" or "{bare} s"'):
        parse_delay_ns(bare)


def test_a_rate_without_a_unit_is_refused_with_the_right_spelling() -> None:
    with pytest.raises(ValueError, match=r'got 10000000.* write the unit, as in "10000000 bit/s"'):
        parse_rate_bps(10000000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ms",
        "-1 ms",
        "25 m",
        "25 MS",
        "1,5 s",
        "1 s 2 ms",
        "nan s",
        "inf s",
        "10\N{SUPERSCRIPT TWO} s",
        None,
        ["25 ms"],
    ],
)
def test_what_is_no_delay_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r'got .*; write it as in "25 ms"'):
        parse_delay_ns(text)


@pytest.mark.parametrize(
    "text", ["10 mbit/s", "10 Mbps", "10 MB/s", "10 Mibit/s", "-10 Mbit/s", "10\N{SUPERSCRIPT SIX} bit/s"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r'got .*; write it as in "10 Mbit/s"'):
        parse_rate_bps(text)


def test_a_fraction_of_a_nanosecond_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of nanoseconds"):
        parse_delay_ns("0.5 ns")


@pytest.mark.parametrize(
    ("delay_ns", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (25_000_000, "25 ms"),
        (25_833_600, "25.8336 ms"),
        (1_250_000_000, "1.25 s"),
        (1_342_000_000_000, "1342 s"),
        (100_000_000_000, "100 s"),
    ],
)
def test_a_delay_is_written_in_its_largest_unit(delay_ns: int, text: str) -> None:
    assert format_delay(delay_ns) == text


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(0, "0 bit/s"), (8, "8 bit/s"), (9600, "9.6 kbit/s"), (10e6, "10 Mbit/s"), (1e9, "1 Gbit/s"), (1e12, "1 Tbit/s")],
)
def test_a_rate_is_written_in_its_largest_unit(rate_bps: float, text: str) -> None:
    assert format_rate(rate_bps) == text


@given(st.integers(0, 24 * 3600 * 10**9))
def test_a_delay_written_is_read_back_as_it_was(delay_ns: int) -> None:
    assert parse_delay_ns(format_delay(delay_ns)) == delay_ns


@given(st.floats(8, 1e12))
def test_a_rate_written_is_read_back_as_it_was(rate_bps: float) -> None:
    assert parse_rate_bps(format_rate(rate_bps)) == rate_bps


@pytest.mark.parametrize(("text", "size_bytes"), [("100 kB", 100_000), ("1 MB", 10**6), ("1.5 kB", 1500), ("7 B", 7)])
def test_sizes_are_decimal(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["1.0001 kB", "0.5 B", "1 KiB", "kB", 5, "1..2 kB"])
def test_a_size_that_is_not_whole_decimal_bytes_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="got"):
        parse_size_bytes(text)


def test_a_size_is_written_in_the_largest_unit_that_keeps_it_an_integer() -> None:
    assert [format_size(n) for n in (100_000, 1_500, 1_500_000, 10**9)] == [
        "100 kB",
        "1500 B",
        "1500 kB",
        "1 GB",
    ]


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("1000 packets", {"queue_packets": 1000}),
        ("64 kB", {"queue_bytes": 64_000}),
        ("50 ms", {"queue_ns": 50_000_000}),
        ("2.5 BDP", {"queue_bdp": 2.5}),
    ],
)
def test_a_queue_is_named_by_its_unit(text: str, queue: dict[str, float]) -> None:
    assert parse_queue(text) == queue


@pytest.mark.parametrize("text", ["1000", "1.5 packets", "0.1 B", "5 bananas", "", 7])
def test_a_queue_that_is_no_whole_number_of_something_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="got"):
        parse_queue(text)


@pytest.mark.parametrize(("text", "fix"), [("20m", 'write it as in "20 min"'), ("20", '"20 min" or "20 h"')])
def test_a_mistake_in_a_long_time_has_an_example_of_its_kind(text: str, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        parse_delay_ns(text, "20 min", ("min", "h"))


@pytest.mark.parametrize(
    ("text", "share"),
    [("5%", 0.05), ("5 %", 0.05), ("0.5 %", 0.005), (".5%", 0.005), ("5", 0.05), ("0", 0), ("50", 0.5)],
)
def test_a_share_on_the_command_line_is_in_percent(text: str, share: float) -> None:
    assert parse_share(text, most=0.5) == share


@pytest.mark.parametrize(
    ("text", "most", "fix"),
    [("0.05", 0.5, "write 0.05% or 5%"), ("1", 1, "write 1% or 100%"), (".5", 1, "write 0.5% or 50%")],
)
def test_a_number_that_could_be_a_share_or_a_percentage_is_refused_with_both(text: str, most: float, fix: str) -> None:
    with pytest.raises(Invalid, match=f"got '{text}', expected a percentage with its sign; {fix}"):
        parse_share(text, most)


@pytest.mark.parametrize("text", ["51%", "51", "-1%", "five", "", "5 % 5", "1e3%"])
def test_what_is_no_share_up_to_the_largest_is_refused_with_the_limits(text: str) -> None:
    with pytest.raises(Invalid, match="a percentage from 0 to 50, such as 5%"):
        parse_share(text, most=0.5)


@pytest.mark.parametrize("text", ["x", "1.5", "150 %", "nan"])
def test_what_is_no_probability_is_refused_in_the_words_of_the_argument(text: str) -> None:
    with pytest.raises(Invalid, match=f"got '{text}', expected a number from 0 to 1"):
        parse_probability_argument(text)
