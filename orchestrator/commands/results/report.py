"""`owlt report`: make the report of a results directory again, or one of several directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agents.inputs.mistake import Mistake
from orchestrator.commands.performing.concluding import ASSERTION_STATUS, print_assertions
from orchestrator.errors import OwltError
from orchestrator.terminal.options import Json
from orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from orchestrator.shards.combining import Source


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Results directories, such as results/demo.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of several: the directory that combines them; default: A+B."),
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
    from orchestrator.sweeping.report import make_checked_report

    printer = Printer(as_json)
    sources: list[Source] = []
    directory = results[0]
    if len(results) > 1:
        directory, sources = _combined(results, out)
        for line in _combined_texts(sources):
            printer.note(line)
    elif out is not None:
        raise OwltError(Mistake.of("--out", "got one results directory", "two or more", "leave --out out"))
    page, checked = make_checked_report(directory, pdf)
    printer.text(f"report: {page}")
    print_assertions(checked, printer)
    printer.json({"report": page, "sources": sources, "assertions": checked.values})
    raise typer.Exit(ASSERTION_STATUS if checked.failed else 0)


def _combined(results: list[Path], out: Path | None) -> tuple[Path, list[Source]]:
    """The combined directory, and what became of each."""
    from orchestrator.profiles.kinds import refuse_missing
    from orchestrator.shards.combining import combine

    for path in results:
        refuse_missing(path, "directory", "a results directory that 'owlt run' made, such as results/demo")
    directory = out or results[0].parent / "+".join(dict.fromkeys(path.resolve().name for path in results))
    return directory, combine(results, directory)


def _combined_texts(sources: list[Source]) -> Iterator[str]:
    """What was pooled, and what was not, in words."""
    for source in sources:
        more = f", {source.duplicates} as in an earlier directory" if source.duplicates else ""
        yield f"{source.directory}: {source.runs} runs{more}"
        for name, reasons in source.apart.items():
            yield f"{source.directory}: {name} is shown apart: {'; '.join(reasons)}"
