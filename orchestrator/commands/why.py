"""`owlt why`: where the time of a transfer went, and the causes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.errors import OwltError

MOST_CAUSES = 3


def why(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The directory of a run: RESULTS/runs/NAME; or a results directory.")
    ],
    every: Annotated[
        bool, typer.Option("--all", help=f"Print all causes, not only the {MOST_CAUSES} largest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain where the time of a transfer went, or of all runs of a sweep.

    The session's time is the sum of the parts of its critical path: what the next packet waited for at each moment. The
    causes are printed with the largest first. 'owlt analyse RUN' draws the path. Of a results directory: means over the
    runs of each implementation in each cell, which 'owlt report' and 'owlt figure --kind time' then draw.
    """
    from owlt.captures.inspection.causes import causes
    from owlt.orchestrator.commands.captures import inspected_run
    from owlt.orchestrator.commands.why_sweep import explain_results
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.sessions.explanation import cause_text, explanation_json, headline, share_rows
    from owlt.results.files import PLAN_NAME
    from owlt.results.plain_files import real_root
    from owlt.results.recorded_runs import is_recorded

    directory = real_root(run.absolute())
    if (directory / PLAN_NAME).exists():
        explain_results(existing_results(run), as_json)
        return
    if not is_recorded(directory):
        expected = "the directory of a recorded run, such as results/demo/runs/NAME, or a results directory"
        raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run))))
    record, _, inspection = inspected_run(directory)
    path = inspection.path
    if path is None:
        problem = "where its time went is not known: its packets could not be analysed, or there is only one"
        raise OwltError(Mistake(problem, "a session of several packets", where=Place(str(run))))
    found = causes(path)
    printer = Printer(as_json)
    suspect = [*record.suspect, *inspection.summary.suspect]
    printer.json({"run": record.run_id, "outcome": record.outcome, "suspect": suspect} | explanation_json(path, found))
    printer.text(f"{record.run_id}: {record.outcome}; {headline(path)}")
    for reason in suspect:
        printer.text(f"suspect: {reason}")
    rows = share_rows(path)
    width, numbers = max(len(title) for title, _, _ in rows), max(len(time) for _, time, _ in rows)
    for title, time, share in rows:
        printer.text(f"  {title:{width}}  {time:>{numbers}}  {share:>6}")
    shown = found if every else found[:MOST_CAUSES]
    printer.text("the causes of the rest, the largest first:" if shown else "nothing else took time")
    for number, cause in enumerate(shown, start=1):
        printer.text(f"  {number}. {cause_text(cause, path)}")
    if left := len(found) - len(shown):
        printer.text(f"  and {left} more: --all")
