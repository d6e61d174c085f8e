"""`owlt soak`: thousands of transfers in one long life of the hosts, whose clocks pass the wraps of counters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.fault_tests import OneTransfer, empty_directory
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Implementation, Json, channel_option, option_words, parsed
from owlt.orchestrator.ending import INTERRUPTED_STATUS
from owlt.orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.orchestrator.checks.soaking import Finding, Growth, LifePlan
    from owlt.orchestrator.kernel.kernel import Kernel
    from owlt.orchestrator.planning.plan import Plan
    from owlt.orchestrator.run.task import Task

SOAKS = Path("results", "soaks")
PAGE, FIGURE = "index.html", "soak.svg"
INTERRUPTED = "it was interrupted"
MOST_FAILED = 10
"""Number of failed transfers after which a life ends."""
QUIET_TRANSFER_S, QUIET_DAY_S = 0.6, 0.2
"""CPU time of a transfer of a small file, and of a day without a transfer, on an idle core."""
HANGS_S = 300.0
"""How long the guest may be silent in wall time: it passes 49.7 days of idle time in ten seconds."""
LINE_EVERY_S = 30.0
LOSSY_TEXT = "250 ms and 10 Mbit/s each way with 1 % of the packets lost"
SHARE_BEFORE_WRAP = 0.75
"""The share of a round trip for which a transfer is under way when a wrap is passed: timers at both ends run then."""


@dataclass(frozen=True)
class LifeOptions:
    """The times of a life."""

    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Virtual time to cover.")] = "30 days"
    every: Annotated[str, typer.Option(metavar="TIME", help="From one start of a transfer to the next.")] = "15 min"
    start: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WRAP",
            help='Start the clocks so that they pass this wrap: "2^31 ms" or "2^32 ms" of uptime, "2^31 s" since 1970, '
            "or none; may be repeated; default: all that fit into the duration.",
        ),
    ] = None

    @property
    def words(self) -> list[str]:
        """These options as words of a command line."""
        return ["--for", self.duration, "--every", self.every, *option_words("--start", self.start)]

    def life(self, before_wrap_ns: int) -> LifePlan:
        """The start times of the transfers, with one transfer `before_wrap_ns` before each wrap. Raises OwltError."""
        from owlt.orchestrator.checks.soaking import plan_life

        times_ns = parsed("--for", self.duration, _parse_long_ns), parsed("--every", self.every, _parse_long_ns)
        return plan_life(*times_ns, _wraps(self.start), before_wrap_ns)


@dataclass(frozen=True)
class _Transfer(OneTransfer):
    """Each transfer of the life."""

    channel: Annotated[
        str | None,
        channel_option("Channel; default: 250 ms and 10 Mbit/s each way, 1 % of the packets lost."),
    ] = None


def soak(
    name: Implementation,
    *,
    times: LifeOptions,
    transfer: _Transfer,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start both programs for each transfer, even if one could serve several.")
    ] = False,
    first: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="Begin with this transfer, at its time in the whole life.")
    ] = 1,
    transfers: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="End after COUNT transfers; default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Perform thousands of transfers in one life of the hosts.

    In the virtual rig, on the exact clock: idle time costs nothing. What the programs leave on the hosts stays there,
    and is measured after each transfer: memory, open files, sockets, programs, files. The clocks start shortly before
    the values at which counters of 32 bits wrap. The results stay in results/soaks/NAME, those of a part of the life in
    results/soaks/NAME-from-NUMBER; the captures only of transfers that failed.

    Exit status: 0 if all transfers are complete and nothing grows, 1 if not.
    """
    from owlt.orchestrator.checks.soaking import plan_transfers
    from owlt.orchestrator.checks.trials import CHANNELS, LOSSY

    printer = Printer(as_json)
    implementation, channel = transfer.implementation(name), transfer.channel
    if "exact" not in implementation.clocks:
        problem = f"needs the clock {implementation.clocks[0]}, on which idle time is not skipped"
        raise OwltError(Mistake.of(name, problem, "an implementation for the clock exact"))
    link = transfer.link(CHANNELS[LOSSY])
    rtt_ns = link.forward.delay_ns + link.reverse.delay_ns
    life = times.life(int(SHARE_BEFORE_WRAP * rtt_ns))
    count = len(life.starts_ns)
    chosen = _chosen(first, transfers, count)
    plan = plan_transfers(implementation, link, channel or LOSSY, transfer.file_size_bytes, count)
    text = f"{transfer.file_size} over {channel or LOSSY_TEXT}, one every {times.every},"
    part = _PartOfLife(implementation, plan, life, chosen, restart, text)
    kernel = _kernel(plan)
    task = _task(part, kernel)
    results = empty_directory(SOAKS, implementation.name + (f"-from-{first}" if len(chosen) < count else ""))
    for line in _announcement(part):
        printer.note(line)
    outcome = _perform_and_examine(printer, part, task, kernel, results)
    words = [name, *times.words, *transfer.words, *(["--restart"] if restart else [])]
    lines = _lines(part, outcome, again=shlex.join(["owlt", "soak", *words]))
    page = _write_page(part, outcome, lines, results)
    printer.json(_as_json(part, outcome, results))
    for line in [*lines, f"report: {page}"]:
        printer.text(line)
    if outcome.why_ended == INTERRUPTED:
        raise typer.Exit(INTERRUPTED_STATUS)
    raise typer.Exit(1 if outcome.findings or len(outcome.done) < len(chosen) else 0)


