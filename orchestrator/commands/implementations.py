"""`owlt implementations`: list and show them, check whether one works, tabulate all of them; `owlt pairs`: which sender
and receiver understand each other, as matrices.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.orchestrator.commands.fault_tests import case_runs, empty_directory, perform_sets, transfers, with_parameters
from owlt.orchestrator.commands.output import Printer, verbosity
from owlt.orchestrator.commands.usage import (
    ChangedParameters,
    Guests,
    Implementation,
    Json,
    add_command,
    complete_implementation,
    new_app,
    option_words,
)
from owlt.orchestrator.ending import INTERRUPTED_STATUS

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.agents.contract.implementation import Clock
    from owlt.orchestrator.checks.proof import Trial
    from owlt.orchestrator.checks.trials import Row
    from owlt.orchestrator.planning.plan import Plan
from typing import TYPE_CHECKING

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.usage import ResultsArgument
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.reports.comparison.matrices import Entry, Matrix, Square


implementations_app = new_app("List, show, check and tabulate implementations.")

CHECKS = Path("results", "checks")
REPEATED, LOSSES = "repeated", "losses"
"""Subdirectories of a check's results: the runs that were performed a second time, and those with one loss each."""
SHORT_FILE_BYTES = 20_000
TABLE = Path("results", "implementations-table")
ADVICE = 'docs/implementations.md, "Error messages"'
COLUMNS = (
    "implementation",
    "clock",
    "channel",
    "outcome",
    "Mbit/s",
    "STR",
    "RTS",
    "bytes per packet",
    "hash",
    "remark",
)


@add_command(implementations_app, "list")
def list_implementations(as_json: Json = False) -> None:
    """List the implementations and their missing prerequisites."""
    from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files

    printer, columns = Printer(as_json), ("name", "protocol", "title", "clocks")
    listed: list[dict[str, Any]] = [
        {**{name: getattr(each, name) for name in columns}, "path": path, "missing": _missing(each)}
        for path in implementation_files()
        for each in [find_implementation(str(path))]
    ]
    printer.json(listed)
    printer.table(
        (*columns, "missing"),
        ((*map(each.get, columns), _missing_text(each["missing"])) for each in listed),
    )


@add_command(implementations_app, "show")
def show_implementation(name: Implementation, as_json: Json = False) -> None:
    """Show the profile of one implementation, with defaults filled in."""
    from owlt.orchestrator.profiles.catalogue import find_implementation, side_files

    implementation, printer = find_implementation(name), Printer(as_json)
    values = implementation.model_dump(mode="json") | {
        "choices": implementation.choices,
        "pairing": implementation.pairing and implementation.pairing.model_dump(mode="json", exclude_none=True),
        "missing": _missing(implementation),
    }
    printer.json(values)
    if pair := implementation.pair:
        own = implementation.model_fields_set - {"pair"}
        values = {key: value for key, value in values.items() if key in own} | {"missing": values["missing"]}
        for role, path in side_files(name).items():
            side = pair.side(role)
            values[role] = f"{side.name}: {side.title}, {path}"
    printer.keys(values)


