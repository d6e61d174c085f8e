"""The answer in sentences: which implementation to take in each region, and how the others compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median
from typing import NamedTuple

from owlt.reports.answer.cell_verdicts import Standing, Summary, Verdict
from owlt.reports.answer.regions import Region, candidates_in, dimensions_of, place_text
from owlt.reports.comparison.cells import Cell, Criterion, Point, Sample
from owlt.reports.comparison.choice import ERROR, Rule
from owlt.reports.units import all_of, listed

WITHOUT_DIFFERENCE = 0.01
"""A smaller difference is not worth a number."""
NO_DIFFERENCE = 0.0005
"""A smaller difference is not visible in the numbers."""
DOUBLE = 1.0
"""From this surplus on, "2 times as much" instead of a percentage."""
MOST_NAMED = 5
"""The most other implementations that a sentence describes."""
MOST_CHOICES = 3
"""The most choices that the headline names."""


class Headline(NamedTuple):
    """The answer in a few sentences: what to take where and where that is undecided, and how the others stand."""

    choice: str
    others: str
    """"" if there is nothing to say about them."""

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.choice} {self.others}".rstrip()


def headline(criterion: Criterion, summaries: Sequence[Summary], regions: Sequence[Region], margin: float) -> Headline:
    """The headline of the answer, from the regions."""
    cells = sum(len(region.verdicts) for region in regions)
    decided = _choices([region for region in regions if region.take and not region.is_undecided])
    undecided = _choices([region for region in regions if region.is_undecided])
    if criterion.is_share and _all_delivered(regions):
        return Headline(f"Each implementation delivered every file{criterion.within}: no difference is seen.", "")
    if not decided and not undecided:
        return Headline("No implementation delivered more than half of its files in any cell.", "")
    sentences = []
    others: list[str] = []
    if decided:
        first, *rest = decided
        sentences.append(_recommended_first(first, criterion, cells, len(summaries), margin))
        others = _others(first, criterion, is_everywhere=first.cells == cells)
        if rest:
            named = [f"{either(each.names)} in {_number_of(each)}" for each in rest[:MOST_CHOICES]]
            more = sum(each.cells for each in rest[MOST_CHOICES:])
            sentences.append(f"Elsewhere {listed([*named, *([f'others in {_cells(more)}'] if more else [])])}.")
    if undecided:
        sentences.append(_undecided(undecided, criterion, cells, is_all=not decided))
    failures = [each for each in summaries if each.undelivered and each.undelivered.count]
    named_first = (decided or undecided)[0].names
    sentences += [
        f"{each.name} delivered {each.undelivered.n - each.undelivered.count} of {each.undelivered.n} files."
        for each in failures
        if each.name in named_first and each.undelivered
    ]
    nothing = [
        each.name
        for each in failures
        if each.undelivered and each.undelivered.count == each.undelivered.n and each.name not in named_first
    ]
    if nothing:
        others.append(f"{_some(nothing)} delivered no file.")
    return Headline(" ".join(sentences), " ".join(others))


def _some(names: Sequence[str]) -> str:
    """The first of these names, with the number of the rest."""
    more = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def _all_delivered(regions: Sequence[Region]) -> bool:
    return all(each.median == 100 for region in regions for verdict in region.verdicts for each in verdict.standings)


class _Named(NamedTuple):
    """A choice of the headline: names, the number of cells, and the places of their regions."""

    names: tuple[str, ...]
    cells: int
    places: tuple[str, ...]
    verdicts: tuple[Verdict, ...]


def _choices(regions: Sequence[Region]) -> list[_Named]:
    """The choices, that of most cells first; regions that begin with the same name are one."""
    by_first: dict[str, list[Region]] = {}
    for region in regions:
        by_first.setdefault(region.take[0], []).append(region)
    choices = []
    for first, own in by_first.items():
        verdicts = tuple(verdict for region in own for verdict in region.verdicts)
        names = candidates_in(verdicts, first)
        choices.append(_Named(names, len(verdicts), tuple(region.phrase for region in own), verdicts))
    return sorted(choices, key=lambda each: -each.cells)


def _recommended_first(first: _Named, criterion: Criterion, cells: int, implementations: int, margin: float) -> str:
    is_any = 1 < len(first.names) == implementations
    who = (
        "any of them: each has" if is_any else f"{either(first.names)}: {'each' if len(first.names) > 1 else 'it'} has"
    )
    where = all_of(cells, "cells") if first.cells == cells else f"{first.cells} of {cells} cells{_place([first])}"
    return f"Take {who} {_best_or_close(criterion, margin)}, {'here' if cells == 1 else f'in {where}'}."


def _others(first: _Named, criterion: Criterion, is_everywhere: bool) -> list[str]:
    """How the others stand where the first choice is to be taken: which tie in some of the cells, and how far behind
    those are that never do."""
    ties: dict[str, int] = {}
    undecided: dict[str, int] = {}
    behind: dict[str, list[float]] = {}
    for verdict in first.verdicts:
        for each in verdict.standings:
            if each.name in verdict.candidates and each.name not in first.names:
                ties[each.name] = ties.get(each.name, 0) + 1
            elif each.relation == "undecided":
                undecided[each.name] = undecided.get(each.name, 0) + 1
            elif each.relation == "worse" and each.behind is not None:
                behind.setdefault(each.name, []).append(each.behind)
    cells = len(first.verdicts)
    sentences = [f"As good: {_counted(ties, cells)}."] if ties else []
    if undecided and cells > 1:
        sentences.append(f"Undecided whether as good: {_counted(undecided, cells)}.")
    never = {name: shares for name, shares in behind.items() if name not in ties}
    if criterion.is_share or not never:
        return sentences
    if len(never) < MOST_CHOICES:
        shares, who = [share for own in never.values() for share in own], listed(list(never))
        verb = {"is": "are"}.get(criterion.verb, criterion.verb.removesuffix("s")) if len(never) > 1 else criterion.verb
    else:
        nearest = min(never, key=lambda name: median(never[name]))
        shares, who, verb = never[nearest], f"The best of the others, {nearest},", criterion.verb
    amount = _range(min(shares), max(shares), criterion)
    typical = _range(median(shares), median(shares), criterion)
    if len(shares) > MOST_CHOICES and amount and typical and amount != typical:
        amount = f"typically {typical} ({amount.removesuffix(f' {criterion.worse}')})"
    where = "" if is_everywhere else f" where {either(first.names)} is the choice"
    return [*sentences, f"{who} {verb} {amount}{where}."] if amount else sentences


def _counted(cells: Mapping[str, int], total: int) -> str:
    """Names with their numbers of cells, those with the same number together, the largest number first."""
    by_number: dict[int, list[str]] = {}
    for name in sorted(cells, key=lambda name: -cells[name])[:MOST_NAMED]:
        by_number.setdefault(cells[name], []).append(name)
    parts = [
        f"{listed(names)} in {number}{'' if place else f' of the {total} cells'}"
        for place, (number, names) in enumerate(by_number.items())
    ]
    return "; ".join(parts)


def _best_or_close(criterion: Criterion, margin: float) -> str:
    amount = percent_text(margin)
    if criterion.is_share:
        number = amount.removesuffix(" %")
        amount = f"{number} percentage point{'' if number == '1' else 's'}"
    return f"the {criterion.best}" + (f", or one within {amount} of it" if margin else "")


def _undecided(choices: Sequence[_Named], criterion: Criterion, cells: int, is_all: bool) -> str:
    number = sum(each.cells for each in choices)
    candidates = [name for each in choices for verdict in each.verdicts for name in verdict.candidates]
    in_order = [*choices[0].names, *candidates]
    names = sorted(set(candidates), key=lambda name: (-candidates.count(name), in_order.index(name)))
    if not is_all:
        return f"Undecided in {_cells(number)}{_place(choices)}: {either(names)}."
    where = "" if cells == 1 else f" in {all_of(number, 'cells')}" if number == cells else f" in {_cells(number)}"
    if len(names) == 1:
        return f"Undecided{where}: {names[0]} has the {criterion.best} so far."
    (first, *_) = choices
    best = first.verdicts[0].best if cells == 1 else first.names[0]
    standing = first.verdicts[0].standing(best) if best else None
    begins = f"Undecided{where}: {either(names)} may have the {criterion.best}"
    if cells > 1 or standing is None:
        return f"{begins}."
    return f"{begins}; {best} has it so far{_at_most_behind(standing, criterion)}."


def _at_most_behind(standing: Standing, criterion: Criterion) -> str:
    """How far a candidate may be behind the best: ", and is at most 12 % slower than the best"; "" if it is unknown."""
    if standing.behind_high is None or criterion.is_share:
        return ""
    amount = _range(standing.behind_high, standing.behind_high, criterion)
    return f", and {criterion.verb} at most {amount} than the best" if amount and "times" not in amount else ""


def _number_of(choice: _Named) -> str:
    """The number of cells of a choice, and its place if it has one."""
    return f"{_cells(choice.cells)}{_place([choice])}"


def _place(choices: Sequence[_Named]) -> str:
    """The place of choices that have one region together: " (1250 ms, PER 0.01)"; "" for several regions."""
    places = [place for choice in choices for place in choice.places]
    return f" ({places[0]})" if len(places) == 1 and places[0] else ""


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def sureness(cells: Sequence[Cell], rule: Rule) -> str:
    """How far the choice can be trusted, from the number of runs."""
    samples = [sample for cell in cells for sample in cell.samples.values()]
    most = max((sample.tried for sample in samples), default=0)
    implementations = max(len(cell.samples) for cell in cells)
    least = rule.least_repetitions(implementations)
    if all(sample.is_determined for sample in samples):
        return f"The channel has no random errors, and {all_of(most, 'runs')} of each in a cell have the same packets."
    where = ", where the channel has random errors" if any(sample.is_determined for sample in samples) else ""
    if most < least:
        runs = "one run" if most == 1 else f"at most {most} runs"
        return (
            f"Each implementation has {runs} in each cell{where}: too few to rule out that a difference is due to "
            f"chance. At least {least} repetitions are needed for {implementations} implementations."
        )
    return (
        f"{_runs(samples, most)} of each in a cell. A decision in a cell is wrong with a probability of "
        f"at most {percent_text(ERROR)}. A difference from the best of up to {percent_text(rule.margin)} does not "
        "matter."
    )


def _runs(samples: Sequence[Sample], most: int) -> str:
    least = min(sample.tried for sample in samples)
    return f"{most} runs" if least == most else f"{least} to {most} runs"


def region_sentences(region: Region, criterion: Criterion) -> list[str]:
    """What to take in a region, its values, and how the others stand; the place itself is `region.phrase`."""
    names = list(dict.fromkeys(each.name for verdict in region.verdicts for each in verdict.standings))
    if not region.take:
        return ["No implementation delivered more than half of its files.", *_failures(region, names)]
    rest = [name for name in names if name not in region.take]
    if region.is_undecided:
        choice = f"Undecided: {either(region.take)}"
    elif rest or len(region.take) == 1:
        choice = f"Take {either(region.take)}"
    else:
        choice = "Take any of them"
    first = f"{choice}{_within(region, criterion)}: {_values(region, region.take, criterion)}."
    described = [phrase for name in rest[:MOST_NAMED] if (phrase := _difference(region, name, criterion))]
    more = [f"{len(rest) - MOST_NAMED} more are in the table"] if described and len(rest) > MOST_NAMED else []
    return [first, *_sentence(described + more), *_needed(region), *_failures(region, [*region.take, *rest])]


def _needed(region: Region) -> list[str]:
    """What would decide an undecided cell."""
    if not region.is_undecided or len(region.verdicts) > 1:
        return []
    (verdict,) = region.verdicts
    needed = [each.repetitions_needed for each in verdict.standings if each.repetitions_needed]
    return [f"{max(needed)} repetitions would decide it if the differences are as large as measured."] if needed else []


def _within(region: Region, criterion: Criterion) -> str:
    """How close several candidates are to each other."""
    if len(region.take) == 1 or criterion.is_share:
        return ""
    apart = max(_apart(verdict, region.take, criterion) for verdict in region.verdicts)
    return f" (within {percent_text(apart)} of each other)" if apart >= NO_DIFFERENCE else " (the same)"


def _apart(verdict: Verdict, names: Sequence[str], criterion: Criterion) -> float:
    """The difference of the values of these in a cell, as a share of the best."""
    values = [s.value for name in names if (s := verdict.standing(name)) and s.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    if low == high:
        return 0.0
    return 1 - low / high if criterion.higher_is_better else high / low - 1 if low else inf


def _sentence(phrases: list[str]) -> list[str]:
    return ["; ".join(phrases) + "."] if phrases else []


def either(names: Sequence[str]) -> str:
    """Names of which any may be taken: "cfdp, ltp or norm"."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _standings(region: Region, name: str) -> list[Standing]:
    return [standing for verdict in region.verdicts if (standing := verdict.standing(name)) is not None]


