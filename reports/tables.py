"""The tables that other programs read, as CSV: one row a run, one row a box. Units are in the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from captures.accounting.ledger import Ledger
from captures.protocols.view import ProtocolView
from captures.summary import CaptureSummary
from reports.load import Results, Run
from reports.metrics import MEASURES, METRICS
from reports.records import Permutation
from reports.statistics import BoxNumbers, boxes_of

RECORD_COLUMNS = (
    "run_id",
    "implementation",
    "title",
    "protocol",
    "file_size_bytes",
    "channel_name",
    "channel_key",
    "certificate",
    "rate_bps",
    "delay_ns",
    "packet_error_rate",
    "repetition",
    "order",
    "seed",
    "clock",
    "rig",
    "outcome",
    "reason",
    "started_at_ns",
    "ended_at_ns",
    "file_whole_at_ns",
)
WITHHELD_COLUMNS = ("waited_ns", "dispatches")
"""By the machine, beside the summary's `overdue_ns`."""
SUMMARY_COLUMNS = tuple(
    name
    for name, field in CaptureSummary.model_fields.items()
    if field.annotation in (int, float, int | None, float | None) and name != "schema_version"
)
VIEW_COLUMNS = tuple(name for name, field in ProtocolView.model_fields.items() if field.annotation == (int | None))
"""Of the runs whose messages were looked at."""
LEDGER_COLUMNS = tuple(f"{way}_{name}" for way in ("forward", "reverse") for name in Ledger.model_fields)
"""What became of the packets of each host: those of the sender go forward."""


def runs_csv(results: Results) -> str:
    """One row a run that has a record; cells of what a run does not have are empty."""
    columns = (*RECORD_COLUMNS, "suspect", *WITHHELD_COLUMNS, *SUMMARY_COLUMNS, *VIEW_COLUMNS, *LEDGER_COLUMNS)
    return _csv(columns, map(_run_row, results.runs))


def _run_row(run: Run) -> dict[str, Any]:
    return {
        **run.record.model_dump(include=set(RECORD_COLUMNS)),
        "suspect": "; ".join(run.suspect),
        **(run.record.withheld.model_dump(include=set(WITHHELD_COLUMNS)) if run.record.withheld else {}),
        **(run.summary.model_dump(include=set(SUMMARY_COLUMNS)) if run.summary else {}),
        **(run.view.model_dump(include=set(VIEW_COLUMNS)) if run.view else {}),
        **(_ledgers(run.summary) if run.summary else {}),
    }


def _ledgers(summary: CaptureSummary) -> dict[str, int]:
    ledgers = {"forward": summary.ledger_forward, "reverse": summary.ledger_reverse}
    return {f"{way}_{name}": count for way, ledger in ledgers.items() for name, count in ledger}


def statistics_csv(results: Results) -> str:
    """One row a metric and permutation: how many runs were asked for, how many delivered the file, how many of
    those have the metric (n), and the numbers of the box."""
    numbers = tuple(BoxNumbers.__dataclass_fields__)
    rows = (
        {
            "metric": metric.slug,
            "unit": metric.unit,
            **box.permutation.model_dump(),
            "asked": box.asked,
            "delivered": box.delivered,
            "n": box.n,
            **(asdict(box.numbers) if box.numbers else {}),
        }
        for metric in METRICS + MEASURES
        for box in boxes_of(results, metric)
    )
    return _csv(("metric", "unit", *Permutation.model_fields, "asked", "delivered", "n", *numbers), rows)


def _csv(columns: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
