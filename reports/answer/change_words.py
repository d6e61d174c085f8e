"""What changed, in words and in the cells of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from owlt.reports.answer.change_tests import Overall, Series
from owlt.reports.answer.changes import CHANGED, ORDER, Change, Relation
from owlt.reports.answer.regions import dimensions_of, place_text
from owlt.reports.answer.sentences import percent_text
from owlt.reports.comparison.cells import Criterion, Point, SampleNumbers
from owlt.reports.comparison.differences import Ratio
from owlt.reports.comparison.estimates import Share
from owlt.reports.units import listed

SUMMARISED: dict[Relation, str] = {
    "no result": "without a result on a side",
    "removed": "only before (removed)",
    "added": "only after (added)",
}
"""The changes that have one line for all permutations, and its head."""
LEAST_P, MOST_P = 0.001, 0.99
MOST_NAMED = 6


def places_of(points: Sequence[Point]) -> partial[str]:
    """A function that writes the place of a permutation: "1250 ms, PER 0.01"."""
    return partial(place_text, dimensions=dimensions_of(points))


def headline(overall: Sequence[Overall], changes: Sequence[Change]) -> list[str]:
    """The result in sentences, the regressions first."""
    worse = [_regression(each) for each in overall if each.is_worse]
    counts = Counter(change.relation for change in changes)
    sentences = [f"Worse: {'; '.join(worse)}."] if worse else ["No regression is shown."]
    if counts["better"]:
        sentences.append(f"Better in {_permutations(counts['better'])}.")
    if identical := sum(change.identical for change in changes):
        runs = sum(change.after.planned for change in changes if change.after)
        sentences.append(f"{identical} of {runs} runs are identical to one before: same seed, packets and times.")
    if few := counts["too few runs"] - sum(
        each.relations.get("too few runs", 0) for each in overall if each.verdict == "too few cells"
    ):
        sentences.append(f"{_permutations(few).capitalize()} with too few runs were judged over all cells only.")
    if not_judged := sum(each.not_judged for each in overall):
        sentences.append(f"Not judged: {_permutations(not_judged)} ({_reasons(overall, changes)}).")
    return sentences


def _regression(overall: Overall) -> str:
    parts = []
    if cells := overall.relations.get("worse", 0):
        parts.append(f"in {cells} of {_permutations(sum(overall.relations.values()))}")
    if overall.verdict == "worse" and overall.ratio:
        parts.append(f"over all cells ({change_text(overall.ratio)})")
    if overall.delivers == "worse" and overall.before and overall.after:
        parts.append(f"in undelivered files ({share_text(overall.before)} before, {share_text(overall.after)} after)")
    return f"{overall.implementation} {listed(parts)}"


def _permutations(number: int) -> str:
    return "1 permutation" if number == 1 else f"{number} permutations"


def _reasons(overall: Sequence[Overall], changes: Sequence[Change]) -> str:
    """Why permutations are not judged, each reason with its number."""
    few = {each.implementation for each in overall if each.verdict == "too few cells"}
    relations = [
        change.relation
        for change in changes
        if change.relation in ("removed", "no result")
        or (change.relation == "too few runs" and change.implementation in few)
    ]
    words = {"removed": "only before", "no result": "without a result", "too few runs": "with too few runs"}
    texts = [f"{number} {words[relation]}" for relation, number in Counter(relations).items()]
    needed = [change.repetitions_needed or 0 for change in changes if change.relation == "too few runs"]
    more = f"; at least {min(needed)} repetitions are needed" if "too few runs" in relations and needed else ""
    return ", ".join(texts) + more


def changed(changes: Sequence[Change]) -> list[Change]:
    """Those that are listed: regressions and improvements."""
    return [change for change in changes if change.relation in CHANGED]


def rest_texts(changes: Sequence[Change]) -> list[str]:
    """The permutations that are not listed: a line for each of `SUMMARISED`, and one for those without a change."""
    counts = Counter(change.relation for change in changes)
    lines = [_summary(relation, changes) for relation in SUMMARISED if counts[relation]]
    shown = {*CHANGED, *SUMMARISED}
    unchanged = [f"{counts[relation]} {relation}" for relation in ORDER if counts[relation] and relation not in shown]
    return [*lines, *([f"without a shown change: {', '.join(unchanged)}"] if unchanged else [])]


def _summary(relation: Relation, changes: Sequence[Change]) -> str:
    """ "only before (removed): 24 permutations: cfdp 12 of 12, ltp 12 of 36; 1250 ms"."""
    own = [change for change in changes if change.relation == relation]
    of_all = Counter(change.implementation for change in changes)
    of_each = Counter(change.implementation for change in own).most_common()
    names = [f"{name} {number} of {of_all[name]}" for name, number in of_each[:MOST_NAMED]]
    names += [f"{len(of_each) - MOST_NAMED} more implementations"] if len(of_each) > MOST_NAMED else []
    where = [
        each.phrase([value for value in each.values if value in values])
        for each in dimensions_of([change.point for change in changes])
        if len(values := {each.of(change.point) for change in own}) < len(each.values)
    ]
    return "; ".join([f"{SUMMARISED[relation]}: {_permutations(len(own))}: {', '.join(names)}", *where])


def change_text(size: Ratio | None) -> str:
    """A ratio as a change with its interval: "−32 % (−34 to −30 %)"; "–" if there is none."""
    if size is None:
        return "–"
    low, high = (_signed(bound) for bound in (size.low, size.high))
    return f"{_signed(size.value)} ({low.removesuffix(' %') if high.endswith(' %') else low} to {high})"


def _signed(value: float) -> str:
    """The change of a ratio: "−32 %", "+5.0 %", "×12" from ten times on."""
    if value >= 10:
        return f"×{value:.3g}"
    text = percent_text(abs(value - 1))
    return text if text == "0 %" else f"{'−' if value < 1 else '+'}{text}"


def median_text(side: SampleNumbers | None, criterion: Criterion) -> str:
    """A median; "–" if there is none."""
    return "–" if side is None or side.median is None else criterion.metric.text(side.median)


def delivered_text(side: SampleNumbers | None) -> str:
    """The delivered files of those tried: "9/10"; "–" without a run."""
    return f"{side.delivered}/{side.tried}" if side and side.tried else "–"


def share_text(share: Share | None) -> str:
    """A share of undelivered files: "2 of 36"; "–" without a run."""
    return f"{share.count} of {share.n}" if share else "–"


def p_text(p: float | None) -> str:
    """A p-value: "0.02", "< 0.001", "> 0.99"; "none shown" for 1, no difference at all or none left after Holm's
    correction; "–" without a test."""
    if p is None:
        return "–"
    if p == 1:
        return "none shown"
    return f"< {LEAST_P}" if p < LEAST_P else f"{p:.2g}" if p <= MOST_P else f"> {MOST_P}"


def p_over_cells_text(each: Overall) -> str:
    """The p-value of an implementation over all cells, or why it cannot say anything."""
    if each.verdict == "too few cells":
        return f"too few cells: {each.cells} of at least {each.cells_needed}"
    return "identical" if each.verdict == "identical" else p_text(each.p_holm)


def p_of_change_text(change: Change) -> str:
    """The p-value of a permutation, or why it cannot say anything."""
    if change.relation == "too few runs" and change.before and change.after:
        return f"too few runs: {change.before.tried} and {change.after.tried}"
    return p_text(change.p_holm)


def nights_headline(series: Sequence[Series], labels: Sequence[str]) -> list[str]:
    """The change points of many nights in sentences, those for the worse first."""
    worse = [each for each in series if each.ended_worse]
    changed = sum(bool(each.changes) for each in series)
    sentences = ["No permutation ended worse than before its last change."]
    if worse:
        nights = Counter(each.changes[-1].night for each in worse)
        texts = [f"{_permutations(number)} since {labels[night]}" for night, number in sorted(nights.items())]
        sentences = [f"Worse: {listed(texts[-MOST_NAMED:])}."]
    sentences.append(f"{changed} of {_permutations(len(series))} changed over {len(labels)} directories.")
    if few := sum(not each.is_testable for each in series):
        sentences.append(f"Not judged: {_permutations(few)} with too few runs.")
    return sentences


def change_points_text(series: Series, labels: Sequence[str]) -> str:
    """The change points of a permutation: "night-3 −31 % (−33 to −30 %)"."""
    return "; ".join(f"{labels[each.night]} {change_text(each.ratio)}" for each in series.changes)
