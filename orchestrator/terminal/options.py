"""Arguments and options that several commands have, with the same name, meaning and help text everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owlt.orchestrator.terminal.completion import (
    complete_channel,
    complete_implementation,
    complete_rig,
    complete_sweep,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text (fields: docs/commands.md).")]
Sweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="Name of a sweep ('owlt sweeps list') or path of its file, such as demo or mine.yaml.",
        autocompletion=complete_sweep,
    ),
]
Results = Annotated[
    Path | None, typer.Option(metavar="DIRECTORY", help="Results directory; default: results/NAME of the sweep.")
]
Guests = Annotated[
    int | None, typer.Option(metavar="COUNT", min=1, help="Guests that run in parallel; default: one per core.")
]
Channel = Annotated[
    str,
    typer.Argument(
        metavar="CHANNEL",
        help="Name of a channel ('owlt channel list') or path of its file, such as geo or mine.yaml.",
        autocompletion=complete_channel,
    ),
]
ChannelOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="CHANNEL",
        help="Name of a channel or path of its file; default: the emulator's current channel.",
        autocompletion=complete_channel,
    ),
]
Implementation = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of an implementation ('owlt implementations list') or path of its file, such as ltp or mine.yaml.",
        autocompletion=complete_implementation,
    ),
]
Inventory = Annotated[
    str,
    typer.Argument(metavar="INVENTORY", help="Inventory of a lab rig (docs/lab.md); INVENTORY:RIG if it has several."),
]
LabRigOption = Annotated[
    str | None,
    typer.Option(
        "--rig", metavar="INVENTORY", help="Inventory of a lab rig (docs/lab.md); INVENTORY:RIG if it has several."
    ),
]
Rig = Annotated[str, typer.Argument(metavar="RIG", help="virtual or local.", autocompletion=complete_rig)]
