"""`owlt status`, `owlt dashboard`: the state of sweeps while they run and afterwards, in a terminal or a browser."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.channel import Access, CaFile, TokenFile, Url, emulator_client
from owlt.orchestrator.commands.output import Printer, console
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.ending import INTERRUPTED_STATUS
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.state import SweepState


ALL_RESULTS = Path("results")
WATCH_PERIOD_S = 2.0
DASHBOARD_PORT = 8780
EMULATOR_TIMEOUT_S = 2.0


def status(
    results: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS", help="A results directory; default: the latest one in results/."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again every two seconds, until the sweep ends.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a sweep is doing, what failed, and the time left.

    It changes nothing, and works from any terminal, while the sweep runs and afterwards.
    """
    from owlt.orchestrator.sweep.state_reader import StateReader
    from owlt.results.plain_files import real_root

    if watch and as_json:
        raise OwltError(Mistake.of("status", "got --watch and --json", "one of them", "leave one out"))
    reader = StateReader(real_root(results or latest_results(ALL_RESULTS)))
    printer = Printer(as_json)
    state = reader.read()
    print_state(state, printer)
    try:
        while watch and state.process.state == "running":
            time.sleep(WATCH_PERIOD_S)
            state = reader.read()
            console().clear()
            print_state(state, printer)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED_STATUS) from None


def latest_results(parent: Path) -> Path:
    """The results directory below a directory whose sweep was performed last. Raises OwltError if there is none."""
    from owlt.results.files import JOURNAL_NAME, PLAN_NAME

    changed = {
        plan.parent: max(path.stat().st_mtime for path in (plan, plan.with_name(JOURNAL_NAME)) if path.exists())
        for plan in parent.glob(f"*/{PLAN_NAME}")
    }
    if not changed:
        fix = "name a results directory: owlt status RESULTS"
        raise OwltError(Mistake("has no results of a sweep", fix=fix, where=Place(str(parent))))
    return max(changed, key=lambda directory: changed[directory])


def print_state(state: SweepState, printer: Printer) -> None:
    """Print the state of a sweep as text or JSON."""
    from owlt.orchestrator.run.same_failures import same_failures_text
    from owlt.orchestrator.sweep.state import headline, process_text, repetitions_text, since

    printer.json(as_json_value(state))
    printer.text(headline(state), style="bold")
    printer.text(process_text(state))
    if state.repetitions:
        printer.text(repetitions_text(state.repetitions))
    for problem in state.warnings:
        printer.text(f"warning: {problem}")
    if state.activities:
        _print_activities(state, printer)
    printer.text()
    _print_counts(state, printer)
    if state.failures:
        _print_failures(state, printer)
    if text := same_failures_text(state.results, state.same_failures):
        printer.text()
        printer.text(text)
    if state.suspects:
        _print_suspects(state, printer)
    if state.latest_entry_s is not None:
        printer.text()
        printer.text(f"last event: {since(state.latest_entry_s, state.read_at_s)}")


def _print_activities(state: SweepState, printer: Printer) -> None:
    from owlt.orchestrator.sweep.state import activity_text, duration

    printer.text()
    printer.table(
        ("worker", "now", "for"),
        (
            (each.slot, activity_text(each, state.channels), duration(state.read_at_s - each.since_s))
            for each in sorted(state.activities, key=lambda each: each.slot)
        ),
        numbers=("worker", "for"),
    )


def _print_failures(state: SweepState, printer: Printer) -> None:
    printer.text()
    printer.table(
        ("implementation", "outcome", "code", "runs", "reason of the first"),
        (
            (group.implementation, group.outcome, group.code or "", len(group.run_ids), group.reason)
            for group in state.failures
        ),
        numbers=("runs",),
    )


def _print_suspects(state: SweepState, printer: Printer) -> None:
    printer.text()
    printer.table(
        ("implementation", "suspect", "first run", "reasons of the first"),
        ((each.implementation, len(each.run_ids), each.run_ids[0], "; ".join(each.reasons)) for each in state.suspects),
        numbers=("suspect",),
    )


COUNTED = ("planned", "completed", "failed", "unsupported", "quarantined", "aborted", "suspect", "running", "waiting")


def _print_counts(state: SweepState, printer: Printer) -> None:
    rows = {**state.by_implementation, "all": state.counts}
    printer.table(
        ("implementation", *COUNTED),
        ([name, *(getattr(counts, each) for each in COUNTED)] for name, counts in rows.items()),
        numbers=COUNTED,
    )


def as_json_value(state: SweepState) -> dict[str, Any]:
    """The state as JSON values; docs/commands.md has the fields."""
    return {
        "results": state.results,
        "sweep": state.sweep,
        "title": state.title,
        "rig": state.rig,
        "clock": state.clock,
        "read_at_s": state.read_at_s,
        "process": state.process,
        "paused_since_s": state.paused_since_s,
        "started_s": state.started_s,
        "ended_s": state.ended_s,
        "latest_entry_s": state.latest_entry_s,
        "time_left_s": state.time_left_s,
        "activities": state.activities,
        "channels": state.channels,
        "counts": state.counts,
        "implementations": state.by_implementation,
        "cells": [
            {"cell": cell, "implementation": implementation, **asdict(counts)}
            for (cell, implementation), counts in state.by_cell.items()
        ],
        "failures": state.failures,
        "without_completion": state.without_completion,
        "same_failures": state.same_failures,
        "suspects": state.suspects,
        "repetitions": state.repetitions,
        "problems": state.problems,
    }


def dashboard(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RESULTS...",
            help="Results directories, or directories that hold some; default: those in results/.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: any that is free.")] = DASHBOARD_PORT,
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
