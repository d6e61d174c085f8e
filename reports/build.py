"""A results directory becomes a report: `report/index.html`, figures beside it, tables as CSV.

Only this module and those that draw write. The report depends on the results alone: made twice, it is the same bytes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from reports.cores import shared
from reports.figures import draw, save
from reports.listings import listings, needs_listings
from reports.load import load_results
from reports.page import render_page
from reports.panels import Figure, comparisons, portraits
from reports.protocols import said_of
from reports.records import ReportError
from reports.session_figures import draw_sessions
from reports.tables import runs_csv, statistics_csv
from reports.tcp_table import tcp_csv

__all__ = ["ReportError", "build_report"]

PAGE_NAME, TCP_NAME = "index.html", "tcp.csv"


def build_report(results_dir: Path) -> Path:
    """Make the report of a results directory, in place of the one that is there. Returns its page.

    Raises ReportError when there are no records, when a file is not what it should be, and when runs of
    different clocks lie together.
    """
    results = load_results(results_dir)
    report = results_dir / "report"
    figures = report / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for stale in (*figures.glob("*.svg"), *figures.glob("*.pdf")):
        stale.unlink()
    compared = list(listings(results) if needs_listings(results) else comparisons(results))
    portrayed = list(portraits(results)) if len(results.implementations) > 1 else []
    said = said_of(results)
    series = {name: number for number, name in enumerate(results.implementations)}
    with shared(len(compared) + len(portrayed) + len(said)) as share:
        sessions = draw_sessions(results, said, figures, share)
        list(share(partial(_draw, series=series, figures=figures), (*compared, *portrayed)))
    (report / "runs.csv").write_text(runs_csv(results))
    (report / "statistics.csv").write_text(statistics_csv(results))
    if any(run.record.tcp for run in results.runs):
        (report / TCP_NAME).write_text(tcp_csv(results))
    else:
        (report / TCP_NAME).unlink(missing_ok=True)
    page = report / PAGE_NAME
    page.write_text(render_page(results, compared, portrayed, said, sessions, figures))
    return page


def _draw(figure: Figure, series: dict[str, int], figures: Path) -> None:
    save(draw(figure, series), figures, figure.name)
