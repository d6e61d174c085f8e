"""Tables that are derived from the table of runs: `statistics.csv` and `comparisons.csv`, each with its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import combinations
from math import inf
from pathlib import Path

from owlt.emulator.channel.impairment import CellKind
from owlt.reports.comparison.cells import CRITERIA, Cell, Criterion, Sample
from owlt.reports.comparison.choice import ERROR, Contestant, ratios
from owlt.reports.comparison.differences import Pair, holm, kruskal_wallis, probability_of_better
from owlt.reports.comparison.estimates import box_numbers, estimate, levels, share
from owlt.reports.comparison.metrics import MEASURES, METRICS, Metric
from owlt.reports.results.columns import Column
from owlt.reports.results.rows import Row, columns_name, csv_text, names_of, write_columns

STATISTICS_NAME, COMPARISONS_NAME = "statistics.csv", "comparisons.csv"
_POINT: tuple[tuple[str, CellKind, str, str], ...] = (
    ("file_size_bytes", "integer", "bytes", "size of the file; empty: data was sent for a duration"),
    ("duration_ns", "integer", "ns", "how long data was sent; empty: a file was sent"),
    ("channel_name", "text", "", "name of the channel profile; empty if the sweep gives rate, delay and error rate"),
    ("ip", "integer", "", "version of IP on the test path"),
    ("rate_bps", "number", "bit/s", "rate of the forward link at the beginning; empty: unlimited"),
    ("delay_ns", "integer", "ns", "one-way delay of the forward link at the beginning"),
    ("packet_error_rate", "number", "probability", "packet error rate of the forward link at the beginning"),
    ("reverse_rate_bps", "number", "bit/s", "rate of the reverse link at the beginning; empty: unlimited"),
    ("reverse_delay_ns", "integer", "ns", "one-way delay of the reverse link at the beginning"),
    ("reverse_packet_error_rate", "number", "probability", "packet error rate of the reverse link at the beginning"),
)
_OF_METRIC = "in the unit of the row"
_STATISTICS: tuple[tuple[str, CellKind, str, str], ...] = (
    ("metric", "text", "", "measure whose values the row is about, by its name on the page and in commands"),
    ("unit", "text", "", "unit of the measure"),
    ("implementation", "text", "", "name of the implementation, with the parameters that the sweep varies"),
    *_POINT,
    ("planned", "integer", "runs", "planned runs of the permutation"),
    ("delivered", "integer", "runs", "runs that delivered their file"),
    ("n", "integer", "runs", "delivered runs that have a value of the measure; the next columns are of these"),
    ("minimum", "number", _OF_METRIC, "least value"),
    ("q1", "number", _OF_METRIC, "first quartile (type 7 of Hyndman and Fan)"),
    ("median", "number", _OF_METRIC, "median"),
    ("q3", "number", _OF_METRIC, "third quartile"),
    ("maximum", "number", _OF_METRIC, "greatest value"),
    ("whisker_low", "number", _OF_METRIC, "least value within 1.5 interquartile ranges of the box"),
    ("whisker_high", "number", _OF_METRIC, "greatest value within 1.5 interquartile ranges of the box"),
    ("median_low", "number", _OF_METRIC, "lower bound of the interval of the median"),
    ("median_high", "number", _OF_METRIC, "upper bound of the interval of the median"),
    ("median_confidence", "number", "probability", "confidence of that interval"),
    ("median_interval", "text", "", "how it was computed: range, order statistics, BCa"),
    (
        "levels",
        "text",
        "",
        "runs at each of a few levels, as JSON: [[runs, least value, greatest value], ...]; empty: none",
    ),
    ("mean", "number", _OF_METRIC, "mean"),
    ("sem", "number", _OF_METRIC, "standard error of the mean"),
    ("undelivered", "integer", "runs", "runs that ended without delivering their file"),
    ("undelivered_low", "number", "probability", "lower bound of their share (Wilson, 95 %)"),
    ("undelivered_high", "number", "probability", "upper bound of their share"),
    ("suspect_runs", "integer", "runs", "suspect runs; they are counted above"),
)
_COMPARISONS: tuple[tuple[str, CellKind, str, str], ...] = (
    ("metric", "text", "", "criterion by which the two are compared, by its name in commands"),
    *_POINT,
    ("kruskal_p", "number", "probability", "p-value of Kruskal and Wallis over all implementations of the cell"),
    ("one", "text", "", "name of the first implementation"),
    ("other", "text", "", "name of the second implementation"),
    ("n_one", "integer", "runs", "runs of the first that ended, delivered or not: those that are tested"),
    ("n_other", "integer", "runs", "runs of the second that ended"),
    (
        "ratio",
        "number",
        "ratio",
        "median of all ratios of a run of the first to one of the second; of few levels: of the means",
    ),
    ("ratio_low", "number", "ratio", "lower bound of its 95 % interval (Hodges and Lehmann); empty: too few runs"),
    ("ratio_high", "number", "ratio", "upper bound of the interval"),
    ("p", "number", "probability", "two-sided p-value of that interval; an undelivered file is the worst value"),
    ("p_holm", "number", "probability", "the same after Holm's correction for all pairs of the cell"),
    ("a12", "number", "probability", "that a run of the first is better than one of the second, ties counted half"),
    ("differs", "truth", "", "whether p_holm is at most 0.05"),
    ("repetitions_needed", "integer", "runs", "of each that show such a difference with a probability of 80 %"),
)
STATISTICS_COLUMNS = tuple(Column(*each) for each in _STATISTICS)
COMPARISONS_COLUMNS = tuple(Column(*each) for each in _COMPARISONS)


DERIVED_FILES = (STATISTICS_NAME, columns_name(STATISTICS_NAME), COMPARISONS_NAME, columns_name(COMPARISONS_NAME))


def write_derived_tables(cells: Sequence[Cell], directory: Path) -> None:
    """Write both tables, and the columns of each, into a directory. Raises OSError."""
    (directory / STATISTICS_NAME).write_text(statistics_csv(cells))
    write_columns(STATISTICS_COLUMNS, directory / columns_name(STATISTICS_NAME))
    (directory / COMPARISONS_NAME).write_text(comparisons_csv(cells))
    write_columns(COMPARISONS_COLUMNS, directory / columns_name(COMPARISONS_NAME))


def statistics_csv(cells: Sequence[Cell]) -> str:
    """A row for each measure, cell and implementation."""
    rows = (
        {"metric": metric.slug, "unit": metric.unit, "implementation": name, **_point(cell), **_numbers(sample, metric)}
        for metric in METRICS + MEASURES
        for cell in cells
        for name, sample in cell.samples.items()
    )
    return csv_text(names_of(STATISTICS_COLUMNS), rows)


def _point(cell: Cell) -> Row:
    return cell.point.values


def _numbers(sample: Sample, metric: Metric) -> Row:
    values = sample.values(metric)
    numbers, undelivered = estimate(values), share(sample.undelivered, sample.tried)
    interval = numbers.interval if numbers else None
    at_levels = levels(values)
    return {
        "planned": len(sample.rows),
        "delivered": sample.delivered,
        "n": len(values),
        **(asdict(box_numbers(values)) if values else {}),
        **({"mean": numbers.mean, "sem": numbers.sem} if numbers else {}),
        **(
            {
                "median_low": interval.low,
                "median_high": interval.high,
                "median_confidence": interval.confidence,
                "median_interval": interval.method,
            }
            if interval
            else {}
        ),
        "levels": json.dumps(at_levels) if at_levels else None,
        "undelivered": sample.undelivered,
        **({"undelivered_low": undelivered.low, "undelivered_high": undelivered.high} if undelivered else {}),
        "suspect_runs": sample.suspect,
    }


def comparisons_csv(cells: Sequence[Cell]) -> str:
    """A row for each criterion, cell and pair of implementations."""
    return csv_text(names_of(COMPARISONS_COLUMNS), _pairs(cells))


def _pairs(cells: Sequence[Cell]) -> Iterator[Row]:
    for criterion in CRITERIA:
        if criterion.is_share:
            continue
        overall = kruskal_wallis([list(criterion.scores(cell).values()) for cell in cells])
        for cell, kruskal_p in zip(cells, overall, strict=True):
            names = list(combinations(cell.samples, 2))
            contestants = {name: criterion.contestant(sample) for name, sample in cell.samples.items()}
            sizes = [_ratio(contestants[one], contestants[other], criterion) for one, other in names]
            p_holm = holm([size.get("p") for size in sizes])
            for (one, other), size, p in zip(names, sizes, p_holm, strict=True):
                n_one, n_other = (len(contestants[name].scores) for name in (one, other))
                pair = Pair(one, other, n_one, n_other, size.get("p"), p, size.get("a12"))
                yield {
                    "metric": criterion.metric.slug,
                    **_point(cell),
                    "kruskal_p": kruskal_p,
                    **vars(pair),
                    **size,
                    "differs": pair.differs,
                    "repetitions_needed": pair.repetitions_needed(len(names)),
                }


def _ratio(one: Contestant, other: Contestant, criterion: Criterion) -> dict[str, float | None]:
    """The comparison of two samples in the unit of the measure; {} if one of them has no run with a result."""
    if not (len(one.scores) and len(other.scores)):
        return {}
    forth, back = ratios(one, other, ERROR / 2)
    size = forth if criterion.higher_is_better else back
    tested = {"p": forth.p, "a12": probability_of_better(one.scores, other.scores)}
    if not (0 < size.low <= size.high < inf):
        return tested
    return {"ratio": size.value, "ratio_low": size.low, "ratio_high": size.high, **tested}
