"""`owlt prove`: does an implementation deliver a short transfer after every fault at up to k packets?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.fault_tests import (
    OneTransfer,
    case_runs,
    empty_directory,
    perform_sets,
    require_repeatable,
    transfers,
    write_channel,
)
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Implementation, Json, parsed
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.emulator.channel.aimed_fault import Action
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.orchestrator.checks.fault_cases import Hits
    from owlt.orchestrator.checks.proof import Trial, Verdict

PROOFS = Path("results", "proofs")
COUNTEREXAMPLE, PAGE = "counterexample.yaml", "index.html"
MOST_SETS = 20_000
"""Sets of faults of one size: more would take days, and are refused."""
MOST_PRINTED = 10
FAULTS = ("drop", "duplicate", "delay")
DELAY_RTTS = 10
"""How long packets are delayed by default, in round trips: longer than a timer that follows the round trip."""


@dataclass(frozen=True)
class Faults:
    """What happens to the packets of a set."""

    losses: Annotated[
        int, typer.Option(min=1, max=4, metavar="COUNT", help="Largest number of packets hit in a run.")
    ] = 1
    faults: Annotated[
        str, typer.Option(metavar="LIST", help="Faults at each packet: drop, duplicate, delay; separated by commas.")
    ] = "drop"
    delay: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Delay of a packet, past a timer; default: {DELAY_RTTS} round trips."),
    ] = None

    @property
    def words(self) -> list[str]:
        """These options as words of a command line."""
        words = ["--losses", str(self.losses), *(["--faults", self.faults] if self.faults != "drop" else [])]
        return [*words, *(["--delay", self.delay] if self.delay else [])]

    def actions(self, channel: ChannelSpec) -> list[Action]:
        """What happens to each packet. Raises OwltError for a fault that does not exist, or a delay without a use."""
        from owlt.emulator.channel.aimed_fault import Action
        from owlt.inputs.mistake import got
        from owlt.inputs.quantities import parse_delay_ns

        names = [name.strip() for name in self.faults.split(",")]
        if wrong := [name for name in names if name not in FAULTS]:
            raise OwltError(Mistake.of("--faults", got(wrong[0]), f"any of {','.join(FAULTS)}"))
        if self.delay and "delay" not in names:
            raise OwltError(Mistake.of("--delay", "needs the fault delay", fix="add --faults drop,delay"))
        default_ns = DELAY_RTTS * (channel.forward.delay_ns + channel.reverse.delay_ns)
        delay_ns = parsed("--delay", self.delay, parse_delay_ns) if self.delay else default_ns
        if delay_ns <= 0 and "delay" in names:
            raise OwltError(Mistake.of("--delay", "is 0", "a time, such as 20 s"))
        actions = {"drop": Action(drop=True), "duplicate": Action(duplicate=1), "delay": Action(delay_ns=delay_ns)}
        return [actions[name] for name in dict.fromkeys(names)]


def prove(
    name: Implementation,
    *,
    faults: Faults,
    transfer: OneTransfer,
    resume: Annotated[bool, typer.Option(help="Continue the proof that is in the results directory.")] = False,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Lose every packet and every set of packets of a transfer.

    With --faults, packets are also duplicated, or delayed past a timer. The sets have up to COUNT packets. Each is one
    run in the virtual rig, on the exact clock. What is sent after a fault can be hit too. The runs stay in
    results/proofs/NAME; if the file is not delivered, also a channel file that repeats the smallest set.

    Exit status: 0 if the file is delivered after every set, 1 if not.
    """
    from owlt.orchestrator.checks.proof import successors, verdict_of
    from owlt.results.plain_files import real_root

    printer = Printer(as_json)
    implementation = transfer.implementation(name)
    require_repeatable(implementation)
    link = transfer.calm_link()
    plan_of = transfers(implementation, link, transfer.file_size_bytes)
    actions = faults.actions(link)
    results = real_root(PROOFS) / implementation.name if resume else empty_directory(PROOFS, implementation.name)
    again = shlex.join(["owlt", "prove", name, *faults.words, *transfer.words, "--resume"])
    trials: list[Trial] = []
    base: Trial | None = None
    sets: list[Hits] = [()]
    with case_runs(printer, again, guests) as perform:
        for level in range(faults.losses + 1):
            if len(sets) > MOST_SETS:
                problem, fix = f"{len(sets):,} sets of {level} faults", "use a smaller file, or a lower --losses"
                raise OwltError(Mistake.of("--losses", problem, f"at most {MOST_SETS:,}", fix))
            found = perform_sets(perform, plan_of, sets, results / str(level), base)
            trials += found
            base = trials[0]
            if level == 0 and not found[0].is_delivered:
                break
            sets = [each for trial in found if trial.is_delivered for each in successors(trial, actions)]
    verdict = verdict_of(trials)
    failed = verdict.counterexamples
    example = write_channel(failed[0], link, results / COUNTEREXAMPLE) if failed else None
    printer.json(_as_json(implementation.name, verdict, trials, results, example))
    lines = _lines(implementation.name, actions, verdict, example)
    page = _write_page(implementation.name, actions, lines, verdict, trials, results, transfer)
    for line in [*lines, f"report: {page}"]:
        printer.text(line)
    raise typer.Exit(0 if verdict.is_proven else 1)


