"""How the runs of each implementation ended, counted."""

from __future__ import annotations

from collections import Counter

from owlt.reports.results.load import Results
from owlt.results.record import Outcome

OUTCOMES: tuple[str, ...] = tuple(Outcome)
COLUMNS = {name: name.replace("_", " ") for name in OUTCOMES} | {
    "missing": "not yet run",
    "suspect": "suspect",
    "without_numbers": "no numbers",
}
"""The counts of an implementation's runs, and their names in the table."""


def outcome_counts(results: Results) -> dict[str, Counter[str]]:
    """By implementation: the number of runs that were planned, and of those in each of COLUMNS."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in results.implementations}
    for permutation, planned in results.planned.items():
        runs = results.by_permutation[permutation]
        counts[permutation.implementation] += Counter(run.record.outcome for run in runs) + Counter(
            planned=planned,
            missing=planned - len(runs),
            suspect=sum(bool(run.suspect) for run in runs),
            without_numbers=sum(run.completed and run.summary is None for run in runs),
        )
    return counts


def shown_columns(counts: dict[str, Counter[str]]) -> dict[str, str]:
    """Those of COLUMNS in which any implementation has a run."""
    return {name: text for name, text in COLUMNS.items() if any(of_one[name] for of_one in counts.values())}
