"""`owlt report`: make the report of a results directory again, or one of several directories."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.performing.concluding import ASSERTION_STATUS, print_assertions
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.options import Json
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.combining import Source


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
    from owlt.orchestrator.results.recorded_runs import results_root
    from owlt.orchestrator.sweep.report import make_checked_report

    printer = Printer(as_json)
    sources: list[Source] = []
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


def _combined(results: list[Path], out: Path | None) -> tuple[Path, list[Source]]:
    """The combined directory, and what became of each."""
    from owlt.orchestrator.profiles.load import refuse_missing
    from owlt.orchestrator.results.recorded_runs import results_root
    from owlt.orchestrator.sweep.combining import combine

    for path in results:
        refuse_missing(path, "directory", "a results directory that 'owlt run' made, such as results/demo")
    roots = [results_root(path) for path in results]
    names = dict.fromkeys(path.resolve().name for path in roots)
    directory = results_root(out or roots[0].parent / "+".join(names))
    return directory, combine(roots, directory)


def _combined_texts(sources: list[Source]) -> Iterator[str]:
    """What was pooled, and what was not, in words."""
    for source in sources:
        more = f", {source.duplicates} as in an earlier directory" if source.duplicates else ""
        yield f"{source.directory}: {source.runs} runs{more}"
        for name, reasons in source.apart.items():
            yield f"{source.directory}: {name} is shown apart: {'; '.join(reasons)}"