def _write_page(
    name: str,
    actions: Sequence[Action],
    lines: Sequence[str],
    verdict: Verdict,
    trials: Sequence[Trial],
    results: Path,
    transfer: OneTransfer,
) -> Path:
    """The page of a proof, with its figure."""
    from owlt.installation import own_version
    from owlt.orchestrator.checks.fault_cases import effect, ladder_lines
    from owlt.orchestrator.checks.proof import places_of
    from owlt.reports.drawing.fault_tests import Cost, draw_losses
    from owlt.reports.drawing.output import save_drawing
    from owlt.reports.rendering import new_environment

    title = f"{name}: every {_kinds(actions)} of up to {_packets(verdict.most_hits)}"
    costs = [
        Cost(places_of(trial), trial.extra_rtts, tuple(actions.index(hit.action) for hit in trial.hits))
        for trial in trials
        if trial.hits
    ]
    packets = [packet.text for packet in trials[0].sent]
    figure = draw_losses(costs, packets, title, list(map(effect, actions)))
    save_drawing(figure, results / "losses.svg")
    late = [trial for trial in trials if trial.hits and trial.extra_rtts is not None]
    page = results / PAGE
    page.write_text(
        new_environment()
        .get_template("proof.html")
        .render(
            title=title,
            lines=lines,
            version=own_version(),
            file_size=transfer.file_size,
            channel=transfer.channel_text,
            ladders=[(trial, ladder_lines(trial.run)) for trial in verdict.counterexamples[:MOST_PRINTED]],
            slowest=sorted(late, key=lambda trial: -(trial.extra_rtts or 0.0))[:MOST_PRINTED],
        )
    )
    return page


def _kinds(actions: Sequence[Action]) -> str:
    """The faults in words, such as "loss, duplication or delay by 5 s"."""
    from owlt.inputs.quantities import format_delay

    words = [
        "loss" if each.drop else "duplication" if each.duplicate else f"delay by {format_delay(each.delay_ns or 0)}"
        for each in actions
    ]
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _packets(count: int) -> str:
    return f"{count} packets" if count > 1 else "1 packet"


def _lines(name: str, actions: Sequence[Action], verdict: Verdict, example: Path | None) -> list[str]:
    """The verdict in words."""
    runs = f"{verdict.trials} runs" if verdict.trials > 1 else "1 run"
    lines = []
    if verdict.is_proven:
        hits = f"{_kinds(actions)} of up to {_packets(verdict.most_hits)}"
        lines.append(f"{name}: the file is delivered after every {hits} ({runs})")
    if verdict.undecided:
        lines.append(f"{name}: nothing is proven by {len(verdict.undecided)} of {runs}, which are suspect or aborted:")
        lines += _trial_lines(verdict.undecided)
    if verdict.counterexamples:
        first = verdict.counterexamples[0]
        faults = f"if {first.text}" if first.hits else "even without a fault"
        lines.append(f"{name}: the file is not delivered {faults} ({runs})")
        lines += _trial_lines(verdict.counterexamples)
        lines.append(f"its run: {first.run}")
        lines.append(f"a channel file that repeats it, with the same file size and parameters: {example}")
    if verdict.worst is not None:
        worst = verdict.worst
        lines.append(f"the slowest delivery needs {worst.extra_rtts:.2f} round trips more, if {worst.text}")
    return lines


def _trial_lines(trials: Sequence[Trial]) -> list[str]:
    lines = [
        f"  {trial.text}: {trial.outcome}{f': {trial.reason}' if trial.reason else ''}"
        f"{''.join(f'; suspect: {each}' for each in trial.suspect)}"
        for trial in trials[:MOST_PRINTED]
    ]
    return lines + [f"  and {left} more" for left in [len(trials) - MOST_PRINTED] if left > 0]


def _as_json(
    name: str, verdict: Verdict, trials: Sequence[Trial], results: Path, example: Path | None
) -> dict[str, Any]:
    return {
        "implementation": name,
        "proven": verdict.is_proven,
        "losses": verdict.most_hits,
        "runs": verdict.trials,
        "results": results,
        "counterexample": example,
        "trials": [
            {
                "faults": list(trial.faults),
                "outcome": trial.outcome,
                "reason": trial.reason,
                "suspect": list(trial.suspect),
                "extra_rtts": trial.extra_rtts,
                "extra_packets": trial.extra_packets,
                "run": trial.run,
            }
            for trial in trials
        ],
    }
