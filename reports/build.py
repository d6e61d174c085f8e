"""A results directory becomes a report: `report/index.html`, figures beside it, tables as CSV.

The only module here that writes. The report depends on the results alone: made twice, it is the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from reports.figures import draw, save
from reports.listings import listings, needs_listings
from reports.load import load_results
from reports.page import render_page
from reports.panels import comparisons, portraits
from reports.records import ReportError
from reports.tables import runs_csv, statistics_csv

__all__ = ["ReportError", "build_report"]

PAGE_NAME = "index.html"


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
    series = {name: number for number, name in enumerate(results.implementations)}
    for figure in (*compared, *portrayed):
        save(draw(figure, series), figures, figure.name)
    (report / "runs.csv").write_text(runs_csv(results))
    (report / "statistics.csv").write_text(statistics_csv(results))
    page = report / PAGE_NAME
    page.write_text(render_page(results, compared, portrayed, figures))
    return page