@dataclass(frozen=True)
class _PartOfLife:
    """The part of a life to perform: `chosen` are the indices of its transfers in the plan, from 0; `transfer`
    describes each of them and its interval in words; with `restart`, both programs are started for each transfer."""

    implementation: contract.Implementation
    plan: Plan
    life: LifePlan
    chosen: range
    restart: bool
    transfer: str


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a soak: the transfers, their findings, the growth on the hosts, the wall time, and why it ended
    early ("": it did not)."""

    done: Sequence[Mapping[str, Any]]
    findings: Sequence[Finding]
    changes: Sequence[Growth]
    wall_s: float
    why_ended: str

    @property
    def completed(self) -> int:
        """The number of transfers that are complete."""
        return sum(each["outcome"] == "completed" for each in self.done)


def _chosen(first: int, transfers: int | None, count: int) -> range:
    """The indices of the chosen transfers, out of `count`. Raises OwltError."""
    if first > count:
        raise OwltError(Mistake.of("--first", f"got {first}", f"at most {count}, the number of transfers"))
    return range(first - 1, min(count, first - 1 + transfers) if transfers else count)


def _parse_long_ns(text: str) -> int:
    """A duration that may be in days. Raises Invalid."""
    from owlt.inputs.quantities import parse_delay_ns

    days = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]+)?) *days?", text.strip())
    return round(float(days[1]) * 86_400e9) if days else parse_delay_ns(text, "30 days", ("min", "h", "days"))


def _long_text(time_ns: int) -> str:
    """A duration in days, or a short one in hours."""
    hours = time_ns / 3600e9
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"


def _wraps(names: Sequence[str] | None) -> list[str] | None:
    """The chosen wraps; None: those that fit. Raises OwltError."""
    from owlt.inputs.mistake import did_you_mean
    from owlt.orchestrator.checks.soaking import WRAPS

    for each in names or ():
        if each not in (*WRAPS, "none"):
            known = (*WRAPS, "none")
            fix = did_you_mean(each, known)
            raise OwltError(Mistake.of("--start", f"got {each!r}", f"one of {', '.join(known)}", fix))
    return None if names is None else [each for each in names if each != "none"]


def _kernel(plan: Plan) -> Kernel:
    """The kernel of the guest. Raises Missing with all that the machine is missing for the plan."""
    from owlt.orchestrator.commands.machine import needed_kernel
    from owlt.orchestrator.sweep.machine import THIS_MACHINE

    if missing := THIS_MACHINE.missing(plan):
        raise Missing(*missing)
    return needed_kernel()


def _task(part: _PartOfLife, kernel: Kernel) -> Task:
    """The task of a guest that performs the part of a life."""
    from owlt.installation import own_version
    from owlt.orchestrator.checks.soaking import session_numbers
    from owlt.orchestrator.rigs.provenance import provenance_of
    from owlt.orchestrator.run.task import Soak, Task

    plan, name = part.plan, part.implementation.name
    numbered = part.implementation.session_number
    numbers = session_numbers(numbered.bits, len(plan.runs)) if numbered else []
    soak = Soak(
        starts_ns=[part.life.starts_ns[place] for place in part.chosen],
        number_parameter=numbered.parameter if numbered else "",
        numbers=[numbers[place] for place in part.chosen] if numbered else [],
        first_number=part.chosen.start + 1,
        starts_both=part.restart,
        most_failed=MOST_FAILED,
    )
    return Task(
        sweep=plan.sweep,
        implementations=plan.implementations,
        channels=plan.channels,
        certify=[],
        certificates={},
        runs=[plan.runs[place] for place in part.chosen],
        owlt=own_version(),
        kernel_hz=kernel.hz,
        provenance={name: provenance_of(kernel.path, plan.implementations).digests(name)},
        soak=soak,
    )


def _announcement(part: _PartOfLife) -> list[str]:
    """The transfers to perform, and the expected wall time on a quiet machine, in words."""
    from owlt.orchestrator.checks.soaking import NS_PER_DAY
    from owlt.orchestrator.planning.estimate import duration_text
    from owlt.orchestrator.run.programs import serving_side

    name, life, count = part.implementation.name, part.life, len(part.chosen)
    begin_ns, end_ns = (life.starts_ns[place] for place in (part.chosen[0], part.chosen[-1]))
    wall_s = count * QUIET_TRANSFER_S + end_ns / NS_PER_DAY * QUIET_DAY_S
    serving = None if part.restart else serving_side(part.implementation)
    programs = f"the {serving} is started once, if it serves several transfers" if serving else "both are started anew"
    passed = ", ".join(f"{wrap} after {_long_text(at_ns - life.starts_ns[0])}" for wrap, at_ns in life.wraps_ns.items())
    return [
        f"{name}: {count:,} transfers of {part.transfer} in {_long_text(end_ns - begin_ns)} of virtual "
        f"time; about {duration_text(wall_s)} on a core with nothing else to do; it ends after {MOST_FAILED} failed "
        "transfers",
        f"programs for each transfer: {programs}; wraps of the clocks: {passed or 'none'}",
    ]


def _perform_and_examine(printer: Printer, part: _PartOfLife, task: Task, kernel: Kernel, results: Path) -> _Outcome:
    """Perform the part of a life, and find what is wrong with its transfers and what grows."""
    from owlt.orchestrator.checks.soaking import findings_of, growths, read_transfers
    from owlt.orchestrator.planning.stored_plan import write_plan
    from owlt.orchestrator.rigs.guest import INIT_NAME
    from owlt.orchestrator.run.task import TASK_NAME
    from owlt.orchestrator.steady_clock import steady_s
    from owlt.results.lock import locked
    from owlt.results.plain_files import remove_tree

    began_s = steady_s()
    with locked(results):
        write_plan(part.plan, results)
        why_ended = _perform(printer, task, part.life, kernel, results)
    wall_s = steady_s() - began_s
    done = read_transfers(results)
    outcome = _Outcome(done, findings_of(done, part.life, results), growths(done), wall_s, why_ended)
    for left in (TASK_NAME, INIT_NAME):
        (results / left).unlink(missing_ok=True)
    remove_tree(results / ".uml")  # of the guest's kernel
    return outcome


def _perform(printer: Printer, task: Task, life: LifePlan, kernel: Kernel, results: Path) -> str:
    """Perform the task in a guest. Returns why the life ended early, "" if it did not; raises OwltError if the rig
    fails before a transfer has ended."""
    import os

    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.planning.estimate import guest_memory_mb
    from owlt.orchestrator.rigs import guest
    from owlt.orchestrator.run.events import BatchEnded, RunEnded, event_in
    from owlt.orchestrator.run.launching import SEED, lines_of_task, why_it_failed
    from owlt.orchestrator.steady_clock import steady_s

    guest.compile_ahead()
    cpu, memory_mb = max(os.sched_getaffinity(0)), guest_memory_mb(task.runs[:1])
    boot = guest.Boot(kernel.path, "exact", cpu, memory_mb, SEED, kernel.seccomp, life.boot_ns)
    ended, shown_s = 0, steady_s()
    console: list[str] = []
    try:
        for line in lines_of_task(task, results, boot, HANGS_S):
            event = event_in(line)
            ended += isinstance(event, RunEnded)
            console = [*console, line][-50:]
            if steady_s() - shown_s > LINE_EVERY_S:
                shown_s = steady_s()
                printer.note(f"{ended:,} of {len(task.runs):,} transfers")
    except KeyboardInterrupt:
        return INTERRUPTED
    except HostError as problem:
        why = str(problem)
    else:
        has_ended = any(isinstance(event_in(line), BatchEnded) for line in console)
        why = f"{MOST_FAILED} transfers failed" if has_ended else why_it_failed(console)
    if not ended:
        raise OwltError(Mistake(f"the guest performed no transfer: {why}"))
    return why if ended < len(task.runs) else ""


def _lines(part: _PartOfLife, outcome: _Outcome, again: str) -> list[str]:
    """The result in words. `again` is the command that performs the life."""
    from owlt.orchestrator.checks.soaking import passed_by
    from owlt.orchestrator.planning.estimate import duration_text

    name, done, planned = part.implementation.name, outcome.done, len(part.chosen)
    lasted_ns = done[-1]["uptime_ns"] + done[-1]["lasted_ns"] - done[0]["uptime_ns"] if done else 0
    head = (
        f"{name}: {outcome.completed:,} of {len(done):,} transfers complete in {_long_text(lasted_ns)} of virtual time"
    )
    lines = [f"{head} ({duration_text(outcome.wall_s)} of wall time)"]
    if len(done) < planned:
        lines.append(f"it ended before {planned - len(done):,} more transfers: {outcome.why_ended}")
    for wrap, at_ns in part.life.wraps_ns.items():
        if done and done[0]["uptime_ns"] <= at_ns <= done[-1]["uptime_ns"] + done[-1]["lasted_ns"]:
            passing = passed_by(done, at_ns)
            under_way = f"during transfer {passing['number']:,}" if passing else "between two transfers"
            lines.append(f"{wrap} was passed {under_way}")
    suspect = [each for each in done if each["suspect"]]
    if suspect:
        first = suspect[0]
        lines.append(f"suspect: {len(suspect):,} transfers, first {first['number']:,}: {first['suspect'][0]}")
    if not outcome.findings:
        grows = (
            "nothing grows at either end"
            if outcome.changes[0].is_tested
            else "there were too few transfers to test for growth"
        )
        return [*lines, f"no transfer failed, nothing was left running, and {grows}"]
    for finding in outcome.findings:
        lines.append(f"{finding.kind}: {finding.text}")
        if finding.kind == "failed":
            lines.append(f"  to repeat it alone: {again} --first {finding.transfer} --transfers 1")
            lines.append(f"  what its packets show: owlt analyse {finding.run}")
    return lines


def _write_page(part: _PartOfLife, outcome: _Outcome, lines: Sequence[str], results: Path) -> Path:
    """The page of a soak, with its figure."""
    from owlt.installation import own_version
    from owlt.orchestrator.checks.soaking import MEASURES
    from owlt.reports.drawing.fault_tests import draw_soak
    from owlt.reports.drawing.output import save_drawing
    from owlt.reports.rendering import new_environment

    title = f"{part.implementation.name}: {len(outcome.done):,} transfers in one life of the hosts"
    save_drawing(draw_soak(outcome.done, part.life.starts_ns[0], part.life.wraps_ns, title), results / FIGURE)
    page = results / PAGE
    page.write_text(
        new_environment()
        .get_template("soak.html")
        .render(
            title=title,
            lines=lines,
            changes=outcome.changes,
            measures=MEASURES,
            version=own_version(),
            transfer=part.transfer,
        )
    )
    return page


def _as_json(part: _PartOfLife, outcome: _Outcome, results: Path) -> dict[str, Any]:
    from owlt.orchestrator.checks.soaking import passed_by

    done = outcome.done
    passing = {wrap: passed_by(done, at_ns) for wrap, at_ns in part.life.wraps_ns.items()}
    return {
        "implementation": part.implementation.name,
        "transfers": len(done),
        "planned": len(part.chosen),
        "completed": outcome.completed,
        "virtual_s": (done[-1]["uptime_ns"] - done[0]["uptime_ns"]) / 1e9 if done else 0.0,
        "wall_s": outcome.wall_s,
        "wraps": {wrap: each["number"] if each else None for wrap, each in passing.items()},
        "findings": list(outcome.findings),
        "growth": list(outcome.changes),
        "results": results,
    }
