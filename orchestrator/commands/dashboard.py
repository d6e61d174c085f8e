"""`owlt dashboard`: the state of sweeps, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owlt.orchestrator.commands.channel import Access, CaFile, TokenFile, Url, emulator_client
from owlt.orchestrator.commands.output import Printer

PORT = 8780
EMULATOR_TIMEOUT_S = 2.0


def dashboard(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RESULTS...",
            help="Results directories, or directories that hold some; default: those in results/.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: any that is free.")] = PORT,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to serve; 0.0.0.0 serves every interface.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of this machine that browsers may use; repeat for more."),
    ] = None,
    emulator: Url = "",
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show sweeps in a browser while they run.

    Pages show the matrix of each sweep, box plots that fill in as runs end, and every run with its packets; with
    --emulator also its channel and counters. Only this machine can open them, unless --host says otherwise. They change
    nothing, except for those who open the printed address with the token. Ctrl-C ends the server.
    """
    from owlt.orchestrator.dashboard.app import serve

    printer = Printer()

    def print_addresses(url: str, with_token: str) -> None:
        printer.text(f"dashboard: {url}  (Ctrl-C ends it)")
        printer.text(f"to change things, open: {with_token}")

    access = Access(emulator, token_file, ca_file)
    client = emulator_client(access, EMULATOR_TIMEOUT_S) if emulator else None
    serve(results or [], (host, port), name or [], client, print_addresses)
