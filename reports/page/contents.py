"""What a report shows beside its tables: the figures over the sweep, and one run of each implementation."""

from __future__ import annotations

from dataclasses import dataclass

from owlt.reports.comparison.listings import listings, needs_listings
from owlt.reports.comparison.panels import Figure, comparisons, portraits
from owlt.reports.results.load import Results
from owlt.reports.sessions.protocols import ShownRun, shown_runs


@dataclass(frozen=True)
class Contents:
    """Figures of all implementations, figures of one each, and the runs whose messages are shown."""

    compared: tuple[Figure, ...]
    portrayed: tuple[Figure, ...]
    shown_runs: tuple[ShownRun, ...]

    @classmethod
    def of(cls, results: Results) -> Contents:
        """The contents for a results directory; a single implementation has only figures over the sweep."""
        return cls(
            compared=tuple(listings(results) if needs_listings(results) else comparisons(results)),
            portrayed=tuple(portraits(results)) if len(results.implementations) > 1 else (),
            shown_runs=tuple(shown_runs(results)),
        )
