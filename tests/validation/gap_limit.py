"""A receiver that keeps only so many gaps of a file, as the CFDP engine of the main paper (20, section 4.1).

Data that would open one gap more are not kept, so that all that follows the last gap is requested again. Each pass
then repairs the file only up to its 21st gap: of N packets with a loss p, about N/2 (N p / 21 - 1) are sent again, as
long as that is more than what was lost. Requests and answers are not lost here, and no time passes between them.

    python -m tests.validation.gap_limit
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

import numpy as np

PACKETS, GAPS, RUNS, SEED = 10_031, 20, 20, 2012
"""The paper's file of 10 MB in packets of 997 bytes, and its limit."""
Gap = tuple[int, int]
"""The first missing packet and the first one after it that is there."""


class Passes(NamedTuple):
    """One transfer."""

    sent: int
    """Data packets, repeated ones included."""
    passes: int
    """How often the sender sent what was missing; the first time the whole file."""

    def goodput_ratio(self, packets: int) -> float:
        """The goodput over that without losses, if sending takes all of the time."""
        return packets / self.sent


def transfer(packets: int, loss: float, most_gaps: int, chance: np.random.Generator) -> Passes:
    """A transfer until the receiver has every packet. Raises ValueError for a limit below 1 or a loss of 1."""
    if most_gaps < 1 or not 0 <= loss < 1:
        raise ValueError(f"a limit of {most_gaps} gaps and a loss of {loss}: expected at least 1, and less than 1")
    gaps = _after_first_pass(chance.random(packets) >= loss, most_gaps)
    sent, passes = packets, 1
    while gaps:
        requested = np.concatenate([np.arange(*gap) for gap in gaps])
        arrived = requested[chance.random(len(requested)) >= loss]
        sent, passes = sent + len(requested), passes + 1
        gaps = _after_repair(gaps, arrived, most_gaps)
    return Passes(sent, passes)


def _after_first_pass(arrives: np.ndarray, most_gaps: int) -> list[Gap]:
    gaps: list[Gap] = []
    edge = 0
    for packet in np.flatnonzero(arrives).tolist():
        if packet > edge:
            if len(gaps) == most_gaps:
                break
            gaps.append((edge, packet))
        edge = packet + 1
    return [*gaps, (edge, len(arrives))] if edge < len(arrives) else gaps


def _after_repair(gaps: list[Gap], arrived: np.ndarray, most_gaps: int) -> list[Gap]:
    """The gaps that packets leave which arrive in their order; what follows the last gap counts as one gap more."""
    left: list[Gap] = []
    for number, (begin, end) in enumerate(gaps):
        waiting = len(gaps) - number - 1
        inside = arrived[(arrived >= begin) & (arrived < end)].tolist()
        for packet in inside:
            if packet == begin:
                begin += 1
            elif packet == end - 1:
                end -= 1
            elif len(left) + 1 + waiting <= most_gaps:
                left.append((begin, packet))
                begin = packet + 1
        if begin < end:
            left.append((begin, end))
    return left


def main() -> None:
    """Print the packets sent again, the passes and the ratio of goodputs at the paper's error rates."""
    chance = np.random.default_rng(SEED)
    for loss in (0.001, 0.01, 0.1):
        runs = [transfer(PACKETS, loss, GAPS, chance) for _ in range(RUNS)]
        again = fmean(run.sent - PACKETS for run in runs)
        passes, ratio = fmean(run.passes for run in runs), fmean(run.goodput_ratio(PACKETS) for run in runs)
        print(f"loss {loss:g}: {again:,.0f} packets more, {passes:.1f} passes, ratio of goodputs {ratio:.3f}")


if __name__ == "__main__":
    main()
