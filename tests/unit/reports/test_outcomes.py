"""How runs end, in the two packages that name the ways: who writes records and who reads them."""

from __future__ import annotations

from typing import get_args

from owlt.orchestrator.results import record as written
from owlt.reports.page.outcomes import OUTCOMES
from owlt.reports.results import records as read


def test_reports_know_the_outcomes_that_records_have_in_their_order() -> None:
    assert get_args(read.Outcome) == tuple(written.Outcome)


def test_the_page_counts_every_outcome() -> None:
    assert list(OUTCOMES) == list(written.Outcome)


def test_both_mean_the_same_by_not_delivered() -> None:
    assert set(read.NOT_DELIVERED) == set(written.NOT_DELIVERED)


def test_a_known_limit_can_explain_every_outcome_of_an_implementation_but_success() -> None:
    rigs = {written.Outcome.COMPLETED, written.Outcome.UNSUPPORTED, written.Outcome.ABORTED}
    rigs.add(written.Outcome.QUARANTINED)

    assert set(written.Outcome) - rigs == set(written.NOT_DELIVERED)
