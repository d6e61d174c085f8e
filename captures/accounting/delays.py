"""One-way delays in a few numbers. Both captures must have been taken with one clock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict


class DelaySummary(BaseModel):
    """The least, the middle and the greatest one-way delay of `matched` packets, in ns; None if there is
    none.

    p50 and p99 are delays that some packet had (nearest rank; Hyndman and Fan's type 1), not interpolated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    matched: int
    min_ns: int | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


def summarise_delays(delay_ns: NDArray[np.int64]) -> DelaySummary:
    """The summary of the delays, one a packet."""
    if not len(delay_ns):
        return DelaySummary(matched=0)
    least, middle, late, greatest = np.quantile(delay_ns, [0, 0.5, 0.99, 1], method="inverted_cdf").tolist()
    return DelaySummary(matched=len(delay_ns), min_ns=least, p50_ns=middle, p99_ns=late, max_ns=greatest)
