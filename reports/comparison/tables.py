"""Tables that are derived from the table of runs: `statistics.csv` and `comparisons.csv`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reports.comparison.cells import Cell, Sample
from reports.comparison.criteria import CRITERIA
from reports.comparison.differences import compare, ratio
from reports.comparison.estimates import estimate, share
from reports.comparison.metrics import MEASURES, METRICS, Metric
from reports.comparison.statistics import BoxNumbers, box_numbers
from reports.table.files import csv_text
from reports.table.rows import Row

STATISTICS_NAME, COMPARISONS_NAME = "statistics.csv", "comparisons.csv"
POINT = ("file_size_bytes", "duration_ns", "channel_name", "rate_bps", "delay_ns", "packet_error_rate")
STATISTICS_COLUMNS = (
    *("metric", "unit", "implementation", *POINT, "planned", "delivered", "n", *BoxNumbers.__dataclass_fields__),
    *("median_low", "median_high", "median_confidence", "median_interval", "mean", "sem"),
    *("undelivered", "undelivered_low", "undelivered_high", "suspect_runs"),
)
COMPARISONS_COLUMNS = (
    *("metric", *POINT, "kruskal_p", "one", "other", "n_one", "n_other", "ratio", "ratio_low", "ratio_high"),
    *("ratio_confidence", "p", "p_holm", "a12", "differs", "repetitions_needed"),
)


def statistics_csv(cells: Sequence[Cell]) -> str:
    """A row for each measure, cell and implementation."""
    rows = (
        {"metric": metric.slug, "unit": metric.unit, "implementation": name, **_point(cell), **_numbers(sample, metric)}
        for metric in METRICS + MEASURES
        for cell in cells
        for name, sample in cell.samples.items()
    )
    return csv_text(STATISTICS_COLUMNS, rows)


def _point(cell: Cell) -> Row:
    return cell.point._asdict()


def _numbers(sample: Sample, metric: Metric) -> Row:
    values = sample.values(metric)
    numbers, undelivered = estimate(values), share(sample.undelivered, len(sample.tried))
    interval = numbers.interval if numbers else None
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
        "undelivered": sample.undelivered,
        **({"undelivered_low": undelivered.low, "undelivered_high": undelivered.high} if undelivered else {}),
        "suspect_runs": sample.suspect,
    }


def comparisons_csv(cells: Sequence[Cell]) -> str:
    """A row for each criterion, cell and pair of implementations."""
    return csv_text(COMPARISONS_COLUMNS, _pairs(cells))


def _pairs(cells: Sequence[Cell]) -> Iterator[Row]:
    for criterion in CRITERIA:
        for cell, comparison in zip(cells, compare([criterion.scores(cell) for cell in cells]), strict=True):
            for pair in comparison.pairs:
                values = [cell.samples[name].values(criterion.metric) for name in (pair.one, pair.other)]
                size = ratio(*values)
                yield {
                    "metric": criterion.metric.slug,
                    **_point(cell),
                    "kruskal_p": comparison.p,
                    **asdict(pair),
                    **(
                        {
                            "ratio": size.value,
                            "ratio_low": size.low,
                            "ratio_high": size.high,
                            "ratio_confidence": size.confidence,
                        }
                        if size
                        else {}
                    ),
                    "differs": pair.differs,
                    "repetitions_needed": pair.repetitions_needed(len(comparison.pairs)),
                }