def _values(region: Region, names: Sequence[str], criterion: Criterion) -> str:
    """The medians or means of implementations, and the number of runs of each."""
    standings = [each for name in names for each in _standings(region, name)]
    values = [each.value for each in standings if each.value is not None]
    metric = criterion.metric
    texts = list(dict.fromkeys(metric.quantity_text(value) for value in (min(values), max(values))))
    runs = sorted({each.n for each in standings})
    number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    unit = texts[-1].rpartition(" ")[2]
    shown = [text.removesuffix(f" {unit}") for text in texts[:-1]] + texts[-1:]
    return f"{' to '.join(shown)} (n = {number})"


def _difference(region: Region, name: str, criterion: Criterion) -> str:
    """How an implementation stands to the best of each cell; "" if it delivered too little for a comparison."""
    pairs = [
        (own.behind, own, verdict.point)
        for verdict in region.verdicts
        if (own := verdict.standing(name)) and own.behind is not None
    ]
    if not pairs or criterion.is_share:
        return ""
    shares = [share for share, _, _ in pairs]
    amount = _range(min(shares), max(shares), criterion)
    if not amount:
        return f"{name} differs by less than {percent_text(WITHOUT_DIFFERENCE)}"
    worse = [share for share, own, _ in pairs if own.relation == "worse"]
    if 0 < len(worse) < len(pairs):
        return f"{name} {criterion.verb} {_partly(pairs, worse, criterion)}"
    standings = [own for _, own, _ in pairs]
    interval = _interval_of(standings, criterion) if worse else _open(standings)
    return f"{name} {criterion.verb} {amount}{_farthest_place(pairs)}{interval}"


