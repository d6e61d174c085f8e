"""The ledgers of all runs, summed up for each permutation and direction: what became of the packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from captures.accounting.ledger import Ledger
from reports.load import Results, Run
from reports.records import Permutation

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
    "unexplained": "unexplained",
}
"""What of a ledger is shown, and its name in the table; the first two and the last one always."""
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
    """A run whose ledger does not close: packets that nobody dropped, and packets that nobody sent."""

    run: Run
    arrow: str
    missing: int
    arrived: int


def ledger_of(run: Run, way: Way) -> Ledger | None:
    """The ledger of one direction; None where there is no summary."""
    if run.summary is None:
        return None
    return run.summary.ledger_forward if way == "forward" else run.summary.ledger_reverse


def ledger_rows(results: Results) -> list[LedgerRow]:
    """A row for each direction of each permutation of which a run has a summary, in the order of the grid."""
    return [
        LedgerRow(point, arrow, len(found), {name: sum(getattr(one, name) for one in found) for name in COLUMNS})
        for point, runs in results.by_permutation.items()
        for way, arrow in _ARROWS.items()
        if (found := [ledger for run in runs if (ledger := ledger_of(run, way)) is not None])
    ]


def shown_columns(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """Those of COLUMNS in which there is anything, and those that are always shown."""
    return {name: text for name, text in COLUMNS.items() if name in _ALWAYS or any(row.counts[name] for row in rows)}


def unexplained(results: Results) -> list[Unexplained]:
    """Every run and direction whose ledger does not close."""
    return [
        Unexplained(run, arrow, ledger.unexplained_missing, ledger.unexplained_arrived)
        for run in results.runs
        for way, arrow in _ARROWS.items()
        if (ledger := ledger_of(run, way)) is not None and ledger.unexplained
    ]


def corrupted_unseen(results: Results) -> int:
    """How many corrupted packets only the emulator counted, for their captures were cut when they were summarised."""
    ledgers = (ledger_of(run, way) for run in results.runs for way in _ARROWS)
    return sum(ledger.corrupted_unseen for ledger in ledgers if ledger is not None)
