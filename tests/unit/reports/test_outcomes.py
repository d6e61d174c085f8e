"""How runs end: every way has its place in the report, and some are those that an implementation is responsible for."""

from __future__ import annotations

from owlt.reports.page.tables import OUTCOMES
from owlt.results.record import NOT_DELIVERED, Outcome


def test_the_page_counts_every_outcome() -> None:
    assert list(OUTCOMES) == list(Outcome)


def test_a_known_limit_can_explain_every_outcome_of_an_implementation_but_success() -> None:
    rigs = {Outcome.COMPLETED, Outcome.UNSUPPORTED, Outcome.ABORTED, Outcome.QUARANTINED}

    assert set(Outcome) - rigs == set(NOT_DELIVERED)
