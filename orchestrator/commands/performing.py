"""What commands that perform runs have in common: their options and machine, how they begin, end and are resumed."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, LabRigOption, MakeReport, option_words, parse_for_s, parsed
from owlt.orchestrator.ending import INTERRUPTED_STATUS, outlasting_readers
from owlt.orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.planning.plan import Plan
    from owlt.orchestrator.planning.selection import Selection
    from owlt.orchestrator.run.events import Observe
    from owlt.orchestrator.sweep.announcing import Ending
    from owlt.orchestrator.sweep.campaign import HostBaselines, Performed, Start
    from owlt.orchestrator.sweep.machine import Machine
    from owlt.orchestrator.sweep.report import CheckedAssertions
    from owlt.orchestrator.sweep.scheduling import StopTime


SOME_FAILED_STATUS = 3
"""Every run is recorded, and some did not complete."""
ASSERTION_STATUS = 4
"""Every run is recorded, and an assertion of the sweep is not met."""
MOST_PRINTED = 20
"""Checks of assertions that are printed; the report has all."""


def exit_status(performed: Performed, checks_failed: int = 0) -> int:
    """The exit status of a start of a sweep, and of so many checks of its assertions that are not met."""
    if performed.interrupted:
        return INTERRUPTED_STATUS
    if not performed.is_complete:
        return 1
    if checks_failed:
        return ASSERTION_STATUS
    return SOME_FAILED_STATUS if performed.failed else 0


def conclude(
    performed: Performed, printer: Printer, report: bool, asserts: bool = False
) -> tuple[Path | None, CheckedAssertions]:
    """Print what a start of a sweep has done, make its report, and check the assertions of a sweep that `asserts`
    something. Returns the page of the report and what the check found."""
    from owlt.orchestrator.sweep.report import CheckedAssertions, check_assertions, make_checked_report

    if performed.change:
        printer.note(f"{performed.results}: the sweep has changed: {performed.change.text}")
    if performed.stopped:
        printer.note(performed.stopped)
    printer.note(performed.summary)
    page: Path | None = None
    checked = CheckedAssertions()
    try:
        if report and performed.recorded:
            page, checked = report_of(performed, printer, make_checked_report)
            checked = CheckedAssertions() if performed.interrupted else checked
        elif asserts and performed.recorded and not performed.interrupted:
            checked = check_assertions(performed.results)
    finally:
        printer.json(_as_json(performed, page, checked))
    print_assertions(checked, printer)
    return page, checked


def print_assertions(checked: CheckedAssertions, printer: Printer) -> None:
    """The checks that are not met, and the number of all."""
    for line in checked.open_checks[:MOST_PRINTED]:
        printer.text(f"assertion {line}")
    if checked.checks:
        rest = len(checked.open_checks) - MOST_PRINTED
        more = f" ({rest} more are in the report)" if rest > 0 else ""
        printer.text(
            f"assertions: {checked.checks - len(checked.open_checks)} of {checked.checks} checks are met{more}"
        )


def report_of(
    performed: Performed, printer: Printer, make: Callable[[Path], tuple[Path, CheckedAssertions]]
) -> tuple[Path, CheckedAssertions]:
    """The page of the report of a sweep, and its assertions. An interrupt skips the report, as a second interrupt
    before it does."""
    try:
        if not performed.interrupted_again:
            page, checked = make(performed.results)
            printer.note(f"report: {page}")
            return page, checked
    except KeyboardInterrupt:
        pass
    printer.note(f"the report was skipped; make it with: owlt report {shlex.quote(str(performed.results))}")
    raise typer.Exit(INTERRUPTED_STATUS)


def _as_json(performed: Performed, page: Path | None, checked: CheckedAssertions) -> dict[str, Any]:
    return {
        "results": performed.results,
        "recorded": performed.recorded,
        "complete": performed.is_complete,
        "failed": performed.failed,
        "summary": performed.summary,
        "same_failures": performed.same_failures,
        "interrupted": performed.interrupted,
        "report": page,
        "assertions": checked.values,
    }


Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start no run that would end after this wall-clock time, such as 07:00."),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="DURATION", help='Start no run that would end after this duration, such as 8h or "90 min".'
    ),
]


def stop_time(until: str | None, duration: str | None) -> StopTime | None:
    """The time of --until, by the machine's clock, or of --for, by one that is never set; None if neither is given."""
    from datetime import datetime

    from owlt.orchestrator.steady_clock import steady_s
    from owlt.orchestrator.sweep.scheduling import StopTime, parse_until

    if until and duration:
        raise OwltError(Mistake.of("--for", "got both --until and --for", "one of them"))
    if until:
        moment = parsed("--until", until, lambda text: parse_until(text, datetime.now().astimezone()))
        return StopTime(moment.timestamp(), time.time)
    if duration:
        return StopTime(steady_s() + parse_for_s(duration), steady_s)
    return None


Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CELL|RUN", help="Only this run, or the runs of a cell such as delay=25ms; repeatable."),
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only the I-th of N shards; 'owlt merge' combines the results."),
]


