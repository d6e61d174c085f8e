"""Assertions of a sweep: how they are written, held against cells whose verdict is known, on the page, in commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.profiles.load import load_sweep, sweep_of
from owlt.orchestrator.sweep.report import check_assertions
from owlt.reports.answer.assertions import Finding, assertion_of, findings_of
from owlt.reports.comparison.cells import Cell, Point, Sample
from owlt.reports.results.load import load_results
from tests.unit.reports.conftest import few, page_text, plan_of, write_results
from tests.unit.test_documented_commands import JSON_FIELDS

RATE_BPS, DELAY_S, SIZE_BYTES = 10e6, 0.025, 1_000_000
CAPACITY_MBPS = 8 * SIZE_BYTES / (8 * SIZE_BYTES / RATE_BPS + DELAY_S) / 1e6
Values = Sequence[float | None]
"""Goodputs in Mbit/s; None: the file was not delivered."""


def row(goodput: float | None) -> dict[str, Any]:
    bps = None if goodput is None else goodput * 1e6
    channel = {"forward_rate_bps": RATE_BPS, "forward_delay_ns": int(DELAY_S * 1e9), "timeline": None}
    return {
        "outcome": "failed" if goodput is None else "completed",
        "suspect": "",
        "goodput_bps": bps,
        "goodput_to_delivery_bps": bps,
        "rts_sent": None if goodput is None else 10 * goodput,
        "file_size_bytes": SIZE_BYTES,
        **channel,
    }


def cell(values: Mapping[str, Values], error_rate: float = 0.0) -> Cell:
    samples = {name: Sample(tuple(map(row, of_name))) for name, of_name in values.items()}
    return Cell(Point("", RATE_BPS, int(DELAY_S * 1e9), SIZE_BYTES, error_rate), samples)


def written(**keys: Any) -> dict[str, Any]:
    """An assertion as it is in a plan."""
    (only,) = few(assertions=keys, packet_error_rate=[0, 0.01]).assertions
    return dict(only)


def finding(values: Values, **keys: Any) -> Finding:
    (only,) = findings_of([written(**keys)], [cell({"ltp": values})])
    return only


# What is checked


@pytest.mark.parametrize(
    ("values", "keys", "verdict"),
    [
        ([9, 9.5, 9.7], {"at_least": 0.9, "of": "capacity"}, "met"),
        ([8, 8.5, 8.7], {"at_least": 0.9, "of": "capacity"}, "not met"),
        ([8, 8.5, 9.7], {"at_least": "8.5 Mbit/s"}, "met"),
        ([8, 8.5, 9.7], {"at_least": 0.9, "of": "rate"}, "not met"),
        ([8, 8.5, 9.7], {"at_least": 8.7e-1, "of": "rate", "statistic": "mean"}, "met"),
        ([8, 8.5, 9.7], {"at_least": "8.1 Mbit/s", "statistic": "minimum"}, "not met"),
        ([8, 8.5, 9.7], {"at_most": "9.6 Mbit/s", "statistic": "maximum"}, "not met"),
        ([9, None, 9], {"at_least": "8 Mbit/s"}, "met"),
        ([9, None, None], {"at_least": "8 Mbit/s"}, "not met"),
        ([9, None, None], {"at_most": "10 Mbit/s"}, "not met"),
        ([9, None, 9], {"at_least": "8 Mbit/s", "statistic": "mean"}, "not met"),
        ([], {"at_least": "8 Mbit/s"}, "no result"),
    ],
)
def test_an_assertion_about_the_goodput(values: Values, keys: dict[str, Any], verdict: str) -> None:
    assert finding(values, measure="goodput", **keys).verdict == verdict


def test_the_share_of_delivered_files() -> None:
    assert finding([9, None, 9], measure="delivered", at_least=0.6).verdict == "met"
    assert finding([9, None, 9], measure="delivered", at_least=0.7).verdict == "not met"


def test_the_capacity_is_what_bits_and_delay_leave() -> None:
    bound = finding([9], measure="goodput", at_least=0.9, of="capacity").bound

    assert bound == pytest.approx(0.9 * CAPACITY_MBPS * 1e6)


def test_a_share_of_another_implementation_is_of_the_same_statistic_in_the_same_cell() -> None:
    cells = [cell({"ltp": [8, 8, 9], "norm": [10, 10, 1]}), cell({"ltp": [8, 8, 9], "norm": [4, 4, 4]}, 0.01)]
    findings = findings_of([written(measure="goodput", at_least=0.9, of="norm")], cells)

    assert {each.point.packet_error_rate: (each.implementation, each.verdict) for each in findings} == {
        0: ("ltp", "not met"),
        0.01: ("ltp", "met"),
    }


@pytest.mark.parametrize(
    ("limits", "checked"),
    [
        ({}, 4),
        ({"packet_error_rate": 0.01}, 2),
        ({"packet_error_rate": {"from": 0.001}, "implementations": "norm"}, 1),
        ({"delay": {"to": "25 ms"}}, 4),
        ({"rate": "10 Mbit/s", "file_size": ["1 MB"]}, 4),
        ({"delay": {"from": "30 ms"}}, 0),
    ],
)
def test_it_is_about_the_permutations_with_its_values(limits: dict[str, Any], checked: int) -> None:
    cells = [cell({"ltp": [9], "norm+segments=8": [9]}, rate) for rate in (0, 0.01)]

    assert len(findings_of([written(measure="goodput", at_least="1 Mbit/s", **limits)], cells)) == checked


def test_what_is_not_met_comes_first_with_its_value_bound_and_number_of_runs() -> None:
    cells = [cell({"ltp": [9, 9, 9]}), cell({"ltp": [5, 6, None]}, 0.01)]
    first, *_ = findings_of([written(measure="goodput", at_least="6 Mbit/s")], cells)

    assert first.text == (
        "not met: median goodput at least 6 Mbit/s: ltp, 10 Mbit/s, 25 ms, PER 0.01, 1 MB: 5.000 Mbit/s, "
        "expected at least 6.000 Mbit/s (n = 3, 1 not delivered)"
    )


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"measure": "goodput", "at_least": 0.9, "of": "capacity"}, "median goodput at least 0.9 of the capacity: all"),
        ({"measure": "rts", "at_most": 30, "statistic": "maximum"}, "maximum RTS at most 30 packets: all permutations"),
        ({"measure": "delivered", "at_least": 1, "delay": "25 ms"}, "delivered files at least 100 %: 25 ms"),
        (
            {"measure": "total_data", "at_most": "2 MB", "packet_error_rate": {"to": 0.01}},
            "median total data at most 2 MB: up to PER 0.01",
        ),
    ],
)
def test_an_assertion_in_words(keys: dict[str, Any], sentence: str) -> None:
    assert assertion_of(written(**keys)).sentence.startswith(sentence)


# How it is written


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"at_least": 1}, "'measure' and a bound"),
        ({"measure": "speed", "at_least": 1}, "one of goodput"),
        ({"measure": "goodput"}, "has no bound"),
        ({"measure": "goodput", "at_least": "1 Mbit/s", "at_most": "2 Mbit/s"}, "an assertion for each bound"),
        ({"measure": "goodput", "at_least": 1}, "bit/s"),
        ({"measure": "goodput", "at_least": "1 Mbit/s", "of": "capacity"}, "a number"),
        ({"measure": "rts", "at_least": 1, "of": "capacity"}, "only goodput and goodput_to_delivery"),
        ({"measure": "delivered", "at_least": 1, "statistic": "mean"}, "no statistic"),
        ({"measure": "delivered", "at_least": 99}, "a share from 0 to 1"),
        ({"measure": "goodput", "at_least": "1 Mbit/s", "dealy": "1 s"}, "did you mean delay"),
        ({"measure": "goodput", "at_least": "1 Mbit/s", "delay": 25}, "write the unit"),
        ({"measure": "goodput", "at_least": "1 Mbit/s", "statistic": "mode"}, "median, mean, minimum, maximum"),
    ],
)
def test_a_mistake_says_what_was_expected(keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError) as problem:
        few(assertions=[keys])

    assert expected in str(problem.value)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"delay": "3 s"}, "a value of this sweep: 25 ms"),
        ({"delay": "3 s"}, r"or 'delay: \[25 ms, 3 s\]' in the sweep"),
        ({"implementations": "tcp"}, "a value of this sweep: cfdp, norm"),
        ({"at_least": 0.5, "of": "tcp"}, "an implementation of this sweep: cfdp, norm"),
    ],
)
def test_an_assertion_about_nothing_in_the_sweep_is_refused(keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(SweepMistake, match=expected):
        plan_of(few(assertions={"measure": "goodput", "at_least": "1 Mbit/s", **keys}))


def test_a_mistake_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "name: small\nseed: 7\nimplementations: cfdp\nfile_size: 1 MB\nrate: 1 Mbit/s\ndelay: 1 s\n"
        "packet_error_rate: 0\nassertions:\n  - measure: goodput\n    at_least: 1\n"
    )
    with pytest.raises(ProfileError) as problem:
        load_sweep(path)

    assert str(problem.value).startswith(f"{path}:10: assertions")


def test_a_sweep_with_assertions_is_read_back_as_it_was_written() -> None:
    sweep = few(
        assertions=[
            {"measure": "goodput", "at_least": 0.9, "of": "capacity", "delay": {"from": "10 ms"}},
            {"measure": "goodput", "at_most": "9 Mbit/s", "implementations": ["cfdp"], "packet_error_rate": [0, 0.01]},
        ]
    )

    assert sweep_of(json.loads(sweep.model_dump_json())) == sweep


def test_assertions_can_change_without_making_results_those_of_another_sweep(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "results", few())

    assert write_plan(plan_of(few(assertions={"measure": "delivered", "at_least": 1})), directory) is None
    assert load_results(directory).sweep.assertions == [{"measure": "delivered", "at_least": 1}]


# The page and the commands


@pytest.fixture(scope="module")
def asserted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs of which one failed, and the assertions that all files are delivered, and an easy one."""
    assertions = [{"measure": "delivered", "at_least": 1}, {"measure": "goodput", "at_least": "1 kbit/s"}]
    return write_results(tmp_path_factory.mktemp("asserted") / "results", few(assertions=assertions))


def test_the_page_has_every_check_with_its_numbers(asserted: Path) -> None:
    text = page_text(asserted)

    assert "1 of 8 checks that the sweep file asks for failed" in text
    assert "66.67 %" in text
    assert "7 met" in text
    assert 'href="#assertions"' in text


def test_a_page_without_assertions_has_no_section_of_them(reported: Path) -> None:
    assert "assertions" not in (reported / "report" / "index.html").read_text()


def test_the_report_ends_with_a_status_of_its_own_if_one_is_not_met(asserted: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(asserted), "--json"])

    assert result.exit_code == 4
    value = json.loads(result.stdout)
    assert set(value) == JSON_FIELDS["owlt report"]
    assert [each["verdict"] for each in value["assertions"]].count("not met") == 1


def test_without_assertions_nothing_is_checked(reported: Path) -> None:
    assert check_assertions(reported).checks == 0
