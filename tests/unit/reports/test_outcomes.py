"""How runs end, in the two packages that name the ways: who writes records and who reads them."""

from __future__ import annotations

from typing import get_args

from orchestrator import record as written
from reports import page
from reports import records as read


def test_reports_know_the_outcomes_that_records_have_in_their_order() -> None:
    assert get_args(read.Outcome) == tuple(written.Outcome)


def test_the_page_counts_every_outcome() -> None:
    assert list(page.OUTCOMES) == list(written.Outcome)


def test_both_mean_the_same_by_not_delivered() -> None:
    assert set(read.NOT_DELIVERED) == set(written.NOT_DELIVERED)


def test_a_known_limit_can_explain_whatever_a_build_ends_with_but_its_success() -> None:
    rigs = {written.Outcome.COMPLETED, written.Outcome.UNSUPPORTED, written.Outcome.ABORTED}

    assert set(written.Outcome) - rigs == set(written.NOT_DELIVERED)
