"""`owlt dissect`: chosen frames of a capture, with every field that a dissector finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.errors import OwltError


def dissect(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file.")],
    frames: Annotated[list[int], typer.Argument(metavar="FRAME...", help="Their numbers in the file, from 1.")],
    implementation: Annotated[str, typer.Option(help="Whose packets, as 'owlt implementations' lists them.")] = "",
) -> None:
    """Show every field of some frames, as JSON: by frame, layer and field. `messages.csv` has the frames' numbers."""
    from captures.files.pcap import NotACapture
    from captures.frames.columns import read_columns
    from captures.protocols.details import packet_details
    from captures.protocols.tshark import NoDissection
    from orchestrator.cases import Told, case_of_captures
    from orchestrator.kinds import refuse_missing

    refuse_missing(capture, wanted="a capture: a pcap or pcapng file")
    try:
        columns = read_columns(capture)
    except NotACapture as problem:
        raise OwltError(str(problem)) from problem
    except OSError as problem:
        raise OwltError(f"{capture}: {problem.strerror}") from problem
    if strangers := [number for number in frames if not 1 <= number <= len(columns)]:
        raise OwltError(f"{capture}: got frame {strangers[0]}, wanted one of 1 to {len(columns)}")
    case = case_of_captures([columns], Told(implementation=implementation))
    try:
        shown = packet_details(capture, frames, case.session, case.dissector)
    except NoDissection as problem:
        raise OwltError(str(problem)) from problem
    typer.echo(json.dumps(shown, indent=2))