def _partly(pairs: Sequence[tuple[float, Standing, Point]], worse: Sequence[float], criterion: Criterion) -> str:
    """Where some differences are shown and others are not: how large both are."""
    rest = [pair for pair in pairs if pair[1].relation != "worse"]
    shares = [share for share, _, _ in rest]
    shown = (
        _range(min(worse), max(worse), criterion) or f"less than {percent_text(WITHOUT_DIFFERENCE)} {criterion.worse}"
    )
    elsewhere = _range(0, max(shares), criterion)
    phrase = f"{shown} in {len(worse)} of {len(pairs)} cells"
    if not elsewhere:
        return phrase
    return f"{phrase}, elsewhere {elsewhere}{_farthest_place(rest)}{_open([own for _, own, _ in rest])}"


def _open(standings: Sequence[Standing]) -> str:
    """What is known of differences that are not shown to be too large: they are small enough, or that is undecided."""
    undecided = sum(each.relation == "undecided" for each in standings)
    if not undecided:
        return " (as good)"
    return " (undecided)" if undecided == len(standings) else f" (undecided in {undecided}, else as good)"


def _farthest_place(pairs: Sequence[tuple[float, Standing, Point]]) -> str:
    """Where the greatest difference of several cells is, if they differ by more than WITHOUT_DIFFERENCE."""
    shares = [share for share, _, _ in pairs]
    if max(shares) - min(shares) < WITHOUT_DIFFERENCE:
        return ""
    points = [point for _, _, point in pairs]
    return f" ({place_text(points[shares.index(max(shares))], dimensions_of(points))})"


