"""How a start of a sweep is concluded: summary, report, assertions, exit status."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from owlt.orchestrator.terminal.ending import INTERRUPTED_STATUS
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.campaign import Performed
    from owlt.orchestrator.sweep.report import CheckedAssertions


SOME_FAILED_STATUS = 3
"""Every run is recorded, and some did not complete."""
ASSERTION_STATUS = 4
"""Every run is recorded, and an assertion of the sweep is not met."""
MOST_PRINTED = 20
"""Checks of assertions that are printed; the report has all."""


def exit_status(performed: Performed, checks_failed: int = 0) -> int:
    """The exit status of a start of a sweep, and of so many checks of its assertions that are not met."""
    if performed.interrupted:
        return INTERRUPTED_STATUS
    if not performed.is_complete:
        return 1
    if checks_failed:
        return ASSERTION_STATUS
    return SOME_FAILED_STATUS if performed.failed else 0


def conclude(
    performed: Performed, printer: Printer, report: bool, asserts: bool = False
) -> tuple[Path | None, CheckedAssertions]:
    """Print what a start of a sweep has done, make its report, and check the assertions of a sweep that `asserts`
    something. Returns the page of the report and what the check found."""
    from owlt.orchestrator.sweep.report import CheckedAssertions, check_assertions

    if performed.change:
        printer.note(f"{performed.results}: the sweep has changed: {performed.change.text}")
    if performed.stopped:
        printer.note(performed.stopped)
    printer.note(performed.summary)
    page: Path | None = None
    checked = CheckedAssertions()
    try:
        page = report_of(performed, printer) if report and performed.recorded else None
        if asserts and performed.recorded and not performed.interrupted:
            checked = check_assertions(performed.results)
    finally:
        printer.json(_as_json(performed, page, checked))
    print_assertions(checked, printer)
    return page, checked


def print_assertions(checked: CheckedAssertions, printer: Printer) -> None:
    """The checks that are not met, and the number of all."""
    for line in checked.open_checks[:MOST_PRINTED]:
        printer.text(f"assertion {line}")
    if checked.checks:
        rest = len(checked.open_checks) - MOST_PRINTED
        more = f" ({rest} more are in the report)" if rest > 0 else ""
        printer.text(
            f"assertions: {checked.checks - len(checked.open_checks)} of {checked.checks} checks are met{more}"
        )


def report_of(performed: Performed, printer: Printer, make: Callable[[Path], Path] | None = None) -> Path | None:
    """The report of a sweep, by default as `make_report` makes it. An interrupt skips it, as a second interrupt before
    it does."""
    try:
        if not performed.interrupted_again:
            page = (make or _make_report)(performed.results)
            printer.note(f"report: {page}")
            return page
    except KeyboardInterrupt:
        pass
    printer.note(f"the report was skipped; make it with: owlt report {shlex.quote(str(performed.results))}")
    raise typer.Exit(INTERRUPTED_STATUS)


def _make_report(results: Path, with_pdf: bool = False) -> Path:
    from owlt.orchestrator.sweep.report import make_report

    return make_report(results, with_pdf)


def _as_json(performed: Performed, page: Path | None, checked: CheckedAssertions) -> dict[str, Any]:
    return {
        "results": performed.results,
        "recorded": performed.recorded,
        "complete": performed.is_complete,
        "failed": performed.failed,
        "summary": performed.summary,
        "same_failures": performed.same_failures,
        "interrupted": performed.interrupted,
        "report": page,
        "assertions": checked.values,
    }
