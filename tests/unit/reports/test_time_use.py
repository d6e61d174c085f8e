"""Where the time of a sweep's runs went, held against runs whose time was spent on known things."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.captures.inspection.critical_path import KINDS
from owlt.captures.inspection.time_account import Spent, TimeAccount
from owlt.reports.answer.answer import answer_of
from owlt.reports.answer.reasons import Accounts, _seconds, largest_shares
from owlt.reports.answer.regions import dimensions_of
from owlt.reports.comparison.cells import GOODPUT, TO_DELIVERY, Cell, Point, Sample, TimeUse, shown_kinds, time_use
from owlt.reports.results.columns import time_column
from owlt.reports.results.rows import Row
from tests.unit.reports.conftest import measured_row

DELAY_S = 0.25
SECOND = 10**9


def account(**seconds: float) -> TimeAccount:
    """An account of a sender's session: `recovery_propagation=0.5`, in s; a file of 1 s over a delay of DELAY_S."""
    words = {key: key.partition("_") for key in seconds}
    spent = [
        Spent.model_validate(
            {"phase": phase, "kind": kind.replace("_", " "), "host": "sender", "total_ns": round(seconds[key] * SECOND)}
        )
        for key, (phase, _, kind) in words.items()
    ]
    total_ns = sum(each.total_ns for each in spent)
    least_ns = round((1 + DELAY_S) * SECOND)
    return TimeAccount(session_ns=total_ns, delivered_ns=None, least_ns=least_ns, spent=spent, causes=[])


BARE = {"transfer_new_data": 1.0, "transfer_propagation": DELAY_S, "closing_propagation": DELAY_S}


def row_of(run_id: str, made: TimeAccount | None, seed: int = 0, **columns: Any) -> Row:
    """A row of the table of runs, whose goodput is that of its session."""
    spent = {time_column(kind): made.total_ns([kind]) if made else None for kind in KINDS}
    session_s = made.session_ns / SECOND if made else 1.5
    return measured_row(8 / session_s, seed, run_id=run_id, **(spent | columns))


def use_of(*made: TimeAccount | None) -> TimeUse | None:
    return time_use(Sample(tuple(row_of(str(number), each) for number, each in enumerate(made))))


def cell_of(error_rate: float, **made: TimeAccount) -> tuple[Cell, Accounts]:
    """A cell with ten equal runs of each implementation, and their accounts."""
    samples, accounts = {}, {}
    for name, each in made.items():
        ids = [f"{name}-{error_rate:g}-{seed}" for seed in range(10)]
        samples[name] = Sample(tuple(row_of(run_id, each, seed) for seed, run_id in enumerate(ids)))
        accounts |= dict.fromkeys(ids, each)
    return Cell(Point("", 1e7, round(DELAY_S * SECOND), 10**6, error_rate), samples), accounts


def sentences(cell: Cell, accounts: Accounts, slug: str = GOODPUT.slug) -> str:
    answer = answer_of([cell], accounts=accounts)
    assert answer is not None
    (chosen,) = [each for each in answer.by_criterion if each.criterion.slug == slug]
    return " ".join(sentence for region in chosen.regions for sentence in region.sentences)


# The means


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0124, "0.012 s"), (1.944, "1.94 s"), (99.96, "100 s"), (999.6, "1000 s"), (1234.5, "1234 s")],
)
def test_times_in_sentences_have_no_exponent(seconds: float, text: str):
    assert _seconds(seconds) == text


def test_the_parts_of_a_mean_session_add_up_to_its_time() -> None:
    use = use_of(account(**BARE), account(**BARE, recovery_waiting=0.7), account(**BARE, opening_timer=1.1))
    assert use is not None

    assert sum(use.totals_ns.values()) == sum(use.sessions_ns) == 3 * 1_500_000_000 + 1_800_000_000
    assert sum(use.seconds(kind) for kind in KINDS) == pytest.approx(use.mean_s)
    assert sum(use.share(kind) for kind in KINDS) == pytest.approx(1)