def _interval_of(standings: Sequence[Standing], criterion: Criterion) -> str:
    """The interval of the difference in a single cell: " (31 to 34 %)"."""
    if len(standings) > 1 or standings[0].behind_low is None or standings[0].behind_high is None:
        return ""
    bounds = (standings[0].behind_low, standings[0].behind_high)
    return _between(*(_amount(max(bound, 0), criterion) for bound in bounds))


def _amount(share: float, criterion: Criterion) -> str:
    """A share in percent; from a surplus of DOUBLE on "12 times"."""
    is_times = not criterion.higher_is_better and share >= DOUBLE
    return f"{_times(share)} times" if is_times else percent_text(share)


def _between(low: str, high: str) -> str:
    """An interval after its value: " (31 to 34 %)"; "" if both ends are the same."""
    unit = next((unit for unit in (" %", " times", " points") if low.endswith(unit) and high.endswith(unit)), "")
    return "" if low == high else f" ({low.removesuffix(unit) if unit else low} to {high})"


def _range(low: float, high: float, criterion: Criterion) -> str:
    """A range of differences: "33 % slower", "2 to 57 % slower", "up to 6 times as much"; "" if all are too small."""
    if high < WITHOUT_DIFFERENCE:
        return ""
    if not criterion.higher_is_better and high >= DOUBLE:
        least, most = (_times(share) for share in (low, high))
        before = "up to " if low < WITHOUT_DIFFERENCE else "" if least == most else f"{least} to "
        return f"{before}{most} times as much"
    return f"{_percent_range(low, high)} {criterion.worse}"