@add_command(implementations_app, "check")
def check_implementation(
    name: Implementation,
    parameter: ChangedParameters = None,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Try an implementation in the virtual rig and print a verdict.

    It sends 1 MB over a clean, a lossy and a dead channel. On the exact clock, it repeats the clean and the lossy run
    and compares the packets. It sends 20 kB, and loses one packet of it: the first, the last, each control packet. The
    runs stay in results/checks/NAME.

    Exit status: 0 if it is fit for a sweep, 1 if not; the output says why.
    """
    from owlt.orchestrator.checks.findings import SUBJECTS, Finding, findings, is_fit
    from owlt.orchestrator.checks.trials import best_clock, check_plan
    from owlt.orchestrator.profiles.catalogue import find_implementation

    printer = Printer(as_json)
    implementation = with_parameters(find_implementation(name), parameter)
    results = empty_directory(CHECKS, implementation.name)
    again = _typed("check", [name, *option_words("--parameter", parameter)], guests)
    is_repeatable = best_clock(implementation) == "exact" and not implementation.not_repeatable
    repeated = results / REPEATED if is_repeatable else None
    summary = _perform(printer, check_plan(implementation), results, guests, again)
    if not summary and repeated:
        summary = _perform(printer, check_plan(implementation, tuple(SUBJECTS)), repeated, guests, again)
    if summary:
        printer.note(summary)
        raise typer.Exit(INTERRUPTED_STATUS)
    try:
        losses, incomplete = _perform_losses(printer, implementation, results / LOSSES, guests, again), []
    except typer.Exit as end:
        if end.exit_code == INTERRUPTED_STATUS:
            raise
        losses, incomplete = [], [Finding("one loss", "bad", "not all of its runs were performed; see above")]
    checked = [*findings(implementation, results, repeated, losses), *incomplete]
    fit = is_fit(checked)
    printer.json({"implementation": implementation.name, "fit": fit, "findings": checked, "results": results})
    printer.table(("checked", "", "result"), ((each.subject, each.level, each.text) for each in checked))
    _print_log_tails(printer, results)
    bad = ", ".join(each.subject for each in checked if each.level == "bad")
    unfit = f"not fit for a sweep because of: {bad}; next: fix the program or its profile ({ADVICE})"
    printer.text(f"{implementation.name}: {'fit for a sweep' if fit else unfit}")
    raise typer.Exit(0 if fit else 1)


@add_command(implementations_app, "table")
def try_implementations(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Names or paths of implementations; default: all that are installed.",
            autocompletion=complete_implementation,
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Results directory.")] = TABLE,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Try implementations over three channels and print a table.

    The columns: outcome, goodput, packets from sender (STR) and receiver (RTS), size, hash of the received file.

    Exit status: 1 if a run is suspect, or failed for a reason that its profile does not state; otherwise 0.
    """
    from owlt.orchestrator.checks.trials import table_plans, table_rows, table_summary, write_csv
    from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files
    from owlt.results.plain_files import real_root

    printer = Printer(as_json)
    requested = [find_implementation(name) for name in names or map(str, implementation_files())]
    missing = {each.name: needs[0]["fix"] for each in requested if (needs := _missing(each))}
    plans = table_plans({each.name: each for each in requested if each.name not in missing})
    elsewhere = [] if results == TABLE else ["--results", str(results)]
    results = real_root(results)
    again = _typed("table", [*(names or []), *elsewhere], guests)
    interrupted = any(_perform(printer, plan, results / clock, guests, again) for clock, plan in plans.items())
    tried = [row for clock, plan in plans.items() for row in table_rows(plan, results / clock)]
    _print_rows(printer, tried)
    printer.note(f"table: {write_csv(tried, results)}")
    for name, fix in missing.items():
        printer.text(f"{name}: not installed: {fix}")
    reports = _reports(printer, plans, results)
    printer.text(table_summary(tried, missing, sum(len(plan.runs) for plan in plans.values())))
    printer.json({"runs": [asdict(row) for row in tried], "missing": missing, "reports": reports})
    if interrupted:
        raise typer.Exit(INTERRUPTED_STATUS)
    raise typer.Exit(1 if any(row.unexplained for row in tried) else 0)


def _missing(implementation: contract.Implementation) -> list[dict[str, str]]:
    """What an implementation needs that this machine does not have, each with its fix."""
    from owlt.orchestrator.checks.doctor import missing_for

    return [{"name": each.name, "detail": each.detail, "fix": each.fix} for each in missing_for(implementation)]


def _missing_text(missing: Iterable[dict[str, str]]) -> str:
    return "; ".join(f"{each['name']}: {each['fix']}" for each in missing) or "nothing"


def _perform(printer: Printer, plan: Plan, results: Path, guests: int | None, again: str) -> str:
    """Perform a plan. Returns the summary of an interrupted one, "" for one that came to its end."""
    from owlt.orchestrator.checks.trials import DEAD
    from owlt.orchestrator.commands.progress import SweepProgress
    from owlt.orchestrator.sweep.campaign import Start, perform_plan

    dead = {run.run_id for run in plan.runs if run.permutation.channel_name == DEAD}
    with SweepProgress(printer.console, again, expected_failures=dead) as observe:
        performed = perform_plan(Start(plan, results, again, guests=guests), observe)
    return performed.summary if performed.interrupted else ""


def _perform_losses(
    printer: Printer, implementation: contract.Implementation, results: Path, guests: int | None, again: str
) -> list[Trial]:
    """Perform a short transfer without a loss, and then with the loss of each telling packet, if it is delivered."""
    from owlt.orchestrator.checks.fault_cases import Hit, Hits, telling_packets
    from owlt.orchestrator.checks.trials import CHANNELS, CLEAN, best_clock

    plan_of = transfers(implementation, CHANNELS[CLEAN], SHORT_FILE_BYTES, clock=best_clock(implementation))
    with case_runs(printer, again, guests) as perform:
        (base,) = perform_sets(perform, plan_of, [()], results / "0")
        sets: list[Hits] = [(Hit(packet.place),) for packet in telling_packets(base.sent)] if base.is_delivered else []
        return [base, *perform_sets(perform, plan_of, sets, results / "1", base)]


def _print_log_tails(printer: Printer, results: Path) -> None:
    """Print the ends of the logs of runs that did not complete; of all runs with -v."""
    from owlt.orchestrator.checks.findings import log_tail
    from owlt.results.record import Outcome
    from owlt.results.recorded_runs import recorded_runs

    for run in recorded_runs(results):
        if verbosity.verbose or run.record.outcome is not Outcome.COMPLETED:
            lines = list(log_tail(run.directory))
            printer.text("\n  ".join([f"{run.directory}:", *lines])) if lines else None


def _print_rows(printer: Printer, rows: Iterable[Row]) -> None:
    def cells(row: Row) -> tuple[str, ...]:
        goodput = "" if row.goodput_bps is None else f"{row.goodput_bps / 1e6:.3f}"
        counts = ["" if count is None else str(count) for count in (row.str_sent, row.rts_sent)]
        size = "" if row.bytes_per_packet is None else f"{row.bytes_per_packet:.0f}"
        named = (row.implementation, row.clock, row.channel, str(row.outcome))
        return (*named, goodput, *counts, size, row.received_sha256[:8], row.remark)

    printer.table(COLUMNS, map(cells, rows))


def _reports(printer: Printer, plans: dict[Clock, Plan], results: Path) -> list[Path]:

    from owlt.orchestrator.sweep.report import make_report
    from owlt.results.recorded_runs import recorded_directories

    reports = []
    for clock in plans:
        if recorded_directories(results / clock):
            reports.append(make_report(results / clock))
            printer.note(f"report: {reports[-1]}")
    return reports


def _typed(command: str, words: list[str], guests: int | None) -> str:
    """A command of this module as the user typed it."""
    options = [] if guests is None else ["--guests", str(guests)]
    return shlex.join(["owlt", "implementations", command, *words, *options])


def pairs(results: ResultsArgument, as_json: Json = False) -> None:
    """Print which sender and receiver understand each other.

    A row for each sender, a column for each receiver: runs that delivered the file, the median goodput in Mbit/s, and
    the packets of sender and receiver. Brackets: an implementation with itself.
    """
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.answer.regions import dimensions_of, place_text
    from owlt.reports.comparison.cells import cells_of
    from owlt.reports.comparison.matrices import matrices_of
    from owlt.reports.comparison.stopping import load_due_results

    path = existing_results(results)
    loaded = load_due_results(path)
    cells = cells_of(loaded.rows)
    matrices = matrices_of(cells, loaded.profiles, loaded.left_out_pairs)
    if not matrices:
        raise OwltError(Mistake("has no pairs", "the results of a sweep with 'pairs'", where=Place(str(path))))
    dimensions = dimensions_of([cell.point for cell in cells])
    printer = Printer(as_json)
    printer.json({"matrices": [_value(each) for each in matrices], "left_out_pairs": dict(loaded.left_out_pairs)})
    for matrix in matrices:
        printer.text(f"{matrix.family}; {place_text(matrix.point, dimensions)}")
        rows = ((sender, *map(_text, squares)) for sender, squares in matrix.rows.items())
        printer.table(("sends \\ receives", *matrix.receivers), rows)
    for name, reason in loaded.left_out_pairs.items():
        printer.text(f"not possible: {name}: {reason}")


def _text(square: Square) -> str:
    texts = "; ".join(map(_entry_text, square.entries)) or ("not possible" if square.why_not else "")
    return f"[{texts}]" if square.is_own and texts else texts


def _entry_text(entry: Entry) -> str:
    goodput, there, back = entry.texts
    return f"{entry.delivered}: {goodput}, {there or '–'} + {back or '–'}" if goodput else entry.delivered


def _value(matrix: Matrix) -> dict[str, Any]:
    return {
        "family": matrix.family,
        **matrix.point.values,
        "pairs": [
            _entry_value(sender, receiver, square, entry)
            for sender, squares in matrix.rows.items()
            for receiver, square in zip(matrix.receivers, squares, strict=True)
            for entry in square.entries
        ],
    }


def _entry_value(sender: str, receiver: str, square: Square, entry: Entry) -> dict[str, Any]:
    from owlt.reports.comparison.matrices import SHOWN

    return {
        "name": entry.name,
        "sender": sender,
        "receiver": receiver,
        "is_own": square.is_own,
        "delivered": entry.sample.delivered,
        "tried": entry.sample.tried,
        **{metric.key: entry.median(metric) for metric in SHOWN},
        "failed": [row["run_id"] for row in entry.failed],
    }
