"""The change of each implementation over all cells that two results directories have in common.

Small changes that no cell shows alone show in all cells together: the ratios of the medians have the signed-rank test
of Wilcoxon, and the typical ratio is the estimate that belongs to it (Hodges and Lehmann 1963, on logarithms) with its
interval. Shares of undelivered files are compared by Fisher's exact test. Holm's correction is for the number of
implementations, of each of the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

import numpy as np
from scipy import stats

from owlt.reports.changes.permutations import Change, Relation, loss
from owlt.reports.comparison.criteria import Criterion
from owlt.reports.comparison.differences import SIGNIFICANCE, Ratio, holm
from owlt.reports.comparison.estimates import Share, share

Verdict = Literal["worse", "better", "no difference", "identical", "too few cells"]
NOT_JUDGED: tuple[Relation, ...] = ("removed", "no result")


@dataclass(frozen=True)
class Overall:
    """One implementation over all common cells."""

    implementation: str
    verdict: Verdict
    """By the ratio of the medians."""
    cells: int
    """Those that have a ratio."""
    ratio: Ratio | None
    """The typical ratio, after over before; None if no cell has one."""
    p_holm: float | None
    before: Share | None
    """Of undelivered files, in the common cells."""
    after: Share | None
    p_undelivered: float | None
    """Of the difference of the shares, after Holm's correction."""
    delivers: Literal["worse", "better", "no difference"]
    relations: dict[Relation, int]
    """The number of its permutations by their change."""

    @property
    def is_worse(self) -> bool:
        """Whether it regressed: in a cell, over all cells, or in what it delivers."""
        return "worse" in (self.verdict, self.delivers) or bool(self.relations.get("worse"))

    @property
    def not_judged(self) -> int:
        """The permutations that cannot be judged: removed, without a result; or with too few runs, if all
        cells together are too few, too."""
        few = self.relations.get("too few runs", 0) if self.verdict == "too few cells" else 0
        return few + sum(self.relations.get(relation, 0) for relation in NOT_JUDGED)


def overall_of(changes: Sequence[Change], criterion: Criterion, tolerance: float) -> list[Overall]:
    """Each implementation, in the order of their names."""
    by_name: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.implementation):
        by_name.setdefault(change.implementation, []).append(change)
    logs = [_logs(own) for own in by_name.values()]
    undelivered = [_undelivered(own) for own in by_name.values()]
    p_ratios = holm([_wilcoxon(each) for each in logs])
    p_undelivered = holm([_fisher(*each) for each in undelivered])
    return [
        Overall(
            implementation=name,
            verdict=_verdict(own, size, p_ratio, len(by_name), criterion, tolerance),
            cells=len(each),
            ratio=size,
            p_holm=p_ratio,
            before=shares[0],
            after=shares[1],
            p_undelivered=p_share,
            delivers=_delivers(*shares, p_share),
            relations=dict(Counter(change.relation for change in own)),
        )
        for (name, own), each, shares, p_ratio, p_share in zip(
            by_name.items(), logs, undelivered, p_ratios, p_undelivered, strict=True
        )
        for size in [_typical(each)]
    ]


def _logs(changes: Sequence[Change]) -> list[float]:
    return [log(change.ratio.value) for change in changes if change.ratio]


def _wilcoxon(logs: Sequence[float]) -> float | None:
    """The two-sided p-value; differences of zero count half to either side. None without a value."""
    if not logs:
        return None
    if not any(logs):
        return 1.0
    return float(stats.wilcoxon(logs, zero_method="zsplit").pvalue)


def _typical(logs: Sequence[float]) -> Ratio | None:
    """The median of all means of two, and its interval: between two of these means, counted as the test counts."""
    if not logs:
        return None
    values = np.asarray(logs)
    first, second = np.triu_indices(len(values))
    means = np.sort((values[first] + values[second]) / 2)
    place, confidence = _place(len(values))
    return Ratio(exp(np.median(means)), exp(means[place - 1]), exp(means[-place]), confidence)


def _place(n: int) -> tuple[int, float]:
    """The place of the interval's lower end among the sorted means, from 1, and its confidence."""
    counts = np.array([1.0])  # how many sets of the ranks 1 to n have each sum
    for rank in range(1, n + 1):
        longer = np.zeros(len(counts) + rank)
        longer[: len(counts)] += counts / 2
        longer[rank:] += counts / 2
        counts = longer
    below = np.cumsum(counts)
    place = max(int(np.searchsorted(below, SIGNIFICANCE / 2, side="right")), 1)
    return place, float(max(0.0, 1 - 2 * below[place - 1]))


def _undelivered(changes: Sequence[Change]) -> tuple[Share | None, Share | None]:
    common = [change for change in changes if change.before and change.after]
    sides = ([change.before for change in common], [change.after for change in common])
    before, after = (
        share(sum(side.tried - side.delivered for side in own if side), sum(side.tried for side in own if side))
        for own in sides
    )
    return before, after


def _fisher(before: Share | None, after: Share | None) -> float | None:
    if before is None or after is None:
        return None
    table = [[each.count, each.n - each.count] for each in (before, after)]
    return float(stats.fisher_exact(table).pvalue)


def _verdict(
    changes: Sequence[Change],
    size: Ratio | None,
    p_holm: float | None,
    implementations: int,
    criterion: Criterion,
    tolerance: float,
) -> Verdict:
    if all(change.relation == "identical" for change in changes):
        return "identical"
    cells = sum(change.ratio is not None for change in changes)
    if size is None or p_holm is None or 2.0 ** (1 - cells) * implementations > SIGNIFICANCE:
        return "too few cells"
    if p_holm > SIGNIFICANCE or abs(loss(size.value, criterion)) <= tolerance:
        return "no difference"
    return "worse" if loss(size.value, criterion) > 0 else "better"


def _delivers(
    before: Share | None, after: Share | None, p_holm: float | None
) -> Literal["worse", "better", "no difference"]:
    if before is None or after is None or p_holm is None or p_holm > SIGNIFICANCE:
        return "no difference"
    return "worse" if after.value > before.value else "better"
