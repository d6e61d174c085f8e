"""`owlt report`: make the report of results again, or of several; `owlt merge`: put the shards of a sweep together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import ASSERTION_STATUS, print_assertions
from owlt.orchestrator.commands.usage import Json, MakeReport
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.combining import CombinedSource


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Results directories, such as results/demo.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for the report and its runs; default for several: A+B."),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Draw every figure as PDF too; this takes twice as long.")] = False,
    as_json: Json = False,
) -> None:
    """Rebuild a report, or make one of several directories.

    The report is made from the records and captures alone; no run is repeated, and figures that did
    not change are kept. Runs of the same cell in several directories are pooled if profile, versions, rig, channel and
    advertised values are the same; otherwise an implementation is shown apart, with the name of its directory, and the
    report says why.

    Exit status: 4 if an assertion of the sweep is not met.
    """

    from owlt.orchestrator.sweep.report import make_checked_report
    from owlt.results.recorded_runs import results_root

    printer = Printer(as_json)
    sources: list[CombinedSource] = []
    if len(results) > 1 or out is not None:
        directory, sources = _combined(results, out)
        for line in _combined_texts(sources):
            printer.note(line)
    else:
        directory = results_root(results[0])
        _require_writable(directory)
    page, checked = make_checked_report(directory, pdf)
    printer.text(f"report: {page}")
    print_assertions(checked, printer)
    printer.json({"report": page, "sources": sources, "assertions": checked.values})
    raise typer.Exit(ASSERTION_STATUS if checked.failed else 0)


def _require_writable(directory: Path) -> None:
    if directory.is_dir() and not os.access(directory, os.W_OK | os.X_OK):
        fix = f"make the report elsewhere: owlt report {shlex.quote(str(directory))} --out DIRECTORY"
        problem = "cannot be written by this user, so the report cannot be made there"
        raise OwltError(Mistake(problem, "a directory of this user", fix, Place(str(directory))))


def _combined(results: list[Path], out: Path | None) -> tuple[Path, list[CombinedSource]]:
    """The combined directory, and what became of each."""
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.orchestrator.sweep.combining import combine
    from owlt.results.recorded_runs import results_root

    roots = [existing_results(path) for path in results]
    names = dict.fromkeys(path.resolve().name for path in roots)
    directory = results_root(out or roots[0].parent / "+".join(names))
    return directory, combine(roots, directory)


def _combined_texts(sources: list[CombinedSource]) -> Iterator[str]:
    """What was pooled, and what was not, in words."""
    for source in sources:
        more = f", {source.duplicates} as in an earlier directory" if source.duplicates else ""
        yield f"{source.directory}: {source.runs} runs{more}"
        for name, reasons in source.apart.items():
            yield f"{source.directory}: {name} is shown apart: {'; '.join(reasons)}"


def merge(
    into: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results directory to add runs to; may be new.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SHARD...", help="Results directories of the same sweep.")],
    report: MakeReport = True,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="Merge runs of different versions and of machines that differ.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy the runs of a sweep's shards into one directory.

    The directories must have the same plan, and the machines that performed the runs the same kernel for guests, the
    same owlt, Python, packages, system programs and libraries, and the same programs of each implementation. A run that
    is in two directories must have the same result. If one of these is not so, nothing is changed, and the exit status
    is 2; the message names what differs.
    """
    from owlt.orchestrator.sweep.merging import merge as merge_directories
    from owlt.orchestrator.sweep.report import make_report
    from owlt.results.recorded_runs import results_root

    into, sources = results_root(into), [results_root(source) for source in sources]
    printer = Printer(as_json)
    merged = merge_directories(into, sources, accept_differences)
    more = f", {merged.equal} were in two directories with the same result" if merged.equal else ""
    left = f"; {merged.missing} runs of the sweep are missing" if merged.missing else ""
    printer.note(f"{merged.copied} runs copied to {into}{more}{left}")
    if merged.different:
        printer.note(f"the machines that performed the runs differ in {'; '.join(merged.different)}")
    page = make_report(into) if report else None
    if page:
        printer.note(f"report: {page}")
    printer.json({"results": into, **asdict(merged), "report": page})
