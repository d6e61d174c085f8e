"""The answer in sentences: which implementation to take in each region, and how the others compare."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from owlt.reports.answer.regions import Region, dimensions_of, place_text
from owlt.reports.answer.verdicts import Standing, Summary, Verdict, behind
from owlt.reports.comparison.cells import Cell, Criterion, Point, Sample
from owlt.reports.comparison.differences import SIGNIFICANCE, least_repetitions_of
from owlt.reports.comparison.estimates import CONFIDENCE
from owlt.reports.units import listed

WITHOUT_DIFFERENCE = 0.01
"""A smaller difference is not worth a number."""
NO_DIFFERENCE = 0.0005
"""A smaller difference is not visible in the numbers."""
DOUBLE = 1.0
"""From this surplus on, "2 times as much" instead of a percentage."""
MOST_NAMED = 5
"""The most other implementations that a sentence describes."""


def headline(criterion: Criterion, summaries: Sequence[Summary], verdicts: Sequence[Verdict]) -> str:
    """The answer in one or two sentences. Without a significant difference in any cell, nothing is recommended."""
    first, cells = summaries[0], len(verdicts)
    if not first.led:
        return "No implementation delivered more than half of its files in any cell."
    undelivered = first.undelivered
    failures = (
        f" {undelivered.count} of its {undelivered.n} runs did not complete."
        if undelivered and undelivered.count
        else ""
    )
    everywhere = f"in all {cells} cells" if cells > 1 else "here"
    if len(summaries) > 1 and summaries[-1].led == cells:
        return f"Take any of them: each has the {criterion.best}, or is close to it, {everywhere}.{failures}"
    is_shown = any(verdict.shows_difference for verdict in verdicts)
    begins = f"Take {first.name}: it" if is_shown else f"Undecided: {first.name}"
    begins += f" has the {criterion.best}, or is close to it, "
    ends = failures if is_shown else f" No difference is significant yet.{failures}"
    if first.led == cells:
        return f"{begins}{everywhere}.{ends}"
    if 2 * first.led >= cells:
        same = [each.name for each in summaries[1:] if each.led == first.led]
        also = f" (as many as {listed(same)})" if same else ""
        rest = f"In the other {_cells(cells - first.led)} {_rest(criterion, first, verdicts, cells - first.led)}"
        return f"{begins}in {first.led} of {cells} cells{also}. {rest}{ends}"
    led = listed([f"{each.name} in {each.led}" for each in summaries[:MOST_NAMED] if each.led])
    return f"No implementation has the {criterion.best} in most of the {cells} cells. Best or close: {led}."


def _rest(criterion: Criterion, first: Summary, verdicts: Sequence[Verdict], cells: int) -> str:
    others = [each for verdict in verdicts if (each := verdict.standing(first.name)) and each.relation == "not run"]
    if len(others) == cells:
        return "it has no run yet."
    if first.farthest is None:
        return "it delivered half of its files or fewer."
    amount = _range(first.farthest if cells == 1 else 0, first.farthest, criterion)
    return f"it {criterion.verb} {amount} {'compared with' if amount.endswith('as much') else 'than'} the best."


def _cells(number: int) -> str:
    return "cell" if number == 1 else f"{number} cells"


def sureness(cells: Sequence[Cell]) -> str:
    """How far the numbers can be trusted, from the number of runs."""
    samples = [sample for cell in cells for sample in cell.samples.values()]
    most = max((sample.tried for sample in samples), default=0)
    implementations = max(len(cell.samples) for cell in cells)
    least = least_repetitions_of(implementations)
    if most == 1:
        return (
            "Each implementation has one run in each cell: whether a difference is due to chance cannot be judged. "
            f"At least {least} repetitions are needed for {implementations} implementations."
        )
    if most < least:
        return (
            f"At most {most} runs of each in a cell: too few to show that a difference is not chance. With fewer than "
            f"{least} repetitions no difference between {implementations} implementations is significant; {least} are "
            "enough only if all runs of one are better than all runs of the other."
        )
    return (
        f"{_runs(samples, most)} of each in a cell. A difference is significant if chance alone would give one at "
        f"least as large with a probability of at most {percent_text(SIGNIFICANCE)} (Mann and Whitney, with Holm’s "
        "correction for all pairs of the cell)."
    )


def _runs(samples: Sequence[Sample], most: int) -> str:
    return f"{most} runs" if all(sample.tried == most for sample in samples) else f"Up to {most} runs"


def region_sentences(region: Region, criterion: Criterion, can_be_significant: bool) -> list[str]:
    """What to take in a region, its values, and how the others stand; the place itself is `region.phrase`."""
    take = region.take
    if take is None:
        return ["No implementation delivered more than half of its files.", *_failures(region, _names(region))]
    others = [name for name in _names(region) if name != take]
    companions = [name for name in others if all(name in verdict.leaders for verdict in region.verdicts)]
    leaders = [take, *companions]
    rest = [name for name in others if name not in companions]
    is_undecided = bool(rest) and not any(verdict.shows_difference for verdict in region.verdicts)
    choice = f"Undecided: {_highest(region, leaders, criterion)}" if is_undecided else _recommended(leaders, rest)
    first = f"{choice}{_within(region, leaders, criterion)}: {_values(region, leaders, criterion)}."
    described = [
        phrase
        for name in rest[:MOST_NAMED]
        if (phrase := _difference(region, take, name, criterion, can_be_significant))
    ]
    more = [f"{len(rest) - MOST_NAMED} more are in the table"] if described and len(rest) > MOST_NAMED else []
    doubt = ["No difference is significant."] if is_undecided and described and not can_be_significant else []
    return [first, *_sentence(described + more), *doubt, *_failures(region, [*leaders, *rest])]


def _recommended(leaders: list[str], rest: list[str]) -> str:
    return f"Take {_either(leaders) if rest else 'any of them'}" if len(leaders) > 1 else f"Take {leaders[0]}"


def _highest(region: Region, leaders: list[str], criterion: Criterion) -> str:
    has = "have" if len(leaders) > 1 else "has"
    close = "" if all(verdict.best in leaders for verdict in region.verdicts) else ", or a value close to it"
    return f"{listed(leaders)} {has} the {criterion.best}{close}"


def _within(region: Region, leaders: list[str], criterion: Criterion) -> str:
    """How close several leaders are to each other."""
    if len(leaders) == 1:
        return ""
    apart = _apart(region, leaders, criterion)
    return f" (within {percent_text(apart)} of each other)" if apart >= NO_DIFFERENCE else " (the same)"


def _sentence(phrases: list[str]) -> list[str]:
    return ["; ".join(phrases) + "."] if phrases else []


def _either(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _names(region: Region) -> list[str]:
    return list(dict.fromkeys(each.name for verdict in region.verdicts for each in verdict.standings))


def _standings(region: Region, name: str) -> list[Standing]:
    return [standing for verdict in region.verdicts if (standing := verdict.standing(name)) is not None]


def _values(region: Region, names: Sequence[str], criterion: Criterion) -> str:
    """The medians of implementations, and the number of runs of each."""
    standings = [each for name in names for each in _standings(region, name)]
    medians = [each.median for each in standings if each.median is not None]
    metric = criterion.metric
    texts = list(dict.fromkeys(metric.text(value) for value in (min(medians), max(medians))))
    runs = sorted({each.n for each in standings})
    number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    unit = metric.unit.removesuffix("s") if metric.unit == "packets" and max(medians) == 1 else metric.unit
    return f"{' to '.join(texts)} {unit} (n = {number})"


def _apart(region: Region, names: list[str], criterion: Criterion) -> float:
    """The greatest difference of the medians of these in a cell, as a share of the best."""
    shares = [0.0]
    for verdict in region.verdicts:
        medians = [s.median for name in names if (s := verdict.standing(name)) and s.median is not None]
        if medians and max(medians) > 0:
            low, high = min(medians), max(medians)
            shares.append(1 - low / high if criterion.higher_is_better else high / low - 1 if low else inf)
    return max(shares)


def _difference(region: Region, take: str, name: str, criterion: Criterion, can_be_significant: bool) -> str:
    """How an implementation stands to the one to take; "" if it delivered too little for a comparison."""
    pairs = [
        (share, own, verdict.point)
        for verdict in region.verdicts
        if (own := verdict.standing(name)) and own.relation not in ("undelivered", "not run")
        if (share := behind(verdict, take, name, criterion)) is not None
    ]
    if not pairs:
        return ""
    shares = [share for share, _, _ in pairs]
    amount = _range(min(shares), max(shares), criterion)
    if not amount:
        return f"{name} differs by less than {percent_text(WITHOUT_DIFFERENCE)}"
    worse = [share for share, own, _ in pairs if own.relation == "worse"]
    if can_be_significant and 0 < len(worse) < len(pairs):
        return f"{name} {criterion.verb} {_partly(pairs, worse, criterion)}"
    phrase = f"{name} {criterion.verb} {amount}{_farthest_place(pairs)}"
    return phrase + (_significance(region, take, [own for _, own, _ in pairs]) if can_be_significant else "")


def _partly(pairs: Sequence[tuple[float, Standing, Point]], worse: Sequence[float], criterion: Criterion) -> str:
    """Where some differences are significant and others are not: how large both are."""
    rest = [pair for pair in pairs if pair[1].relation != "worse"]
    shares = [share for share, _, _ in rest]
    significant = (
        _range(min(worse), max(worse), criterion) or f"less than {percent_text(WITHOUT_DIFFERENCE)} {criterion.worse}"
    )
    elsewhere = _range(0, max(shares), criterion)
    phrase = f"significantly {significant} in {len(worse)} of {len(pairs)} cells"
    return f"{phrase}, elsewhere {elsewhere}{_farthest_place(rest)}, not significantly" if elsewhere else phrase


def _farthest_place(pairs: Sequence[tuple[float, Standing, Point]]) -> str:
    """Where the greatest difference of several cells is, if they differ by more than WITHOUT_DIFFERENCE."""
    shares = [share for share, _, _ in pairs]
    if max(shares) - min(shares) < WITHOUT_DIFFERENCE:
        return ""
    points = [point for _, _, point in pairs]
    return f" ({place_text(points[shares.index(max(shares))], dimensions_of(points))})"


def _significance(region: Region, take: str, standings: list[Standing]) -> str:
    worse = [each for each in standings if each.relation == "worse"]
    if not worse:
        needed = [each.repetitions_needed for each in standings if each.repetitions_needed]
        return (
            f", not significantly ({max(needed)} repetitions would show it, if it is as large as it seems)"
            if len(needed) == 1
            else ", not significantly"
        )
    if len(region.verdicts) > 1:
        return "" if len(worse) == len(standings) else f", significantly in {len(worse)} of {len(standings)} cells"
    size = worse[0].ratio
    if region.verdicts[0].best != take or size is None or size.confidence < CONFIDENCE:
        return ""
    ends = sorted(abs(1 - bound) for bound in (size.low, size.high))
    return f" ({percent_text(ends[0]).removesuffix(' %')} to {percent_text(ends[1])})"


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
        tried, delivered = sum(each.tried for each in standings), sum(each.delivered for each in standings)
        planned += sum(each.planned for each in standings)
        missing += sum(each.planned - each.tried for each in standings)
        suspect = sum(each.suspect for each in standings)
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
    """The median of the best implementation in a cell; "–" if there is none."""
    best = verdict.standing(verdict.best) if verdict.best else None
    return criterion.metric.text(best.median) if best and best.median is not None else "–"


def next_text(verdict: Verdict, criterion: Criterion) -> str:
    """The best implementation that is not a leader, and how far behind it is: "ltp −24 %"; "" if there is none.

    A question mark follows a difference that is not significant.
    """
    for standing in verdict.standings:
        if standing.name in verdict.leaders or standing.relation == "not run":
            continue
        if standing.relation == "undelivered" or verdict.best is None:
            return f"{standing.name}: {standing.delivered} of {standing.tried} delivered"
        share = behind(verdict, verdict.best, standing.name, criterion)
        if share is None:
            continue
        return f"{standing.name} {difference_of(share, criterion)}{doubt_of(standing)}"
    return ""


def difference_of(share_behind: float, criterion: Criterion) -> str:
    """How far behind the best, as the difference of the measure: "−24 %", "+24 %" if lower values are better."""
    return signed_text(-share_behind if criterion.higher_is_better else share_behind)


def signed_text(share: float) -> str:
    """A difference in percent with its sign; without one if it is written as 0."""
    text = percent_text(abs(share))
    return text if text == "0 %" else f"{'+' if share > 0 else '−'}{text}"


def doubt_of(standing: Standing) -> str:
    """The question mark after a difference that is not significant."""
    return " ?" if standing.relation == "unclear" else ""
