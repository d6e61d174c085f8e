"""The table of axes agrees with what has one value for each axis: the sweep, and a point of its grid."""

from __future__ import annotations

import pytest

from owlt.inputs.axes import AXES, BY_NAME, CONDITIONS, Interval, matches, selected
from owlt.inputs.quantities import DELAY, DURATION, IP, NAME, PROBABILITY, RATE, SIZE
from owlt.inputs.sweep import Sweep
from owlt.reports.comparison.cells import Point
from owlt.reports.units import axis_text
from owlt.results.permutation import Permutation


def test_a_point_of_the_grid_has_a_field_for_each_axis_in_the_same_order() -> None:
    fields = dict.fromkeys(axis.field for axis in AXES.values())

    assert list(Permutation.model_fields) == list(fields)


def test_a_sweep_has_a_key_for_each_axis() -> None:
    assert [key for key in Sweep.model_fields if key in AXES] == list(AXES)


def test_the_point_of_a_cell_has_a_field_for_each_axis_but_the_implementations() -> None:
    assert (
        set(Point._fields)
        == {AXES[key].field for key in CONDITIONS}
        == set(Permutation.model_fields) - {"implementation"}
    )


def test_the_value_of_each_axis_has_words_on_a_page() -> None:
    values = {NAME: "geo", SIZE: 1_000_000, DURATION: 10**9, IP: 6, RATE: 1e7}
    values |= {DELAY: 25_000_000, PROBABILITY: 0.01}

    assert [axis_text(axis, values[axis.quantity]) for axis in AXES.values()] == [
        *("geo", "1 MB", "1 s", "geo", "IPv6"),
        *(text for text in ("10 Mbit/s", "25 ms", "0.01") for _ in ("both", "forward", "reverse")),
    ]


def test_conditions_name_one_implementation() -> None:
    assert set(BY_NAME) ^ set(AXES) == {"implementation", "implementations"}


@pytest.mark.parametrize(
    ("key", "written", "value", "is_met"),
    [
        ("rate", ["1 Mbit/s", {"from": "10 Mbit/s"}], 1e6, True),
        ("rate", ["1 Mbit/s", {"from": "10 Mbit/s"}], 5e6, False),
        ("rate", [{"from": "10 Mbit/s"}], None, True),
        ("rate", [{"to": "10 Mbit/s"}], None, False),
        ("delay", ["25 ms"], 25_000_000, True),
        ("implementations", ["norm"], "norm+parity_segments=8", True),
        ("implementations", ["norm+parity_segments=0"], "norm+parity_segments=8", False),
    ],
)
def test_written_values_match_values_of_points(key: str, written: list[object], value: object, is_met: bool) -> None:
    assert matches(key, value, selected(key, written)) is is_met


def test_an_interval_includes_both_ends() -> None:
    assert [number in Interval(1, 2) for number in (0.9, 1, 2, 2.1)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rate", None, "unlimited"),
        ("packet_error_rate", 0.0, "0"),
        ("delay", 25_000_000, "25 ms"),
        ("channel", "geo", "geo"),
    ],
)
def test_values_are_printed_as_in_a_sweep_file(key: str, value: object, text: str) -> None:
    assert AXES[key].quantity.text(value) == text
