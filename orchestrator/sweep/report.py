"""The report of a results directory, made again at any time."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.captures.protocols.messages import without_collections
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import read_plan_values
from owlt.orchestrator.profiles.load import refuse_missing
from owlt.orchestrator.run.analysis import analyse_runs, unavailable
from owlt.orchestrator.sweep.campaign import files_may_fail, warn
from owlt.results.recorded_runs import RUNS

if TYPE_CHECKING:
    from owlt.reports.results.load import Results


@dataclass(frozen=True)
class CheckedAssertions:
    """The result of checking a sweep's assertions.

    `open_checks`: those that are not met or have no result, in words.
    """

    checks: int = 0
    failed: int = 0
    """The checks that are not met."""
    open_checks: tuple[str, ...] = ()
    values: tuple[dict[str, Any], ...] = ()
    """Every check, for JSON output."""


def check_assertions(results: Path) -> CheckedAssertions:
    """Check the assertions of the sweep in a results directory, as its report shows them."""
    from owlt.reports.comparison.stopping import load_due_results

    if not read_plan_values(results).get("sweep", {}).get("assertions"):
        return CheckedAssertions()
    return _checked(load_due_results(results))


def _checked(loaded: Results) -> CheckedAssertions:
    from owlt.reports.answer.assertions import findings_of
    from owlt.reports.comparison.cells import cells_of

    if not loaded.sweep.assertions:
        return CheckedAssertions()
    findings = findings_of(loaded.sweep.assertions, cells_of(loaded.rows))
    return CheckedAssertions(
        checks=len(findings),
        failed=sum(finding.verdict == "not met" for finding in findings),
        open_checks=tuple(finding.text for finding in findings if not finding.is_met),
        values=tuple(finding.as_json() for finding in findings),
    )


def make_report(results: Path) -> Path:
    """The page of the report of a results directory, made from its records and captures alone."""
    return make_checked_report(results)[0]


def make_checked_report(results: Path, with_pdf: bool = False) -> tuple[Path, CheckedAssertions]:
    """Make the report and check the sweep's assertions; the results are loaded once for both. `with_pdf` adds a PDF to
    each figure."""
    from owlt.reports.comparison.stopping import load_due_results
    from owlt.reports.page.page import build_report_of

    refuse_missing(results, "directory", "a results directory that 'owlt run' made, such as results/demo")
    if not (results / RUNS).is_dir():
        raise OwltError(
            Mistake(
                "is not a results directory (it has no runs/)", "one that 'owlt run' made", where=Place(str(results))
            )
        )
    with files_may_fail(results, f"owlt report {shlex.quote(str(results))}"):
        for problem in analyse_runs(results):
            warn(problem)
        for sentence in unavailable(results):
            warn(sentence)
        with without_collections():
            loaded = load_due_results(results)
            return build_report_of(loaded, warn, with_pdf), _checked(loaded)
