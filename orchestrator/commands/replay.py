"""`owlt replay`: perform a recorded run again and compare its packets with the captures that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.commands.replaying import Replay


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run: RESULTS/runs/NAME.")],
    as_json: Json = False,
) -> None:
    """Perform a recorded run again and compare its packets.

    On the exact clock, the same seed gives the same packets. The results are not changed. The exit status is 1 if the
    outcome, or a frame of a kept capture, differs.
    """
    from owlt.orchestrator.commands.replaying import replay as perform_again
    from owlt.orchestrator.planning.plan import read_plan
    from owlt.results.plain_files import real_root
    from owlt.results.record import read_record
    from owlt.results.recorded_runs import results_root

    run = real_root(run.absolute())
    results = results_root(run.parent.parent)
    try:
        record, plan = read_record(run), read_plan(results)
    except FileNotFoundError:
        expected = "the directory of a recorded run, such as results/demo/runs/NAME"
        raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run)))) from None
    result = perform_again(plan, results, record)
    print_replay(record.run_id, result, Printer(as_json))
    raise typer.Exit(0 if result.is_same else 1)


def print_replay(run_id: str, result: Replay, printer: Printer) -> None:
    """Print what is the same and what differs."""
    values = {"run": run_id, "is_same": result.is_same, "outcome": result.outcome}
    printer.json({**values, "captures": result.differences, "note": result.note})
    was = "" if result.outcome is result.recorded_outcome else f", was {result.recorded_outcome}"
    printer.text(f"{run_id}: {result.outcome}{was}")
    for name, difference in result.differences.items():
        printer.text(f"  {name}: {difference or 'the same frames'}")
    if result.note:
        printer.text(f"  note: {result.note}")
