"""A results directory becomes a report: `report/index.html`, figures beside it, tables as CSV.

Only this module and those that draw write. The report depends on the results alone: made twice, it is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from reports.cores import shared
from reports.figures import draw, save
from reports.listings import listings, needs_listings
from reports.load import Results, load_results
from reports.page import render_page
from reports.panels import Figure, comparisons, portraits
from reports.protocols import said_of
from reports.records import ReportError
from reports.replacing import replaced_directory
from reports.session_figures import draw_sessions
from reports.tables import runs_csv, statistics_csv
from reports.tcp_table import tcp_csv

__all__ = ["ReportError", "build_report"]

PAGE_NAME, RUNS_NAME, STATISTICS_NAME, TCP_NAME = "index.html", "runs.csv", "statistics.csv", "tcp.csv"
FIGURES = "figures"
WRITTEN = (PAGE_NAME, RUNS_NAME, STATISTICS_NAME, TCP_NAME, FIGURES)


def build_report(results_dir: Path, warn: Callable[[str], None] = lambda warning: None) -> Path:
    """Make the report of a results directory, in place of the one that is there. Returns its page.

    The earlier report stays until this one is complete. `warn` is given a sentence for everything there that is
    damaged or does not belong. Raises ReportError when there are no records, when a file is not what it should be, and
    when runs of different clocks lie together; OSError.
    """
    results = load_results(results_dir)
    for warning in results.warnings:
        warn(warning)
    report = results_dir / "report"
    with replaced_directory(report, WRITTEN) as draft:
        _build(results, draft)
    return report / PAGE_NAME


def _build(results: Results, report: Path) -> None:
    figures = report / FIGURES
    figures.mkdir()
    compared = list(listings(results) if needs_listings(results) else comparisons(results))
    portrayed = list(portraits(results)) if len(results.implementations) > 1 else []
    said = said_of(results)
    with shared(len(compared) + len(portrayed) + len(said)) as share:
        sessions = draw_sessions(results, said, figures, share)
        list(share(partial(_draw, series=results.series, figures=figures), (*compared, *portrayed)))
    (report / RUNS_NAME).write_text(runs_csv(results))
    (report / STATISTICS_NAME).write_text(statistics_csv(results))
    if any(run.record.tcp for run in results.runs):
        (report / TCP_NAME).write_text(tcp_csv(results))
    (report / PAGE_NAME).write_text(render_page(results, compared, portrayed, said, sessions, figures))


def _draw(figure: Figure, series: dict[str, int], figures: Path) -> None:
    save(draw(figure, series), figures, figure.name)
