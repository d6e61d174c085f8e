"""`owlt dissect`: chosen frames of a capture, with every field that a dissector finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.completion import complete_implementation


def dissect(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file.")],
    frames: Annotated[list[int], typer.Argument(metavar="FRAME...", help="Frame numbers in the file, from 1.")],
    implementation: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Implementation that generated the traffic ('owlt implementations list').",
            autocompletion=complete_implementation,
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Accepted for consistency; the output is always JSON.", show_default=False)
    ] = True,
) -> None:
    """Print every field of the given frames as JSON.

    The output is nested: frames, their layers, and the fields of each layer. The frame numbers are those of
    messages.csv.
    """
    print(json.dumps(_dissected(capture, frames, implementation), indent=2))


def _dissected(capture: Path, frames: list[int], implementation: str) -> Any:
    from owlt.captures.files.blocks import NotACapture
    from owlt.captures.frames.columns import read_columns
    from owlt.captures.protocols.details import packet_details
    from owlt.captures.protocols.tshark import NoDissection
    from owlt.orchestrator.commands.analyse.options import CaptureOptions, case_of_captures
    from owlt.orchestrator.profiles.load import refuse_missing

    refuse_missing(capture, expected="a capture: a pcap or pcapng file")
    try:
        columns = read_columns(capture)
        if strangers := [number for number in frames if not 1 <= number <= len(columns)]:
            raise OwltError(Mistake(f"got frame {strangers[0]}", f"1 to {len(columns)}", where=Place(str(capture))))
        try:
            case = case_of_captures([columns], CaptureOptions(implementation=implementation))
        except OwltError:
            if implementation:
                raise
            return packet_details(columns, frames, None, ())
        return packet_details(columns, frames, case.session, case.dissector)
    except (NotACapture, NoDissection) as problem:
        raise OwltError(str(problem)) from problem
    except OSError as problem:
        raise OwltError(Mistake(f"cannot be read: {problem.strerror}", where=Place(str(capture)))) from problem
