"""Traces: tables over time that become steps."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.channel.channel_file import parse_trace
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.channel.text import LONGEST_TIMELINE_NS

TIMES_NS = st.lists(st.integers(0, LONGEST_TIMELINE_NS), min_size=1, max_size=20, unique=True).map(sorted)


def steps(text: str) -> list[dict[str, object]]:
    return [each.step for each in parse_trace(text, "a.csv")]


def refusal(text: str) -> str:
    with pytest.raises(ValueError) as error:
        parse_trace(text, "a.csv")
    return str(error.value)


def test_a_row_is_a_step_with_the_units_of_its_columns() -> None:
    text = "t,forward.delay_ms,reverse.rate_kbps,both.packet_error_rate,forward.up\n0.5,1250.25,8,1e-3,0\n"

    assert steps(text) == [
        {
            "at": "500 ms",
            "forward": {"delay": "1250.25 ms", "up": False},
            "reverse": {"rate": "8 kbit/s"},
            "both": {"packet_error_rate": 0.001},
        }
    ]


@pytest.mark.parametrize(
    ("column", "cell", "key", "written"),
    [
        ("delay_s", "2.5", "delay", "2.5 s"),
        ("delay_us", "7", "delay", "7 us"),
        ("delay_ns", "7", "delay", "7 ns"),
        ("rate_bps", "9600", "rate", "9600 bit/s"),
        ("rate_Mbps", "unlimited", "rate", "unlimited"),
        ("queue_packets", "100", "queue", "100 packets"),
        ("queue_kB", "64", "queue", "64 kB"),
        ("queue_BDP", "2", "queue", "2 BDP"),
        ("mtu_B", "1500", "mtu", "1500 B"),
        ("jitter_ms", "3", "jitter", {"amount": "3 ms"}),
        ("jitter_ms", "0", "jitter", "none"),
        ("keeps_order", "1", "keeps_order", True),
        ("bit_error_rate", "1e-6", "bit_error_rate", 1e-6),
    ],
)
def test_a_column_says_its_field_and_unit(column: str, cell: str, key: str, written: object) -> None:
    assert steps(f"t,forward.{column}\n0,{cell}\n") == [{"at": "0 s", "forward": {key: written}}]


@pytest.mark.parametrize(
    "column",
    [
        *("delay_ms", "jitter_ms", "rate_bps", "queue_packets", "mtu_B", "overhead_B"),
        *("packet_error_rate", "bit_error_rate", "duplication_rate", "up", "keeps_order"),
    ],
)
def test_none_takes_away_what_any_column_says(column: str) -> None:
    given = steps(f"t,forward.{column}\n0,none\n")
    channel = ChannelSpec.from_wire({"timeline": {"steps": given}})

    assert channel.timeline is not None
    assert channel.timeline.steps[0].forward == LinkSpec()


def test_a_rate_alone_is_unlimited() -> None:
    assert "'unlimited'" in refusal("t,forward.delay_ms\n0,unlimited\n")


def test_an_empty_cell_means_as_before() -> None:
    _, second = steps("t,forward.delay_ms,forward.up\n0,5,1\n1,,0\n")

    assert second == {"at": "1 s", "forward": {"up": False}}


def test_notes_and_empty_lines_are_passed_over_and_lines_still_counted() -> None:
    rows = parse_trace("# from a simulator\n\nt, forward.delay_ms\n0, 5\n# later\n1, 6\n", "a.csv")

    assert [row.line for row in rows] == [4, 6]


def test_a_mark_at_the_beginning_of_the_file_is_no_part_of_the_header() -> None:
    assert steps("\ufefft,forward.up\n0,1\n")


@given(TIMES_NS)
def test_times_stay_exact_to_the_nanosecond(times_ns: list[int]) -> None:
    rows = "".join(f"{Decimal(each) / 10**9:f},5\n" for each in times_ns)
    channel = ChannelSpec.from_wire({"timeline": {"steps": steps(f"t,both.delay_ms\n{rows}")}})

    assert channel.timeline is not None
    assert [step.at_ns for step in channel.timeline.steps] == times_ns


@given(st.integers(0, 10**13))
def test_delays_stay_exact_to_the_nanosecond(delay_ns: int) -> None:
    cell = f"{Decimal(delay_ns) / 10**6:f}"
    channel = ChannelSpec.from_wire({"timeline": {"steps": steps(f"t,reverse.delay_ms\n0,{cell}\n")}})

    assert channel.timeline is not None
    assert channel.timeline.steps[0].reverse.delay_ns == delay_ns


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,forward.delay_ms\n0,fast\n", ["a.csv:2", "column forward.delay_ms", "'fast'", "a number"]),
        ("t,forward.delay_ms\n0,5\n1,-5\n", ["a.csv:3", "column forward.delay_ms", "'-5'", "at least 0"]),
        ("t,forward.delay_ms\n0,nan\n", ["a.csv:2", "column forward.delay_ms", "'nan'"]),
        ("t,forward.up\n0,yes\n", ["a.csv:2", "column forward.up", "'yes'", "0 or 1"]),
        ("t,forward.up\n1,1\n1,0\n", ["a.csv:3", "column t", "1 s"]),
        ("t,forward.up\n-1,1\n", ["a.csv:2", "column t", "'-1'", "seconds"]),
        ("t,forward.up\n0.0000000001,1\n", ["a.csv:2", "column t", "nanosecond"]),
        ("t,forward.up\n0\n", ["a.csv:2", "1 cells", "expected 2"]),
        ("t,forward.delay\n0,5\n", ["a.csv:1", "'forward.delay'", "delay_s|ms|us|ns"]),
        ("t,sideways.delay_ms\n0,5\n", ["a.csv:1", "'sideways.delay_ms'", "forward|reverse|both"]),
        ("t,forward.delay_Mbps\n0,5\n", ["a.csv:1", "'forward.delay_Mbps'"]),
        ("t,both.delay_ms,forward.delay_s\n0,5,5\n", ["a.csv:1", "both.delay_ms", "forward.delay_s"]),
        ("time,forward.delay_ms\n0,5\n", ["a.csv:1", "expected t"]),
        ("t\n0\n", ["a.csv:1", "expected t"]),
        ("t,forward.delay_ms\n", ["a.csv", "no rows"]),
        ("", ["a.csv", "no rows"]),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, told: list[str]) -> None:
    text = refusal(text)

    assert all(word in text for word in told), text


def test_a_table_of_jitter_has_its_values_in_one_cell() -> None:
    assert steps("t,forward.jitter_table\n0,0 0 1 2.5\n") == [
        {"at": "0 s", "forward": {"jitter": {"table": [0.0, 0.0, 1.0, 2.5]}}}
    ]


def test_a_table_of_jitter_with_a_word_is_refused() -> None:
    assert "a.csv:2: column forward.jitter_table: got '0 x'" in refusal("t,forward.jitter_table\n0,0 x\n")