def _times(share: float) -> str:
    return f"{1 + share:.0f}" if share >= 9 else f"{1 + share:.1f}".removesuffix(".0")


def _percent_range(low: float, high: float) -> str:
    high_text = percent_text(high)
    if low < WITHOUT_DIFFERENCE:
        return f"up to {high_text}"
    low_text = percent_text(low)
    if low_text == high_text:
        return high_text
    return f"{low_text.removesuffix(' %') if high_text.endswith('%') else low_text} to {high_text}"


def percent_text(share: float) -> str:
    """A share in percent: "33 %", "2.4 %"."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %".replace(".0 %", " %")


def _failures(region: Region, names: Sequence[str]) -> list[str]:
    """A sentence for each implementation that did not deliver every file or has suspect runs; one for missing runs."""
    sentences = []
    planned = missing = 0
    for name in names:
        standings = _standings(region, name)
        unsupported = sum(each.unsupported for each in standings)
        tried = sum(each.tried for each in standings) - unsupported
        delivered = sum(each.delivered for each in standings)
        planned += sum(each.planned for each in standings)
        missing += sum(each.planned - each.tried for each in standings)
        suspect = sum(each.suspect for each in standings)
        if unsupported:
            runs = f" in {unsupported} of {tried + unsupported} runs" if tried else ""
            why = next(each.unsupported_why for each in standings if each.unsupported)
            sentences.append(f"{name} is unsupported{runs}: {why}.")
        if tried == 1 and not delivered:
            sentences.append(f"{name} did not deliver its file.")
        elif delivered < tried:
            sentences.append(f"{name} delivered {delivered or 'none'} of {tried} files.")
        if suspect:
            sentences.append(f"Suspect runs of {name}: {suspect}.")
    if missing:
        sentences.append(f"Runs without a result yet: {missing} of {planned}.")
    return sentences


def value_text(verdict: Verdict, criterion: Criterion) -> str:
    """The median or mean of the best implementation in a cell; "–" if there is none."""
    best = verdict.standing(verdict.best) if verdict.best else None
    return criterion.metric.text(best.value) if best and best.value is not None else "–"


def spread_text(standing: Standing, criterion: Criterion) -> str:
    """How the runs of an implementation vary: "identical in all 10 runs", "1.31 to 1.38", with runs at each level."""
    text = criterion.metric.quantity_text
    if standing.is_identical:
        return f"identical in {all_of(standing.n, 'runs')}"
    interval = "" if standing.interval is None else f"{text(standing.interval.low)} to {text(standing.interval.high)}"
    if not standing.is_mean:
        return interval
    ends = [list(dict.fromkeys((text(each.low), text(each.high)))) for each in standing.levels]
    runs = [
        f"{each.runs} of {standing.n} runs at {' to '.join(own)}"
        for each, own in zip(standing.levels, ends, strict=True)
    ]
    return f"mean: {listed(runs)}" if runs else "mean"


def next_text(verdict: Verdict, criterion: Criterion) -> str:
    """The best implementation that is not a candidate, and how far behind it is: "ltp −24 %"; "" if there is none.

    A question mark follows a difference that is undecided.
    """
    for standing in verdict.standings:
        if standing.name not in verdict.candidates and (text := difference_text(standing, criterion)):
            return f"{standing.name}{':' if 'delivered' in text else ''} {text}"
    return ""


def difference_text(standing: Standing, criterion: Criterion, with_interval: bool = False) -> str:
    """How an implementation stands to the best: "−24 % (−20 to −28 %)", "2 of 10 delivered", "no run".

    A question mark follows a difference that is undecided. "": it is the best, or there is no number for it.
    """
    if standing.relation == "not run":
        return "no run" if with_interval else ""
    if standing.relation == "unsupported":
        return "unsupported"
    if standing.relation == "undelivered":
        return f"{standing.delivered} of {standing.tried - standing.unsupported} delivered"
    if standing.behind is None:
        return ""
    interval = _signed_interval(standing, criterion) if with_interval else ""
    return f"{difference_of(standing.behind, criterion)}{interval}{_doubt(standing)}"


def _signed_interval(standing: Standing, criterion: Criterion) -> str:
    if standing.relation != "worse" or standing.behind_low is None or standing.behind_high is None:
        return ""
    bounds = (standing.behind_low, standing.behind_high)
    return _between(*(difference_of(max(bound, 0), criterion) for bound in bounds))


def _doubt(standing: Standing) -> str:
    return " ?" if standing.relation == "undecided" else ""


def farthest_text(summary: Summary, criterion: Criterion) -> str:
    """How far behind the best at most, where an implementation may not be taken; "" if there is no such place."""
    if summary.farthest is None:
        return ""
    return f"{difference_of(summary.farthest, criterion)}{'' if summary.is_farthest_shown else ' ?'}"


def difference_of(share_behind: float, criterion: Criterion) -> str:
    """How far behind the best, as the difference of the measure: "−24 %"; "+24 %", "12 times" if lower values are
    better."""
    share = -share_behind if criterion.higher_is_better else share_behind
    text = _amount(abs(share), criterion)
    if criterion.is_share and text != "0 %":
        text = f"{text.removesuffix(' %')} points"
    return text if text == "0 %" or text.endswith("times") else f"{'+' if share > 0 else '−'}{text}"
