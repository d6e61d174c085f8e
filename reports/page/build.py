"""A results directory becomes a report: `report/index.html`, figures and tables as CSV beside it.

The report depends on the results alone: built twice, it is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from owlt.captures.pool import shared
from owlt.captures.protocols.messages import without_collections
from owlt.reports.comparison.cells import cells_of
from owlt.reports.comparison.derived_tables import DERIVED_FILES, write_derived_tables
from owlt.reports.comparison.expectations import comparisons_of
from owlt.reports.comparison.stopping import load_due_results
from owlt.reports.drawing.kept import WORTH_A_PROCESS, KeptFigures
from owlt.reports.page.figure_files import draw_figures
from owlt.reports.page.page import Contents, Drawings, render_page
from owlt.reports.page.parts import Parts
from owlt.reports.page.time_use import time_section
from owlt.reports.replacing import replaced_directory
from owlt.reports.results.load import Results
from owlt.reports.results.rows import FILES, write_table
from owlt.reports.sessions.session_figures import draw_sessions
from owlt.results.files import ReportError

__all__ = ["ReportError", "build_report"]

PAGE_NAME = "index.html"
FIGURES, PARTS = "figures", "parts"
WRITTEN = (PAGE_NAME, *DERIVED_FILES, *FILES, FIGURES, PARTS, "tcp.csv")
"""The entries of a report that a new one replaces; those of older versions too."""


def build_report(results_dir: Path, warn: Callable[[str], None] = lambda warning: None, with_pdf: bool = False) -> Path:
    """Build the report of a results directory, and replace an earlier one. Returns its page.

    Figures that are drawn from the same values as those of the earlier report are taken over from it; `with_pdf` adds a
    PDF to each.

    The earlier report stays until this one is complete. `warn` is called with a sentence for each file that
    is damaged or unexpected. Raises ReportError if there is no record, if a required file is invalid, or if the runs
    have different clocks; OSError.
    """
    with without_collections():
        return build_report_of(load_due_results(results_dir), warn, with_pdf)


def build_report_of(results: Results, warn: Callable[[str], None], with_pdf: bool = False) -> Path:
    """Build the report of results that are loaded already, without planned runs that are not due. Raises OSError."""
    for warning in results.warnings:
        warn(warning)
    report = results.directory / "report"
    with replaced_directory(report, WRITTEN) as draft:
        (draft / FIGURES).mkdir()
        suffixes = (".svg", ".pdf") if with_pdf else (".svg",)
        _build(results, draft, KeptFigures(report / FIGURES, draft / FIGURES, suffixes))
    return report / PAGE_NAME


def _build(results: Results, report: Path, kept: KeptFigures) -> None:
    contents = Contents.of(results)
    over_sweep = (*contents.compared, *contents.portrayed)
    rows = results.rows
    cells = cells_of(rows)
    theory = comparisons_of(cells)
    with shared(len(over_sweep) + len(contents.shown_runs), WORTH_A_PROCESS) as share:
        sessions = draw_sessions(results, contents.shown_runs, kept, share)
        draw_figures(results, over_sweep, theory, kept, share)
    drawn = Drawings(sessions, time_section(results, cells, kept))
    kept.write()
    write_table(rows, report)
    write_derived_tables(cells, report)
    parts = Parts(report / PARTS)
    (report / PAGE_NAME).write_text(render_page(results, cells, theory, contents, drawn, kept, parts))
    parts.write()
