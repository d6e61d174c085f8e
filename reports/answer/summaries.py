"""Each implementation over all cells: in how many it leads, how far behind it is in the others, what it delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owlt.reports.answer.verdicts import Verdict
from owlt.reports.comparison.criteria import Criterion
from owlt.reports.comparison.estimates import Share, share


@dataclass(frozen=True)
class Summary:
    """One implementation. `farthest` is its greatest difference from the best, as a share of the best, in the cells
    where it does not lead; None if there is no such cell with a value."""

    name: str
    led: int
    planned: int
    """The cells in which it is planned."""
    farthest: float | None
    is_farthest_significant: bool
    undelivered: Share | None
    """Of its files; None if no run has a result."""
    suspect: int


def summaries_of(verdicts: Sequence[Verdict], criterion: Criterion) -> tuple[Summary, ...]:
    """All implementations, the one that leads most cells first."""
    names = dict.fromkeys(each.name for verdict in verdicts for each in verdict.standings)
    summaries = [_summary(name, verdicts, criterion) for name in names]
    return tuple(sorted(summaries, key=_order))


def _order(summary: Summary) -> tuple[int, float, float]:
    """Those that lead most cells first; of these, those that delivered most, then those that are least far behind."""
    return -summary.led, summary.undelivered.value if summary.undelivered else 1.0, summary.farthest or 0.0


def behind(verdict: Verdict, best: str, name: str, criterion: Criterion) -> float | None:
    """How far the median of an implementation is behind another, as a share of the other; negative: ahead.

    None if either has no value, or if the other's value is zero.
    """
    ahead, own = verdict.standing(best), verdict.standing(name)
    if ahead is None or own is None or not ahead.median or own.median is None:
        return None
    difference = own.median / ahead.median - 1
    return -difference if criterion.higher_is_better else difference


def _summary(name: str, verdicts: Sequence[Verdict], criterion: Criterion) -> Summary:
    own = [(verdict, standing) for verdict in verdicts if (standing := verdict.standing(name)) is not None]
    differences = [
        (difference, standing.relation == "worse")
        for verdict, standing in own
        if verdict.best and name not in verdict.leaders and standing.relation != "undelivered"
        if (difference := behind(verdict, verdict.best, name, criterion)) is not None
    ]
    farthest, is_significant = max(differences, default=(None, False))
    return Summary(
        name=name,
        led=sum(name in verdict.leaders for verdict, _ in own),
        planned=len(own),
        farthest=farthest,
        is_farthest_significant=is_significant,
        undelivered=share(sum(each.tried - each.delivered for _, each in own), sum(each.tried for _, each in own)),
        suspect=sum(each.suspect for _, each in own),
    )
