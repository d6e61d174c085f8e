"""Which records call for another attempt, and how often."""

from __future__ import annotations

import pytest

from owlt.results.judgements import RULES, is_repeated_later, is_repeated_now, needs_quiet, rule_for
from owlt.results.record import MachineDelay, Outcome, ReasonCode
from tests.unit.orchestrator.making import record


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.ABORTED}))
def test_a_record_that_does_not_blame_the_rig_stands(outcome: Outcome) -> None:
    assert rule_for(record(outcome=outcome)) is None
    assert not is_repeated_now(record(outcome=outcome), attempts=1)
    assert not is_repeated_later(record(outcome=outcome))


def test_an_aborted_run_is_repeated_until_its_attempts_are_used_up() -> None:
    aborted = record(outcome=Outcome.ABORTED)

    assert [is_repeated_now(aborted, attempts) for attempts in (1, 2, 3, 4)] == [True, True, False, False]
    assert is_repeated_later(aborted)


@pytest.mark.parametrize("code", ["channel_unsupported", "not_installed", "not_loaded", "profile"])
def test_what_is_missing_is_tried_again_by_a_later_start_only(code: str) -> None:
    refused = record(outcome=Outcome.ABORTED, reason_code=ReasonCode(code))

    assert not is_repeated_now(refused, attempts=1)
    assert is_repeated_later(refused)


def test_every_rule_is_bounded() -> None:
    assert all(1 <= rule.attempts_per_start < 10 for rule in RULES)


DISTURBED = record(clock="real", machine_delay=MachineDelay(session_ns=10**8, overdue_ns=10**7))


def test_a_disturbed_run_is_repeated_on_a_quiet_machine_until_its_attempts_are_used_up() -> None:
    assert [is_repeated_now(DISTURBED, attempts) for attempts in (1, 2, 3, 4)] == [True, True, False, False]
    assert needs_quiet(DISTURBED)


def test_a_disturbed_run_stands_at_a_later_start() -> None:
    assert not is_repeated_later(DISTURBED)


def test_a_run_with_little_machine_delay_stands() -> None:
    assert rule_for(record(clock="real", machine_delay=MachineDelay(session_ns=10**8, overdue_ns=10**6))) is None