@dataclass(frozen=True)
class Selected:
    """Which runs of a sweep: the options of run and plan."""

    only: Only = None
    shard: ShardOption = None

    @property
    def words(self) -> list[str]:
        """These options as words of a command line."""
        words = option_words("--only", self.only)
        return [*words, *(["--shard", self.shard] if self.shard else [])]

    def selection(self, plan: Plan) -> Selection | None:
        """The runs that both options select; None without an option. Raises OwltError."""
        from owlt.orchestrator.planning.selection import selected_by

        return selected_by(plan, self.words)


def results_of(plan: Plan, shard: str | None, results: Path | None) -> Path:
    """The results directory: the given one, or the default one of the sweep or of its shard. Raises OwltError."""
    from owlt.orchestrator.planning.selection import parse_shard
    from owlt.results.recorded_runs import results_root

    name = f"{plan.sweep.name}-{parse_shard(shard).text}" if shard else plan.sweep.name
    return results_root(results or Path("results", name))


Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Perform the runs on the machines of a Dask scheduler: tls://HOST:8786."),
]
Tls = Annotated[
    Path | None,
    typer.Option(metavar="DIRECTORY", help="Certificates of all machines; default: those of Dask's configuration."),
]
WithoutAuthentication = Annotated[
    bool,
    typer.Option(
        "--without-authentication",
        help="Accept tcp:// beyond this machine: anyone who reaches the scheduler can run any program on all machines.",
    ),
]


