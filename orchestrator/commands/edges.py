"""`owlt edges`: interrupts a transfer at each of its packets, by an outage of the link or a restart of a host."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.fault_tests import (
    OneTransfer,
    PerformCases,
    case_runs,
    empty_directory,
    require_repeatable,
)
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Implementation, Json, option_words, parsed
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.inputs.sweep import Restart
    from owlt.orchestrator.checks.fault_cases import EdgeTrial, Interruption, Phase

EDGES = Path("results", "edges")
PAGE, FIGURE = "index.html", "edges.svg"
GAPS = ("1 s", "1 h", "12 h")
MOST_RUNS = 20_000
MOST_SHOWN = 6
"""Transfers of each state whose packets the page shows."""


class Mode(StrEnum):
    """What becomes of packets during an outage."""

    DROP = "drop"
    HOLD = "hold"


@dataclass(frozen=True)
class InterruptionOptions:
    """How the transfer is interrupted."""

    gap: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Length of the outage; may be repeated; default: 1 s, 1 h and 12 h."),
    ] = None
    mode: Annotated[
        list[Mode] | None,
        typer.Option(help="Packets in an outage are dropped, or held until its end; may be repeated; default: both."),
    ] = None
    direction: Annotated[Literal["both", "forward", "reverse"], typer.Option(help="Direction of the outage.")] = "both"
    restart: Annotated[
        Literal["sender", "receiver"] | None,
        typer.Option(help="Instead of an outage: the program of this host is killed and started again."),
    ] = None
    announce: Annotated[
        bool, typer.Option("--announce", help="Suspend and resume the programs by the commands of their profile.")
    ] = False
    phases: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Largest number of phases, evenly spaced; default: all.")
    ] = None

    @property
    def words(self) -> list[str]:
        """These options as words of a command line."""
        words = [*option_words("--gap", self.gap), *option_words("--mode", self.mode), "--direction", self.direction]
        words += ["--restart", self.restart] if self.restart else []
        words += ["--announce"] if self.announce else []
        return [*words, *(["--phases", str(self.phases)] if self.phases else [])]

    @property
    def gaps_ns(self) -> list[int]:
        """The lengths of the outages. Raises OwltError."""
        from owlt.inputs.quantities import parse_delay_ns

        gaps_ns = [parsed("--gap", text, parse_delay_ns) for text in self.gap or GAPS]
        if min(gaps_ns) <= 0:
            raise OwltError(Mistake.of("--gap", "is 0", "a time, such as 10 s"))
        return gaps_ns

    @property
    def modes(self) -> list[Literal["drop", "hold"] | None]:
        """What becomes of packets during the outages; None: a host restarts instead."""
        return [None] if self.restart else [each.value for each in self.mode or Mode]

    def require_possible(self, implementation: contract.Implementation) -> None:
        """Raise OwltError for --announce without commands, or if an option of outages is given with --restart: the link
        stays up while a host restarts."""
        if self.announce and implementation.sender.suspend is None and implementation.receiver.suspend is None:
            problem = f"{implementation.name} has no commands for outages"
            raise OwltError(Mistake.of("--announce", problem, "a profile with suspend and resume"))
        if self.restart and (self.mode or self.direction != "both" or self.announce):
            option = "--mode" if self.mode else "--announce" if self.announce else "--direction"
            problem = f"cannot be combined with {option}"
            expected = "one of them, because the link stays up while a host restarts"
            raise OwltError(Mistake.of("--restart", problem, expected))


def edges(
    name: Implementation,
    *,
    interrupting: InterruptionOptions,
    transfer: OneTransfer,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted command in its results directory.")] = False,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Interrupt a transfer at each of its packets.

    The link ends just before a packet is sent or arrives, and returns after each TIME; or a host restarts. Each case
    is one run in the virtual rig, on the exact clock. The runs stay in results/edges/NAME, with a page: which transfers
    continue, start again, end without the file, or never end.

    Exit status: 0 if the file is delivered in every case, 1 if not.
    """
    from owlt.orchestrator.checks.fault_cases import DELIVERED, PlainRun, phases_of, trial_of
    from owlt.results.plain_files import real_root

    printer = Printer(as_json)
    implementation = transfer.implementation(name)
    require_repeatable(implementation)
    interrupting.require_possible(implementation)
    link = _link(transfer, may_have_timeline=interrupting.restart is not None)
    size_bytes, announce, gaps_ns = transfer.file_size_bytes, interrupting.announce, interrupting.gaps_ns
    results = real_root(EDGES) / implementation.name if resume else empty_directory(EDGES, implementation.name)
    again = shlex.join(["owlt", "edges", name, *interrupting.words, *transfer.words, "--resume"])
    with case_runs(printer, again, guests) as perform:
        repeated = _InterruptedTransfer(implementation, size_bytes, announce, results, perform)
        base = repeated.over("0", {"none": link}, {})["none"]
        _require_delivered(base)
        found = phases_of(base)[1 if announce else 0 :]  # before the first packet, the programs are still starting
        cases = _cases(found, interrupting, gaps_ns)
        runs = repeated.over("1", *_over(link, cases, interrupting.direction))
    plain = PlainRun.of(base)
    trials = [trial_of(interruption, runs[case], plain) for case, interruption in cases.items()]
    lines = _lines(implementation.name, trials, len(found))
    page = _write_page(implementation.name, lines, trials, results, transfer, interrupting.direction)
    printer.json(
        {
            "implementation": implementation.name,
            "results": results,
            "trials": [_as_json(each) for each in trials],
        }
    )
    for line in [*lines, f"report: {page}"]:
        printer.text(line)
    raise typer.Exit(0 if all(each.state in DELIVERED for each in trials) else 1)


