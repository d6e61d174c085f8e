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
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import PerformCases, case_runs, empty_directory
from owlt.orchestrator.commands.usage import (
    CalmChannel,
    ChangedParameters,
    FileSize,
    Guests,
    Implementation,
    Json,
    option_words,
    parsed,
)
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.inputs.sweep import Restart
    from owlt.orchestrator.checks.edges import EdgeTrial, Interruption, Phase

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


def edges(
    name: Implementation,
    gap: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Length of the outage; may be repeated; default: 1 s, 1 h and 12 h."),
    ] = None,
    mode: Annotated[
        list[Mode] | None,
        typer.Option(help="Packets in an outage are dropped, or held until its end; may be repeated; default: both."),
    ] = None,
    direction: Annotated[Literal["both", "forward", "reverse"], typer.Option(help="Direction of the outage.")] = "both",
    restart: Annotated[
        Literal["sender", "receiver"] | None,
        typer.Option(help="Instead of an outage: the program of this host is killed and started again."),
    ] = None,
    announce: Annotated[
        bool, typer.Option("--announce", help="Suspend and resume the programs by the commands of their profile.")
    ] = False,
    phases: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Largest number of phases, evenly spaced; default: all.")
    ] = None,
    file_size: FileSize = "20 kB",
    channel: CalmChannel = None,
    parameter: ChangedParameters = None,
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
    from owlt.inputs.quantities import parse_size_bytes
    from owlt.orchestrator.checks.edges import DELIVERED, PlainRun, phases_of, trial_of
    from owlt.orchestrator.commands.implementations import with_parameters
    from owlt.orchestrator.commands.prove import require_repeatable
    from owlt.orchestrator.profiles.catalogue import find_implementation
    from owlt.results.plain_files import real_root

    printer = Printer(as_json)
    implementation = with_parameters(find_implementation(name), parameter or [])
    require_repeatable(implementation)
    if announce:
        _require_commands_for_outages(name, implementation)
    size_bytes = parsed("--file-size", file_size, parse_size_bytes)
    gaps_ns = _parse_gaps_ns(gap)
    if restart:
        _refuse_with_restart(mode, direction, announce)
    modes: list[Literal["drop", "hold"] | None] = [None] if restart else [each.value for each in mode or Mode]
    link = _link(channel, may_have_timeline=restart is not None)
    results = real_root(EDGES) / implementation.name if resume else empty_directory(EDGES, implementation.name)
    words = [name, "--direction", direction, "--file-size", file_size]
    words += option_words("--gap", gap)
    words += option_words("--mode", mode)
    words += ["--restart", restart] if restart else []
    words += ["--announce"] if announce else []
    words += ["--phases", str(phases)] if phases else []
    words += ["--channel", channel] if channel else []
    words += option_words("--parameter", parameter)
    again = shlex.join(["owlt", "edges", *words, "--resume"])
    with case_runs(printer, again, guests) as perform:
        transfer = _Transfer(implementation, size_bytes, announce, results, perform)
        base = transfer.over("0", {"none": link}, {})["none"]
        _require_delivered(base)
        found = phases_of(base)[1 if announce else 0 :]  # before the first packet, the programs are still starting
        cases = _cases(found, phases, gaps_ns, modes, restart)
        runs = transfer.over("1", *_over(link, cases, direction))
    plain = PlainRun.of(base)
    trials = [trial_of(interruption, runs[case], plain) for case, interruption in cases.items()]
    lines = _lines(implementation.name, trials, len(found))
    page = _write_page(implementation.name, lines, trials, results, file_size, channel, direction)
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
class _Transfer:
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
            restarts=restarts,
            announce_outages=self.announce_outages,
        )
        self.perform(plan, self.results / part)
        return {run.permutation.channel_name: run_directory(self.results / part, run.run_id) for run in plan.runs}


def _require_commands_for_outages(name: str, implementation: contract.Implementation) -> None:
    if implementation.sender.suspend is None and implementation.receiver.suspend is None:
        problem, expected = f"{name} has no commands for outages", "a profile with suspend and resume"
        raise OwltError(Mistake.of("--announce", problem, expected))


def _refuse_with_restart(mode: Sequence[Mode] | None, direction: str, announce: bool) -> None:
    """Raise OwltError if an option of outages is given: the link stays up while a host restarts."""
    if mode or direction != "both" or announce:
        option = "--mode" if mode else "--announce" if announce else "--direction"
        problem = f"cannot be combined with {option}"
        expected = "one of them, because the link stays up while a host restarts"
        raise OwltError(Mistake.of("--restart", problem, expected))


def _parse_gaps_ns(texts: Sequence[str] | None) -> list[int]:
    from owlt.inputs.quantities import parse_delay_ns

    gaps_ns = [parsed("--gap", text, parse_delay_ns) for text in texts or GAPS]
    if min(gaps_ns) <= 0:
        raise OwltError(Mistake.of("--gap", "is 0", "a time, such as 10 s"))
    return gaps_ns


def _link(channel: str | None, may_have_timeline: bool) -> ChannelSpec:
    from owlt.orchestrator.commands.prove import calm_channel

    link = calm_channel(channel)
    if link.timeline is not None and not may_have_timeline:
        problem = f"{channel} has a timeline, which the outage would replace"
        raise OwltError(
            Mistake.of("--channel", problem, "a channel without one", "remove its timeline, or use --restart")
        )
    return link


def _cases(
    found: Sequence[Phase],
    most_phases: int | None,
    gaps_ns: Sequence[int],
    modes: Sequence[Literal["drop", "hold"] | None],
    restart: Literal["sender", "receiver"] | None,
) -> dict[str, Interruption]:
    """The interruptions of a transfer with these phases, by the name of their case."""
    from owlt.orchestrator.checks.edges import Interruption, at_most

    interruptions = [
        Interruption(phase, gap_ns, how, restart)
        for how in modes
        for gap_ns in gaps_ns
        for phase in at_most(found, most_phases or len(found))
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
    from owlt.orchestrator.checks.edges import with_outage

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
    file_size: str,
    channel: str | None,
    direction: str,
) -> Path:
    """The page, with its figure."""
    from owlt.orchestrator.checks.edges import MEANINGS
    from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL_TEXT, ladder_lines
    from owlt.orchestrator.own_version import own_version
    from owlt.reports.drawing.edge_map import Cell, draw_edges
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
            file_size=file_size,
            channel=channel or PLAIN_CHANNEL_TEXT,
            direction=direction,
            meanings=MEANINGS,
            shown=[each for examples in shown.values() for each in examples],
        )
    )
    return page
