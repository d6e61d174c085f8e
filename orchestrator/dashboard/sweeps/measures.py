"""The measures of a recorded run that the dashboard shows, from the summary of its captures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from owlt.captures.accounting.summary import load_summary
from owlt.captures.files.plain_files import read_plain_text
from owlt.orchestrator.results.analysis import FAILURE_NAME
from owlt.reports.comparison.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Measures:
    """`values` are of `METRICS`, in their order and units; None if the captures have no such number."""

    values: tuple[float | None, ...] = (None,) * len(METRICS)
    suspect: tuple[str, ...] = ()
    """Reasons for doubt that the captures give, beside those in the record."""


NO_MEASURES = Measures()


def read_measures(directory: Path) -> Measures:
    """The measures of a run's directory. The numbers are those of a completed transfer: others must not use them."""
    summary = load_summary(directory)
    failure = _analysis_failure(directory)
    if summary is None:
        return Measures(suspect=failure)
    return Measures(tuple(metric.of_summary(summary) for metric in METRICS), (*summary.suspect, *failure))


def _analysis_failure(directory: Path) -> tuple[str, ...]:
    try:
        reason = read_plain_text(directory / FAILURE_NAME).partition("\n")[0]
    except OSError:
        return ()
    return (f"analysis failed: {reason}",)
