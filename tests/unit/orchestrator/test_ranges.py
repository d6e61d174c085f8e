"""Ranges of an axis: their values, and the messages of those that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.profiles.load import load_sweep

HEAD = "name: x\nseed: 7\nimplementations: cfdp\n"
AXES = {"file_size": "1 MB", "rate": "1 Mbit/s", "delay": "25 ms", "packet_error_rate": "0"}


def with_axis(directory: Path, axis: str, written: str) -> Path:
    path = directory / "sweep.yaml"
    path.write_text(HEAD + "".join(f"{key}: {value}\n" for key, value in (AXES | {axis: written}).items()))
    return path


def values(directory: Path, axis: str, written: str) -> list[float]:
    result: list[float] = getattr(load_sweep(with_axis(directory, axis, written)), axis)
    return result


def complaint(directory: Path, axis: str, written: str) -> str:
    with pytest.raises(ProfileError) as raised:
        load_sweep(with_axis(directory, axis, written))
    return str(raised.value)


def test_a_range_with_a_step_has_both_ends(tmp_path: Path) -> None:
    assert values(tmp_path, "delay", "{from: 10 ms, to: 25 ms, step: 5 ms}") == [10e6, 15e6, 20e6, 25e6]


def test_steps_of_a_tenth_add_up_exactly(tmp_path: Path) -> None:
    assert values(tmp_path, "packet_error_rate", "{from: 0, to: 0.3, step: 0.1}") == [0, 0.1, 0.2, 0.3]


def test_a_range_with_a_factor_is_logarithmic(tmp_path: Path) -> None:
    assert values(tmp_path, "file_size", "{from: 1 kB, to: 1 MB, factor: 10}") == [1e3, 1e4, 1e5, 1e6]


def test_a_range_of_points_is_linear_by_default(tmp_path: Path) -> None:
    assert values(tmp_path, "rate", "{from: 1 Mbit/s, to: 2 Mbit/s, points: 5}") == [1e6, 1.25e6, 1.5e6, 1.75e6, 2e6]


def test_points_on_a_log_scale_are_rounded_to_three_digits(tmp_path: Path) -> None:
    assert values(tmp_path, "delay", "{from: 1 ms, to: 100 ms, points: 5, scale: log}") == [
        1_000_000,
        3_160_000,
        10_000_000,
        31_600_000,
        100_000_000,
    ]


def test_a_list_may_have_ranges_among_its_values(tmp_path: Path) -> None:
    assert values(tmp_path, "packet_error_rate", "[0, {from: 0.001, to: 0.1, factor: 10}]") == [0, 0.001, 0.01, 0.1]


def test_an_unlimited_rate_may_stand_beside_a_range(tmp_path: Path) -> None:
    assert values(tmp_path, "rate", "[unlimited, {from: 1 Mbit/s, to: 2 Mbit/s, step: 1 Mbit/s}]") == [None, 1e6, 2e6]


def test_a_parameter_can_be_a_range(tmp_path: Path) -> None:
    path = with_axis(tmp_path, "delay", "5 ms")
    path.write_text(path.read_text() + "parameters: {cfdp: {segment_bytes: {from: 500, to: 1000, step: 250}}}\n")

    assert load_sweep(path).parameters["cfdp"]["segment_bytes"] == [500, 750, 1000]


def test_a_sweep_with_ranges_has_their_values_in_its_written_form(tmp_path: Path) -> None:
    sweep = load_sweep(with_axis(tmp_path, "delay", "{from: 10 ms, to: 1 s, factor: 10}"))
    written = sweep.model_dump(mode="json")

    assert written["delay"] == ["10 ms", "100 ms", "1 s"]
    assert Sweep.model_validate(written) == sweep


@pytest.mark.parametrize(
    ("axis", "written", "message"),
    [
        (
            "delay",
            "{from: 10 ms, to: 28 ms, step: 5 ms}",
            "delay.to: got '28 ms', expected a value that the steps reach",
        ),
        ("delay", "{from: 10 ms, to: 28 ms, step: 5 ms}", "reach: 25 ms or 30 ms"),
        ("file_size", "{from: 1 kB, to: 1 MB, factor: 2}", "file_size.to: got '1 MB', expected a value that the steps"),
        (
            "delay",
            "{from: 10, to: 20 ms, step: 5 ms}",
            "delay.from: got 10, expected a number with one of the units ns",
        ),
        ("delay", "{from: 10 ms, to: 20 ms, step: 5}", "delay.step: got 5, expected a number with one of the units"),
        ("delay", "[1 ms, {from: 10, to: 20 ms, step: 5 ms}]", "delay[1].from: got 10, expected a number with one"),
        (
            "delay",
            "[{from: 1 ms, to: 2 ms, step: 1 ms}, 7]",
            "delay[1]: got 7, expected a number with one of the units",
        ),
        ("delay", "{from: 20 ms, to: 10 ms, step: 5 ms}", "delay.to: got '10 ms', expected more than 20 ms"),
        (
            "delay",
            "{from: 0 ms, to: 10 ms, factor: 10}",
            "delay.from: got '0 ms', expected more than 0 for logarithmic",
        ),
        ("delay", "{from: 1 ms, to: 10 ms, factor: 1}", "delay.factor: got 1, expected a number above 1"),
        ("delay", "{from: 1 ms, to: 10 ms, factor: .inf}", "delay.factor: got inf, expected a number above 1"),
        ("delay", "{from: 1 ms, to: 10 ms, step: 0 ms}", "delay.step: got '0 ms', expected more than 0"),
        ("delay", "{from: 1 ns, to: 3 ns, points: 9}", "delay.points: got 9, expected fewer points"),
        ("delay", "{from: 1 ms, to: 3 ms, points: 1}", "delay.points: got 1, expected a whole number from 2"),
        (
            "delay",
            "{from: 1 ms, to: 3 ms, points: 3, scale: cubic}",
            "delay.scale: got 'cubic', expected linear or log",
        ),
        (
            "delay",
            "{from: 1 ms, to: 3 ms, factor: 3, scale: log}",
            "delay: a range with 'scale' and 'factor', expected",
        ),
        ("delay", "{from: 1 ms, to: 3 ms}", "delay: a range without a spacing, expected one of 'step', 'factor' and"),
        ("delay", "{from: 1 ms, step: 3 ms}", "delay: a range without 'to', expected 'from' and 'to', both included"),
        ("delay", "{from: 1 ms, to: 3 ms, count: 3}", "delay.count: is not a known key; a range has from, to, step"),
        ("delay", "{from: 1 ns, to: 1 h, step: 1 ns}", "delay.step: gives too many values, expected at most 1000"),
        (
            "packet_error_rate",
            "{from: 0.5, to: 1.5, step: 0.5}",
            "packet_error_rate.to: got 1.5, expected a number from",
        ),
        ("rate", "{from: 1 Mbit/s, to: unlimited, factor: 10}", "rate.to: got 'unlimited', expected a limited value"),
    ],
)
def test_a_range_without_sense_is_refused_with_its_key(tmp_path: Path, axis: str, written: str, message: str) -> None:
    assert message in complaint(tmp_path, axis, written)


def test_a_mistake_in_a_range_has_its_line(tmp_path: Path) -> None:
    path = with_axis(tmp_path, "delay", "\n  from: 1 ms\n  to: 3\n  step: 1 ms")

    with pytest.raises(ProfileError, match=r"sweep\.yaml:8: delay\.to: got 3"):
        load_sweep(path)


def test_a_value_of_a_range_that_is_listed_too_is_refused(tmp_path: Path) -> None:
    assert "listed twice" in complaint(tmp_path, "delay", "[2 ms, {from: 1 ms, to: 3 ms, step: 1 ms}]")
