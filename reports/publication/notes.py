"""The numbers of runs that are written below a figure."""

from __future__ import annotations

from collections.abc import Sequence

from owlt.reports.comparison.cells import Sample


def counts_text(numbers: Sequence[int], samples: Sequence[Sample]) -> str:
    """The number of runs behind each mark, runs that did not complete, and suspect runs: "n = 3 each; 1 suspect"."""
    counts = sorted(set(numbers))
    if not counts:
        return "no runs"
    undelivered = sum(sample.undelivered for sample in samples)
    suspect = sum(sample.suspect for sample in samples)
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return "; ".join(
        [
            f"n = {number} each",
            *([f"{undelivered} of {sum(len(s.tried) for s in samples)} runs not completed"] if undelivered else []),
            *([f"{suspect} suspect"] if suspect else []),
        ]
    )