def test_a_wait_that_one_run_in_three_has_is_in_the_mean() -> None:
    use = use_of(account(**BARE), account(**BARE), account(**BARE, recovery_timer=0.9))
    assert use is not None

    assert (use.seconds("timer"), use.median_s) == (pytest.approx(0.3), 1.5)


def test_runs_without_an_account_are_not_counted() -> None:
    use = use_of(account(**BARE), None)
    assert use is not None

    assert (use.runs, use.mean_s) == (1, 1.5)
    assert use_of(None) is None


def test_runs_whose_file_was_not_delivered_are_not_counted() -> None:
    made = account(**BARE)
    rows = row_of("a", made), row_of("b", account(**BARE, recovery_timer=60.0), outcome="timed_out")
    use = time_use(Sample(rows))
    assert use is not None

    assert use.sessions_ns == (made.session_ns,)


def test_a_kind_that_no_reader_would_see_is_not_shown() -> None:
    uses = [use_of(account(**BARE, opening_processing=0.001)), use_of(account(**BARE, recovery_queueing=0.1))]

    assert shown_kinds(use for use in uses if use) == ["new data", "queueing", "propagation"]


# The reasons


def test_the_answer_says_what_the_slower_one_spends_more_time_on() -> None:
    slow = account(**BARE, recovery_waiting=0.61, recovery_propagation=0.75)
    text = sentences(*cell_of(0.03, saratoga=account(**BARE, recovery_propagation=0.5), ltp=slow))

    assert text.endswith(
        "saratoga takes 0.86 s less than ltp: ltp spends 0.61 s on unexplained idle time of the sender "
        "and 0.75 s on round trips during loss recovery; saratoga spends 0 s and 0.5 s."
    )


def test_a_small_part_of_a_difference_is_not_named() -> None:
    slow = account(**BARE, recovery_waiting=0.9, opening_propagation=0.1)

    assert "spends 0.9 s on unexplained idle time of the sender; cfdp spends 0 s." in sentences(
        *cell_of(0.03, cfdp=account(**BARE), ltp=slow)
    )


def test_time_after_delivery_is_no_reason_for_a_later_delivery() -> None:
    slow = account(**BARE, recovery_timer=0.5, closing_waiting=5.0)
    cell, accounts = cell_of(0.03, cfdp=account(**BARE), ltp=slow)

    assert "cfdp delivers 0.5 s earlier than ltp: ltp spends 0.5 s on timers of the sender" in sentences(
        cell, accounts, TO_DELIVERY.slug
    )


def test_round_trips_while_the_file_is_sent_are_all_but_the_one_propagation() -> None:
    slow = account(**BARE | {"transfer_propagation": DELAY_S + 1.5})

    assert "spends 1.5 s on round trips during the first transmission of the file; cfdp spends 0 s." in sentences(
        *cell_of(0, cfdp=account(**BARE), tcp=slow)
    )


def test_without_accounts_the_answer_has_no_reasons() -> None:
    cell, accounts = cell_of(0.03, cfdp=account(**BARE), ltp=account(**BARE, recovery_waiting=1.0))
    some = dict(list(accounts.items())[:-1])

    assert "spends" in sentences(cell, accounts)
    assert "spends" not in sentences(cell, {})
    assert "spends" not in sentences(cell, some)


def test_equal_ones_have_no_reason() -> None:
    assert "spends" not in sentences(*cell_of(0, cfdp=account(**BARE), ltp=account(**BARE)))


def test_the_largest_avoidable_share_is_named_with_its_place() -> None:
    (clean, of_clean), (lossy, of_lossy) = (
        cell_of(0, norm=account(**BARE), cfdp=account(**BARE)),
        cell_of(0.01, norm=account(**BARE, recovery_waiting=2.35), cfdp=account(**BARE)),
    )
    cells = [clean, lossy]

    assert largest_shares(cells, dimensions_of([cell.point for cell in cells]), {**of_clean, **of_lossy}) == [
        "norm spends 61 % of its session time on unexplained idle time of the sender at PER 0.01."
    ]
