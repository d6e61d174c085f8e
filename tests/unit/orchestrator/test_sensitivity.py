"""What `owlt plan` says that the repetitions of a sweep can decide."""

from __future__ import annotations

from math import exp
from pathlib import Path

import pytest

from owlt.captures.accounting.derived_files import keep
from owlt.captures.accounting.summary import SUMMARY
from owlt.orchestrator.commands.usage import parsed
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.repetitions import Sensitivity, Spread, parse_spread, sensitivity, spread_of
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.results.record import read_record
from tests.unit.orchestrator.small_sweep import at_once, in_memory, small_plan, small_workers, supervise
from tests.unit.orchestrator.test_repetitions import summary

SIX = ["cfdp", "ltp", "norm", "saratoga", "tcp", "udp-blast"]


def of_six(repetitions: object) -> Plan:
    return small_plan("exact", implementations=SIX, repetitions=repetitions)


def decided(plan: Plan, spread: Spread | None = None) -> Sensitivity:
    decides = sensitivity(plan, spread)
    assert decides is not None
    return decides


def shown(plan: Plan, spread: Spread | None = None) -> str:
    return "\n".join(decided(plan, spread).texts())


def recorded(results: Path, repetitions: int, of_errors: float = 0.2) -> Plan:
    """A recorded sweep; in cells with errors, the logarithm of the goodput is -`of_errors`, 0, `of_errors`, ..."""
    plan = small_plan("exact", implementations=["cfdp", "ltp"], packet_error_rate=[0, 0.1], repetitions=repetitions)

    def summarise(directory: Path) -> str:
        record = read_record(directory)
        spread = of_errors if record.packet_error_rate else 0.01
        keep(directory / SUMMARY, summary(1e6 * exp(spread * (record.repetition - 2))))
        return ""

    write_plan(plan, results)
    supervise(plan, results, in_memory(small_workers(plan)), lambda entry: None, summarise, at_once())
    return plan


def test_five_repetitions_of_six_implementations_are_too_few_and_the_number_to_write_is_stated() -> None:
    text = "warning: repetitions: 5: too few to exclude any of 6 implementations"

    assert f"{text}; write at least 'repetitions: 10'" in shown(of_six(5))
    assert "warning" not in shown(of_six(10))


def test_the_least_number_of_adaptive_repetitions_decides() -> None:
    rule = {"at_most": 40, "until_interval_percent": 5}

    assert "write at least 'at_least: 10' with a larger 'at_most'" in shown(of_six(rule | {"at_least": 3}))
    assert "warning" not in shown(of_six(rule | {"at_least": 10}))


def test_one_implementation_has_nothing_to_decide() -> None:
    assert sensitivity(small_plan(), None) is None


def test_without_a_known_spread_there_are_examples_and_what_to_do() -> None:
    text = shown(of_six(10))

    assert "10 repetitions detect a difference between 6 implementations with a probability of 90 % if it is" in text
    assert "(spread of the goodput 1 %), 22 % (spread of the goodput 5 %)" in text
    assert text.endswith("for yours: owlt plan --spread RESULTS, or --spread 5%")


def test_a_stated_spread_gives_the_difference_and_the_repetitions_for_a_smaller_one() -> None:
    text = shown(of_six(10), parse_spread("5%"))

    assert "if it is 22 % (spread of the goodput 5 %); for 5 %, write 'repetitions: " in text
    assert "write 'repetitions: 1" not in shown(of_six(10), parse_spread("1%"))


@pytest.mark.parametrize("text", ["5%", "5 %", "5", "5.0%"])
def test_a_spread_is_a_percentage(text: str) -> None:
    assert parse_spread(text) == Spread(0.05, 0.05)


@pytest.mark.parametrize("text", ["0", "150%", "-5%", "5,5%", "100%", "0.05", "nowhere"])
def test_other_spreads_are_refused_with_the_option(text: str, tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"^--spread: .*(such as 5%|write 0\.05% or 5%)"):
        parsed("--spread", text.replace("nowhere", str(tmp_path)), parse_spread)


def test_the_spread_of_results_is_that_of_their_permutations(tmp_path: Path) -> None:
    recorded(tmp_path, repetitions=3)

    known = spread_of(tmp_path)

    assert known == parse_spread(str(tmp_path))
    assert known is not None
    assert (known.typical, known.largest) == (pytest.approx(0.105, abs=1e-6), pytest.approx(0.2))
    assert known.permutation in ("cfdp_1kB_1Mbps_1ms_per0.1", "ltp_1kB_1Mbps_1ms_per0.1")
    assert f"in {tmp_path}), or " in shown(of_six(10), known)


def test_identical_runs_show_any_difference() -> None:
    assert list(decided(of_six(10), Spread(0.0, 0.0, source="r")).texts())[-1] == (
        "the runs of each cell are identical in r: any difference between 6 implementations is detected"
    )


def test_two_repetitions_have_no_spread(tmp_path: Path) -> None:
    recorded(tmp_path, repetitions=2)

    assert spread_of(tmp_path) is None
    assert spread_of(tmp_path / "missing") is None


def test_a_plan_says_how_many_runs_repeat_what_is_known_and_how_to_skip_them() -> None:
    (text,) = [each for each in shown(of_six(10)).split("\n") if "without random errors" in each]
    rule = {"at_least": 9, "at_most": 10, "until": "decided"}

    assert text.startswith("48 runs of channels without random errors add nothing")  # 6 times 8
    assert text.endswith("write 'repetitions: {at_least: 11, at_most: 12, until: decided}'")
    assert "48 runs of channels without random errors are skipped" in shown(of_six(rule))


def test_on_another_clock_no_run_is_known_before() -> None:
    assert decided(small_plan("skip", implementations=SIX, repetitions=10)).skippable == 0


def test_two_repetitions_are_enough_if_nothing_is_left_to_chance() -> None:
    plan = small_plan("exact", implementations=SIX, repetitions=2, packet_error_rate=0)

    assert "warning" not in shown(plan)
