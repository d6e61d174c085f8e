"""The ledgers of all runs, summed for each permutation and direction: what happened to the packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from owlt.captures.accounting.ledger import Ledger
from owlt.reports.results.load import Results, Run
from owlt.results.record import Permutation

Way = Literal["forward", "reverse"]

COLUMNS = {
    "sent": "sent",
    "delivered": "delivered",
    "corrupted": "corrupted",
    "lost": "lost",
    "queue": "queue",
    "mtu": "too long",
    "in_flight": "in flight",
    "unrecognised": "unrecognised",
    "undetermined": "undetermined",
    "duplicated": "duplicated",
    "reordered": "reordered",
    "ecn_capable": "ECT",
    "ecn_marked": "CE",
    "unexplained": "unexplained",
}
"""The counts of a ledger and their names in the table."""
_ALWAYS = ("sent", "delivered", "unexplained")
_ARROWS: dict[Way, str] = {"forward": "→", "reverse": "←"}


@dataclass(frozen=True)
class LedgerRow:
    """The sums of one direction over the runs of a permutation that have a summary."""

    permutation: Permutation
    arrow: str
    runs: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Unexplained:
    """A run whose ledger does not balance: packets missing without a recorded drop, or never sent."""

    run: Run
    arrow: str
    missing: int
    arrived: int


def ledger_of(run: Run, way: Way) -> Ledger | None:
    """The ledger of one direction; None if there is no summary."""
    if run.summary is None:
        return None
    return run.summary.ledger_forward if way == "forward" else run.summary.ledger_reverse


def ledger_rows(results: Results) -> list[LedgerRow]:
    """A row for each permutation that has a run with a summary, and for each direction, in the order of the grid."""
    return [
        LedgerRow(point, arrow, len(ledgers), _sums(ledgers))
        for point, runs in results.by_permutation.items()
        for way, arrow in _ARROWS.items()
        if (ledgers := [ledger for run in runs if (ledger := ledger_of(run, way)) is not None])
    ]


def _sums(ledgers: Sequence[Ledger]) -> dict[str, int]:
    return {name: sum(getattr(ledger, name) or 0 for ledger in ledgers) for name in COLUMNS}


def shown_columns(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """Those of COLUMNS that have a count, and those that are always shown."""
    return {name: text for name, text in COLUMNS.items() if name in _ALWAYS or any(row.counts[name] for row in rows)}


def unexplained(results: Results) -> list[Unexplained]:
    """Every run and direction whose ledger does not balance."""
    return [
        Unexplained(run, arrow, ledger.unexplained_missing, ledger.unexplained_arrived)
        for run in results.runs
        for way, arrow in _ARROWS.items()
        if (ledger := ledger_of(run, way)) is not None and ledger.unexplained
    ]


def corrupted_unseen(results: Results) -> int:
    """The number of corrupted packets that only the emulator counted, because captures were cut."""
    ledgers = (ledger_of(run, way) for run in results.runs for way in _ARROWS)
    return sum(ledger.corrupted_unseen for ledger in ledgers if ledger is not None)
