"""`owlt implementations`: which there are, whether one works, and how all do side by side."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

FILE_COLUMNS = 200
"""The width of tables where there is no terminal."""

implementations_app = typer.Typer(
    invoke_without_command=True, help="The builds that can be compared: list them, check one, try all."
)
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else FILE_COLUMNS)

CHECKS = Path("results", "checks")
TABLE = Path("results", "builds-table")
Guests = Annotated[int | None, typer.Option(min=1, help="Guests side by side; by default one per core.")]


@implementations_app.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_all()


@implementations_app.command("list")
def list_all() -> None:
    """List the implementations that come with owlt, and what each lacks here."""
    from orchestrator.catalogue import find_implementation, implementation_files
    from orchestrator.doctor import lacks_for

    table = _table("name", "protocol", "what it is", "clocks", "lacks")
    for path in implementation_files():
        build = find_implementation(str(path))
        lacks = "; ".join(f"{lack.name}: {lack.mend}" for lack in lacks_for(build))
        table.add_row(build.name, build.protocol, build.title, ", ".join(build.clocks), lacks or "nothing")
    out.print(table)


@implementations_app.command()
def check(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of an implementation, or the path of its file.")
    ],
    guests: Guests = None,
) -> None:
    """Prove one build in the virtual rig: 1 MB over a clean, a lossy and a dead channel, with a verdict.

    Exit status 1: it is not fit for a sweep, and the lines say why. Its runs stay below results/checks.
    """
    from orchestrator.campaign import perform_plan
    from orchestrator.catalogue import find_implementation
    from orchestrator.progress import SweepProgress
    from orchestrator.proving import check_plan
    from orchestrator.record import Outcome, read_record
    from orchestrator.verdict import findings, is_fit, log_tail

    build = find_implementation(name)
    results = CHECKS / build.name
    shutil.rmtree(results, ignore_errors=True)
    again = _typed("check", [name], guests)
    with SweepProgress(out, again) as observe:
        done = perform_plan(check_plan(build), results, guests, observe, again)
    if done.interrupted:
        out.print(done.summary)
        raise typer.Exit(130)
    found = findings(build, results)
    table = _table("looked at", "", "seen")
    for finding in found:
        table.add_row(finding.what, finding.weight, escape(finding.seen))
    out.print(table)
    for path in sorted((results / "runs").iterdir()):
        lines = [] if read_record(path).outcome is Outcome.COMPLETED else list(log_tail(path))
        if lines:
            out.print(f"{path}:", *lines, sep="\n  ", markup=False)
    fit = is_fit(found)
    bad = ", ".join(finding.what for finding in found if finding.weight == "bad")
    next_step = f'not fit for a sweep because of: {bad}; next: mend the profile (docs/implementations.md, "Mistakes")'
    out.print(f"{build.name}: {'fit for a sweep' if fit else next_step}", markup=False)
    raise typer.Exit(0 if fit else 1)


@implementations_app.command()
def table(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Implementations; all that are installed if none.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where results go.")] = TABLE,
    guests: Guests = None,
) -> None:
    """Try every build over three channels in the virtual rig: outcome, goodput, packets each way, hash.

    Exit status 1: a run failed and its profile does not say why it would, or is suspect.
    """
    from orchestrator.builds_table import rows, summary, write_csv
    from orchestrator.campaign import make_report, perform_plan
    from orchestrator.catalogue import find_implementation, implementation_files
    from orchestrator.doctor import lacks_for
    from orchestrator.progress import SweepProgress
    from orchestrator.proving import table_plans

    asked = [find_implementation(name) for name in names or [str(path) for path in implementation_files()]]
    missing = {build.name: lacks[0].mend for build in asked if (lacks := lacks_for(build))}
    plans = table_plans({build.name: build for build in asked if build.name not in missing})
    elsewhere = [] if results == TABLE else ["--results", str(results)]
    interrupted, again = False, _typed("table", [*(names or []), *elsewhere], guests)
    for clock, plan in plans.items():
        with SweepProgress(out, again) as observe:
            done = perform_plan(plan, results / clock, guests, observe, again)
        interrupted = interrupted or done.interrupted
        if interrupted:
            break
    found = [row for clock, plan in plans.items() for row in rows(plan, results / clock)]
    shown = _table("build", "clock", "channel", "outcome", "Mbit/s", "STR", "RTS", "bytes a packet", "hash", "remark")
    for row in found:
        goodput = "" if row.goodput_bps is None else f"{row.goodput_bps / 1e6:.3f}"
        counts = ["" if count is None else str(count) for count in (row.str_sent, row.rts_sent)]
        size = "" if row.bytes_a_packet is None else f"{row.bytes_a_packet:.0f}"
        shown.add_row(
            *(row.implementation, row.clock, row.channel, row.outcome, goodput, *counts, size),
            *(row.received_sha256[:8], escape(row.remark)),
        )
    out.print(shown)
    out.print(f"table: {write_csv(found, results)}")
    for name, mend in missing.items():
        out.print(f"{name}: not installed: {mend}")
    for clock in plans:
        if any((results / clock / "runs").glob("*/record.json")):
            out.print(f"report: {make_report(results / clock)}")
    out.print(summary(found, missing, sum(len(plan.runs) for plan in plans.values())), markup=False)
    if interrupted:
        raise typer.Exit(130)
    raise typer.Exit(1 if any(row.unexplained for row in found) else 0)


def _typed(command: str, words: list[str], guests: int | None) -> str:
    """A command of this module as it was typed."""
    of_guests = [] if guests is None else ["--guests", str(guests)]
    return shlex.join(["owlt", "implementations", command, *words, *of_guests])


def _table(*headers: str) -> Table:
    """A table without lines in which nothing is cut off."""
    shown = Table(box=None, header_style="bold")
    for header in headers:
        shown.add_column(header, overflow="fold")
    return shown
