"""`owlt capsule`: one file with everything that is needed to repeat a recorded run on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.errors import OwltError


def capsule(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run: RESULTS/runs/NAME.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; default: NAME.capsule.zip in the current directory."),
    ] = None,
    with_programs: Annotated[
        bool,
        typer.Option(
            "--with-programs",
            help="Include the implementation's programs and their libraries, or Python and its modules.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a recorded run into one file that others can replay.

    The file contains the plan of the run, its certificate, record, losses, logs and captures (the sender's data are cut
    to headers), and the digests of the files that affect its packets. The paths of your directories and the names of
    user and host are replaced. 'owlt replay FILE' performs the run again and compares its packets.
    """
    from owlt.orchestrator.commands.replay import require_comparable
    from owlt.orchestrator.planning.plan import read_plan
    from owlt.orchestrator.private_names import private_names
    from owlt.orchestrator.sweep.capsules import contents_of
    from owlt.results.capsule import ENDING, write_capsule
    from owlt.results.plain_files import real_root
    from owlt.results.record import read_record
    from owlt.results.recorded_runs import results_root

    directory = real_root(run.absolute())
    results = results_root(directory.parent.parent)
    try:
        record, plan = read_record(directory), read_plan(results)
        planned = next(each for each in plan.runs if each.run_id == record.run_id)
    except (FileNotFoundError, StopIteration):
        expected = "the directory of a recorded run, such as results/demo/runs/NAME"
        raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run)))) from None
    require_comparable(plan, results, planned)
    contents = contents_of(results, plan, record, private_names(results), with_programs)
    path = real_root((out or Path(f"{record.run_id}{ENDING}")).absolute())
    manifest = write_capsule(path, contents.manifest, contents.files)
    size_bytes = path.stat().st_size
    printer = Printer(as_json)
    values = {"capsule": path, "run": record.run_id, "size_bytes": size_bytes, "files": len(manifest.files)}
    printer.json({**values, "notes": manifest.notes})
    printer.text(f"{path}: {size_bytes:,} bytes, {len(manifest.files)} files")
    for note in manifest.notes:
        printer.text(f"  {note}")
    printer.text(f"to perform the run again: owlt replay {path}")
