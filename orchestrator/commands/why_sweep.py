"""`owlt why RESULTS`: the breakdown of session time over the runs of a sweep, by implementation and cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.captures.inspection.critical_path import Kind
    from owlt.reports.comparison.cells import Cell
    from owlt.reports.comparison.time_use import TimeUse


def explain_results(results: Path, as_json: bool) -> None:
    """Print the breakdown of session time for a results directory, after computing the time accounts that are missing.

    Raises OwltError if no run has a time account, ReportError as `load_results`.
    """
    from owlt.orchestrator.run.time_accounts import account_runs
    from owlt.reports.answer.reasons import largest_shares
    from owlt.reports.answer.regions import dimensions_of
    from owlt.reports.comparison.cells import cells_of
    from owlt.reports.comparison.stopping import load_due_results
    from owlt.reports.comparison.time_use import shown_kinds

    without = account_runs(results)
    loaded = load_due_results(results)
    cells = cells_of(loaded.rows)
    uses = list(_uses(cells))
    if not uses:
        raise OwltError(_mistake(results, without))
    dimensions = dimensions_of([cell.point for cell in cells])
    sentences = largest_shares(cells, dimensions, loaded.accounts)
    printer = Printer(as_json)
    printer.json(
        {
            "cells": [cell.point.values | {"implementations": _values(cell)} for cell in cells],
            "sentences": sentences,
            "without_time": without,
        }
    )
    kinds = shown_kinds(use for _, _, use in uses)
    heads = [dimension.head for dimension in dimensions]
    rows = (
        (name, *(each.text(each.of(cell.point)) for each in dimensions), use.runs, *_times(use, kinds))
        for cell, name, use in uses
    )
    numbers = ("runs", "session", *kinds)
    printer.table(("implementation", *heads, *numbers), rows, numbers)
    printer.text("means in s over the runs whose file was delivered, with their share of the session time")
    printer.text(f"to add this to the report: owlt report {results}")
    for sentence in (*sentences, *(f"no time account: {reason}" for reason in without)):
        printer.text(sentence)


def _uses(cells: Sequence[Cell]) -> Iterator[tuple[Cell, str, TimeUse]]:
    """The time use of each implementation in each cell, if any of its runs has a time account."""
    from owlt.reports.comparison.time_use import time_use

    for cell in cells:
        for name, sample in cell.samples.items():
            if use := time_use(sample):
                yield cell, name, use


def _times(use: TimeUse, kinds: Sequence[Kind]) -> list[str]:
    """The mean time of a session, and of each kind with its share."""
    from owlt.reports.answer.sentences import percent_text
    from owlt.reports.looks import LEAST_PRINTED_SHARE

    texts = [f"{use.seconds(kind):.3f} ({percent_text(use.share(kind))})" for kind in kinds]
    shown = [text if use.share(kind) >= LEAST_PRINTED_SHARE else "" for kind, text in zip(kinds, texts, strict=True)]
    return [f"{use.mean_s:.3f}", *shown]


def _values(cell: Cell) -> list[dict[str, Any]]:
    return [
        {
            "implementation": name,
            "runs": use.runs,
            "mean_s": use.mean_s,
            "median_s": use.median_s,
            "sem_s": use.sem_s,
            "spent_ns": dict(use.totals_ns),
            "session_ns": sum(use.sessions_ns),
            "share": {kind: use.share(kind) for kind in use.totals_ns},
        }
        for _, name, use in _uses([cell])
    ]


def _mistake(results: Path, without: Sequence[str]) -> Mistake:
    problem = f"no run has a time account: {'; '.join(without) or 'no file was delivered'}"
    return Mistake(problem, "delivered files and kept captures", where=Place(str(results)))