@dataclass(frozen=True)
class _InterruptedTransfer:
    """The transfer that is interrupted, and what performs its runs."""

    implementation: contract.Implementation
    size_bytes: int
    announce_outages: bool
    results: Path
    perform: PerformCases

    def over(self, part: str, channels: Mapping[str, ChannelSpec], restarts: Mapping[str, Restart]) -> dict[str, Path]:
        """Perform it once over each channel, into a part of the results directory: the runs by channel."""
        from owlt.orchestrator.checks.fault_cases import plan_over
        from owlt.results.recorded_runs import run_directory

        plan = plan_over(
            f"edges-{self.implementation.name}",
            self.implementation,
            channels,
            self.size_bytes,
            settings={"restarts": dict(restarts), "announce_outages": self.announce_outages},
        )
        self.perform(plan, self.results / part)
        return {run.permutation.channel_name: run_directory(self.results / part, run.run_id) for run in plan.runs}


def _link(transfer: OneTransfer, may_have_timeline: bool) -> ChannelSpec:
    link = transfer.calm_link()
    if link.timeline is not None and not may_have_timeline:
        problem = f"{transfer.channel} has a timeline, which the outage would replace"
        raise OwltError(
            Mistake.of("--channel", problem, "a channel without one", "remove its timeline, or use --restart")
        )
    return link


def _cases(found: Sequence[Phase], options: InterruptionOptions, gaps_ns: Sequence[int]) -> dict[str, Interruption]:
    """The interruptions of a transfer with these phases, by the name of their case."""
    from owlt.orchestrator.checks.fault_cases import Interruption, at_most

    interruptions = [
        Interruption(phase, gap_ns, how, options.restart)
        for how in options.modes
        for gap_ns in gaps_ns
        for phase in at_most(found, options.phases or len(found))
    ]
    if len(interruptions) > MOST_RUNS:
        fix = "use a smaller file, fewer gaps, or --phases"
        raise OwltError(Mistake.of("--phases", f"{len(interruptions):,} runs", f"at most {MOST_RUNS:,}", fix))
    return {f"case-{number}": each for number, each in enumerate(interruptions, start=1)}