def require_dask() -> None:
    """Raise Missing without the library."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        fix = "install owlt with its extra dask: pip install 'owlt[dask]'"
        raise Missing(Mistake("the Python package distributed is missing", fix=fix)) from None


def cluster_of(
    address: str | None, tls: Path | None, accepts_plain: bool, guests: int | None, rig: str | None
) -> Machine | None:
    """The machines of --dask; None without it. Raises OwltError for options that do not go together."""
    if address is None:
        if tls or accepts_plain:
            option = "--tls" if tls else "--without-authentication"
            raise OwltError(Mistake.of(option, "needs --dask", "both, or neither"))
        return None
    if rig:
        raise OwltError(Mistake.of("--rig", "cannot be combined with --dask", "one of them"))
    if guests:
        fix = "limit each machine with 'owlt worker --slots'"
        raise OwltError(Mistake.of("--guests", "cannot be combined with --dask", "one of them", fix))
    require_dask()
    from owlt.orchestrator.sweep.campaign import warn
    from owlt.orchestrator.sweep.cluster import Cluster

    return Cluster(address, tls, accepts_plain, warn)


OnEnd = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Shell command for the end, with OWLT_... variables and JSON (docs/sweeps.md); default: OWLT_ON_END.",
    ),
]


@dataclass(frozen=True)
class Performing:
    """How runs are performed: the options that run, extend and retry have in common."""

    guests: Guests = None
    report: MakeReport = True
    on_end: OnEnd = ""
    until: Until = None
    duration: For = None
    rig: LabRigOption = None
    dask: Dask = None
    tls: Tls = None
    without_authentication: WithoutAuthentication = False

    @property
    def words(self) -> list[str]:
        """The options that the resuming command needs too, as words of a command line."""
        options = ["--guests", str(self.guests)] if self.guests else []
        options += [] if self.report else ["--no-report"]
        options += ["--rig", self.rig] if self.rig else []
        options += ["--dask", self.dask] if self.dask else []
        options += ["--tls", str(self.tls)] if self.tls else []
        options += ["--without-authentication"] if self.without_authentication else []
        return options

    def stop(self) -> StopTime | None:
        """The time of --until or --for, by which every run has to end. Raises OwltError."""
        return stop_time(self.until, self.duration)

    def machine(self) -> Machine:
        """What performs the runs: the machines of --dask, the lab rig of --rig, or this machine.

        Raises OwltError for options that do not go together.
        """
        cluster = cluster_of(self.dask, self.tls, self.without_authentication, self.guests, self.rig)
        return machine_of(self.rig) if cluster is None else cluster


def machine_of(rig: str | None) -> Machine:
    """The lab rig of --rig, or this machine. Raises OwltError."""
    from owlt.orchestrator.profiles.inventory import lab_rig
    from owlt.orchestrator.sweep.machine import THIS_MACHINE, LabMachine

    return THIS_MACHINE if rig is None else LabMachine(*lab_rig(rig))


def plan_of(results: Path) -> Plan:
    """The plan of a results directory. Raises OwltError if it is none."""
    from owlt.orchestrator.planning.plan import read_plan

    try:
        return read_plan(results)
    except FileNotFoundError:
        expected = "one that 'owlt run' made, such as results/demo"
        raise OwltError(Mistake("is not a results directory", expected, where=Place(str(results)))) from None


@outlasting_readers()
def perform_and_conclude(
    start: Start,
    performing: Performing,
    printer: Printer,
    stop: StopTime | None = None,
    baselines: HostBaselines | None = None,
    note: str = "",
) -> None:
    """Perform what is missing until `stop`, conclude, and announce how it ended, also after an error.

    Host baselines are performed before and after, if a run is missing. `note` is printed when the sweep has passed all
    checks.
    """
    from owlt.orchestrator.commands.progress import SweepProgress
    from owlt.orchestrator.steady_clock import steady_s
    from owlt.orchestrator.sweep.announcing import Ending, MetricsFile, counts_of
    from owlt.orchestrator.sweep.campaign import perform_until
    from owlt.orchestrator.sweep.forecast import durations, remember, report_took

    plan, directory = start.plan, start.directory
    metrics = MetricsFile(directory)

    def begin(planned: Plan, done: set[str]) -> Observe:
        metrics.start()
        if note:
            printer.note(note)
        return progress(planned, done)

    summary, page, status = "", None, 1
    try:
        if baselines is not None and start.is_finished():
            baselines = None
        if baselines is not None:
            start.require_ready()
            if not _perform_baselines(baselines, "before", printer, start.again):
                raise typer.Exit(INTERRUPTED_STATUS)
        with SweepProgress(printer.console, start.again, performing.report) as progress:
            began_s = time.time()
            performed = perform_until(start, begin, stop)
        remember(durations(plan, directory, began_s))
        summary, status = performed.summary, exit_status(performed)
        if baselines is not None and not performed.interrupted:
            _perform_baselines(baselines, "after", printer, start.again)
        began_s = steady_s()
        page, checked = conclude(performed, printer, performing.report, bool(plan.sweep.assertions))
        if page is not None:
            remember([report_took(performed.recorded, steady_s() - began_s)])
        status = exit_status(performed, checked.failed)
    except typer.Exit as end:
        status = end.exit_code
        raise
    except OwltError as problem:
        summary, status = str(problem), 2
        raise
    finally:
        metrics.close(status)
        ending = Ending(directory, plan.sweep.name, status, summary, page, counts_of(directory))
        announce(ending, performing.on_end)
    raise typer.Exit(status)


def _perform_baselines(
    baselines: HostBaselines, moment: Literal["before", "after"], printer: Printer, again: str
) -> bool:
    """Perform the host baselines. Returns whether they were not interrupted."""
    from owlt.orchestrator.commands.progress import SweepProgress

    with SweepProgress(printer.console, again, False) as shown:
        done = baselines.perform(moment, shown)
    for each in done:
        printer.note(f"host baseline {moment}: {each.summary}")
    return not any(each.interrupted for each in done)


def announce(ending: Ending, on_end: str) -> None:
    """Run the user's command for the end of a sweep, if there is one; its failure is a warning."""
    from owlt.orchestrator.sweep.announcing import HOOK_VARIABLE, run_hook

    command = on_end or os.environ.get(HOOK_VARIABLE, "")
    if command and (problem := run_hook(command, ending)):
        print(f"owlt: warning: the command for the end ({command}): {problem}", file=sys.stderr)


def as_typed(
    sweep: str,
    results: Path | None,
    options: Sequence[str],
    selected: Selected,
    host_baseline: str | None = None,
    host_captures: bool = False,
) -> str:
    """The command that resumes the sweep: this command with its options; `options` are those of `Performing`."""
    words = ["--results", str(results)] if results else []
    words += [*selected.words, *options]
    words += ["--host-baseline", host_baseline] if host_baseline else []
    words += ["--host-captures"] if host_captures else []
    return shlex.join(["owlt", "run", sweep, *words])
