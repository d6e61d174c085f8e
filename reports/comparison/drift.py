"""Whether conditions drifted while a sweep was performed: the trend of the goodput of its baseline.

The trend is the Theil-Sen slope: the median of the slopes between all pairs of runs, with its interval by Sen (1968). A
single run that was disturbed does not decide it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

from owlt.reports.comparison.metrics import METRICS
from owlt.reports.results.load import Results, Run

GOODPUT = next(metric for metric in METRICS if metric.slug == "goodput")
LEAST_RUNS = 4
"""With fewer runs, the interval of a slope has no meaning."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Drift:
    """The change of the goodput from the first run of the baseline to the last, as a share of its median."""

    runs: int
    """Those that have a goodput."""
    change: float
    least: float
    most: float
    """The bounds of the change, with the confidence CONFIDENCE."""

    @property
    def text(self) -> str:
        """The change in words."""
        interval = f"{CONFIDENCE:.0%} interval {self.least:+.1%} to {self.most:+.1%}"
        return f"{self.change:+.1%} from the first to the last of {self.runs} runs ({interval})"

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.least > 0 or self.most < 0


def drift_of(results: Results) -> Drift | None:
    """The drift of a sweep; None if it has no baseline, or too few runs of it have a goodput."""
    runs = [run for run in results.runs if run.record.run_id in results.baseline]
    values = [(_position(run), value) for run in runs if (value := GOODPUT.of(run)) is not None]
    if len(values) < LEAST_RUNS:
        return None
    positions, goodputs = np.array(values).T
    slope, _, low, high = theilslopes(goodputs, positions, alpha=CONFIDENCE)
    whole = (positions.max() - positions.min()) / float(np.median(goodputs))
    return Drift(len(values), float(slope * whole), float(low * whole), float(high * whole))


def _position(run: Run) -> float:
    """When a run was performed: by the wall clock on the clock real, else by its place in the order."""
    started_ns = run.record.started_at_ns
    return started_ns / 1e9 if run.record.clock == "real" and started_ns is not None else float(run.record.order)