def _as_json(trial: EdgeTrial) -> dict[str, Any]:
    return {
        "at_s": trial.interruption.phase.at_ns / 1e9,
        "before": trial.interruption.phase.event,
        "interruption": trial.interruption.kind,
        "state": trial.state,
        "reason": trial.reason,
        "later_s": trial.later_s,
        "again": trial.again,
        "run": trial.run,
    }


def _require_delivered(run: Path) -> None:
    from owlt.results.record import Outcome, read_record

    record = read_record(run)
    if record.outcome is not Outcome.COMPLETED or record.suspect:
        got = "; ".join([f"{record.outcome} {record.reason}".strip(), *record.suspect])
        raise OwltError(Mistake.of(str(run), f"without an interruption: {got}", "a transfer that completes"))


def _over(
    link: ChannelSpec, cases: Mapping[str, Interruption], direction: Literal["both", "forward", "reverse"]
) -> tuple[dict[str, ChannelSpec], dict[str, Restart]]:
    """The channel of each case, and which host restarts during it."""
    from owlt.inputs.quantities import format_delay
    from owlt.inputs.sweep import Restart
    from owlt.orchestrator.checks.fault_cases import with_outage

    channels = {name: with_outage(link, each, direction) if each.host is None else link for name, each in cases.items()}
    restarts = {
        name: Restart.model_validate(
            {"side": each.host, "at": format_delay(each.phase.at_ns), "after": format_delay(each.gap_ns)}
        )
        for name, each in cases.items()
        if each.host is not None
    }
    return channels, restarts


def _lines(name: str, trials: Sequence[EdgeTrial], phases: int) -> list[str]:
    """The result in words: one line for each kind of interruption."""
    groups: dict[str, list[EdgeTrial]] = {}
    for trial in trials:
        groups.setdefault(trial.interruption.kind, []).append(trial)
    lines = [f"{name}: {len(trials)} runs, at {len(trials) // len(groups)} of {phases} phases of the transfer"]
    for kind, group in groups.items():
        counts = ", ".join(f"{count} {state}" for state, count in Counter(each.state for each in group).most_common())
        latest_s = max((each.later_s for each in group if each.later_s is not None), default=0.0)
        worst = f"; delivered up to {latest_s:.3f} s later than the interruption explains" if latest_s >= 0.001 else ""
        lines.append(f"  {kind}: {counts}{worst}")
    return lines


def _write_page(
    name: str,
    lines: Sequence[str],
    trials: Sequence[EdgeTrial],
    results: Path,
    transfer: OneTransfer,
    direction: str,
) -> Path:
    """The page, with its figure."""
    from owlt.installation import own_version
    from owlt.orchestrator.checks.fault_cases import MEANINGS, ladder_lines
    from owlt.reports.drawing.fault_tests import Cell, draw_edges
    from owlt.reports.drawing.output import save_drawing
    from owlt.reports.rendering import new_environment

    title = f"{name}: a transfer that is interrupted"
    cells = [Cell(each.interruption.kind, each.interruption.phase.at_ns / 1e9, each.state) for each in trials]
    save_drawing(draw_edges(cells, title), results / FIGURE)
    shown: dict[str, list[tuple[EdgeTrial, list[str]]]] = {}
    for trial in trials:
        examples = shown.setdefault(trial.state, [])
        if trial.state != "continued" and len(examples) < MOST_SHOWN:
            examples.append((trial, ladder_lines(trial.run)))
    page = results / PAGE
    page.write_text(
        new_environment()
        .get_template("edges.html")
        .render(
            title=title,
            lines=lines,
            version=own_version(),
            file_size=transfer.file_size,
            channel=transfer.channel_text,
            direction=direction,
            meanings=MEANINGS,
            shown=[each for examples in shown.values() for each in examples],
        )
    )
    return page
