"""What a run puts into a command line, and what a command line may ask for."""

import pytest

from owlt.agents.contract.placeholders import RUN_PLACEHOLDERS, RunValues, as_text, mistake_in, names_in, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10_000_000.0, "10000000"),
        (0.0001, "0.0001"),
        (2.5, "2.5"),
        (0, "0"),
        (1e-9, "0.000000001"),
        (1e-13, "0.0000000000001"),
        ("a b", "a b"),
    ],
)
def test_numbers_are_written_without_exponents(value: float | str, text: str) -> None:
    assert as_text(value) == text


def test_a_run_fills_every_placeholder(run_values: RunValues) -> None:
    assert run_values.as_text().keys() == RUN_PLACEHOLDERS.keys()


def test_a_rate_is_given_in_both_units(run_values: RunValues) -> None:
    text = run_values.as_text()

    assert (text["rate_bps"], text["rate_kbps"]) == ("10000000", "10000")


def test_an_unlimited_rate_is_zero(run_values: RunValues) -> None:
    from dataclasses import replace

    assert replace(run_values, rate_bps=None).as_text()["rate_bps"] == "0"


def test_a_value_with_spaces_stays_one_argument() -> None:
    assert render(["--file", "{file}"], {"file": "/a b/c"}) == ["--file", "/a b/c"]


def test_a_value_that_looks_like_a_placeholder_is_left_alone() -> None:
    assert render(["{file}"], {"file": "{seed}"}) == ["{seed}"]


def test_doubled_braces_are_literal() -> None:
    assert mistake_in('{{"seed": {seed}}}', ["seed"]) is None
    assert render(['{{"seed": {seed}}}'], {"seed": "7"}) == ['{"seed": 7}']


def test_the_placeholders_of_a_text_are_those_in_single_braces() -> None:
    assert names_in("{a}:{{b}} {c}") == {"a", "c"}


@pytest.mark.parametrize("template", ["{wrong}", "{}", "{0}", "{seed.real}"])
def test_an_unknown_placeholder_is_a_mistake(template: str) -> None:
    mistake = mistake_in(f"a {template}", ["seed"])

    assert mistake is not None
    assert mistake.problem == f"{template} is not a known placeholder"


@pytest.mark.parametrize("template", ["{seed:d}", "{seed!r}"])
def test_a_placeholder_with_a_conversion_or_a_format_is_a_mistake(template: str) -> None:
    mistake = mistake_in(template, ["seed"])

    assert mistake is not None
    assert str(mistake) == f"got {template!r}, expected {{seed}} without a conversion or a format"


@pytest.mark.parametrize("template", ["{", "}", "{seed"])
def test_an_unpaired_brace_is_a_mistake(template: str) -> None:
    mistake = mistake_in(template, ["seed"])

    assert mistake is not None
    assert mistake.problem.startswith(f"got {template!r}")


def test_a_mistake_in_a_placeholder_lists_the_known_ones() -> None:
    assert "known: rtt_s, seed" in str(mistake_in("{light_time}", ["seed", "rtt_s"]))


def test_a_near_miss_is_answered_with_the_nearest_placeholder() -> None:
    assert "did you mean {seed}?" in str(mistake_in("{sed}", ["seed", "rtt_s"]))
