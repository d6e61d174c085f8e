"""`owlt sweeps` and `owlt schema`: list, show and check sweep files, and print the schema of each kind of profile."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from owlt.inputs.mistake import not_one_of
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json, Sweep, add_command, complete_kind, new_app
from owlt.orchestrator.errors import OwltError

sweeps_app = new_app("List, show and check sweeps.")


@add_command(sweeps_app, "list")
def list_sweeps(as_json: Json = False) -> None:
    """List the sweeps that come with owlt."""
    from owlt.orchestrator.profiles.catalogue import sweep_files
    from owlt.orchestrator.profiles.load import load_sweep

    columns = ("title", "rig", "clock", "implementations")
    sweeps = (
        {"name": path.stem, **{name: getattr(sweep, name) for name in columns}, "path": path}
        for path in sweep_files()
        for sweep in [load_sweep(path)]
    )
    Printer(as_json).listing(sweeps, "name", *columns)


@add_command(sweeps_app, "show")
def show_sweep(sweep: Sweep, as_json: Json = False) -> None:
    """Show every key of a sweep, with defaults filled in."""
    from owlt.orchestrator.profiles.catalogue import sweep_path
    from owlt.orchestrator.profiles.load import load_sweep

    Printer(as_json).show(load_sweep(sweep_path(sweep)).model_dump(mode="json"))


@add_command(sweeps_app, "check")
def check_sweep(sweep: Sweep, as_json: Json = False) -> None:
    """Check a sweep file, and whether it can run on this machine.

    Exit status: 0 if it can run here; 1 if something is missing on this machine; 2 for mistakes in the file.
    """
    from owlt.orchestrator.checks.preconditions import missing_for_plan
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path

    printer = Printer(as_json)
    path = sweep_path(sweep)
    planned = resolve(path)
    missing = missing_for_plan(planned)
    printer.json(
        {"sweep": planned.sweep.name, "path": path, "runs": len(planned.runs), "missing": list(map(str, missing))}
    )
    printer.text(f"{path}: valid, {len(planned.runs)} runs")
    for each in missing:
        printer.text(f"missing: {each}")
    raise typer.Exit(1 if missing else 0)


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="sweep, implementation, pair, channel or inventory.", autocompletion=complete_kind
        ),
    ],
) -> None:
    """Print the JSON Schema of one kind of file.

    Editors can use it to complete and validate profiles. For example: owlt schema sweep > sweep.json; then write this
    as the first line of a sweep file in the same directory: # yaml-language-server: $schema=sweep.json
    """
    from owlt.orchestrator.profiles.schemas import SCHEMAS

    if kind not in SCHEMAS:
        raise OwltError(not_one_of(kind, SCHEMAS).below("schema"))
    print(json.dumps(SCHEMAS[kind](), indent=2))
