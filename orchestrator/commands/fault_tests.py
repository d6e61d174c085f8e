"""What the commands of fault tests have in common: the transfer that they repeat, its options, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import ChangedParameters, channel_option, option_words, parsed
from owlt.orchestrator.ending import INTERRUPTED_STATUS
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.orchestrator.checks.fault_cases import Hits, PlanOfCases
    from owlt.orchestrator.checks.proof import Trial
    from owlt.orchestrator.planning.plan import Plan


@dataclass(frozen=True)
class OneTransfer:
    """The transfer that a command repeats: its options."""

    file_size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the file.")] = "20 kB"
    channel: Annotated[
        str | None, channel_option("Channel without random effects; default: 250 ms and 1 Mbit/s each way.")
    ] = None
    parameter: ChangedParameters = None

    @property
    def words(self) -> list[str]:
        """These options as words of a command line."""
        words = ["--file-size", self.file_size, *(["--channel", self.channel] if self.channel else [])]
        return [*words, *option_words("--parameter", self.parameter)]

    @property
    def file_size_bytes(self) -> int:
        """The size of the file. Raises OwltError."""
        from owlt.inputs.quantities import parse_size_bytes

        return parsed("--file-size", self.file_size, parse_size_bytes)

    @property
    def channel_text(self) -> str:
        """The channel in words."""
        from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL_TEXT

        return self.channel or PLAIN_CHANNEL_TEXT

    def implementation(self, name: str) -> contract.Implementation:
        """The implementation of this name, with the parameters. Raises OwltError."""
        from owlt.orchestrator.profiles.catalogue import find_implementation

        return with_parameters(find_implementation(name), self.parameter)

    def link(self, default: ChannelSpec) -> ChannelSpec:
        """The channel; `default` if none is given. Raises OwltError."""
        from owlt.orchestrator.profiles.catalogue import find_channel

        return default if self.channel is None else find_channel(self.channel).channel

    def calm_link(self) -> ChannelSpec:
        """The channel. Raises OwltError for one with random effects, which would add to the losses."""
        from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL

        link = self.link(PLAIN_CHANNEL)
        if link.draws:
            problem = f"{self.channel} has random effects"
            raise OwltError(Mistake.of("--channel", problem, "a channel without them", "remove its errors"))
        return link


def with_parameters(
    implementation: contract.Implementation, assignments: Sequence[str] | None
) -> contract.Implementation:
    """The implementation with some parameters set by NAME=VALUE. A number stays a number. Raises OwltError."""
    from owlt.agents.contract import pairs
    from owlt.inputs.mistake import did_you_mean, got

    changes: dict[str, contract.Parameter] = {}
    for text in assignments or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise OwltError(Mistake(f"--parameter: {got(text)}", "NAME=VALUE, such as segment_bytes=1400"))
        if name not in implementation.parameters:
            known = ", ".join(implementation.parameters) or "none"
            fix = did_you_mean(name, implementation.parameters, "")
            problem = f"--parameter: {implementation.name} has no parameter {name}"
            raise OwltError(Mistake(problem, f"one of its parameters: {known}", fix))
        is_number = not isinstance(implementation.parameters[name], str)
        changes[name] = _as_number(value) if is_number else value
    try:
        return pairs.with_parameters(implementation, changes)
    except pairs.CannotPair as reason:
        raise OwltError(Mistake(f"--parameter: {implementation.name} is then not possible: {reason}")) from reason


def _as_number(text: str) -> contract.Parameter:
    """The number in a text, or the text, which may be a word such as "none"."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def require_repeatable(implementation: contract.Implementation) -> None:
    """Raise OwltError for an implementation whose packets are not the same in every run with the same faults."""
    if "exact" in implementation.clocks and not implementation.not_repeatable:
        return
    why = implementation.not_repeatable or f"it needs the clock {implementation.clocks[0]}"
    problem = f"does not send the same packets with the same faults ({why})"
    raise OwltError(Mistake.of(implementation.name, problem, "an implementation that is repeatable on the clock exact"))


def empty_directory(parent: Path, name: str) -> Path:
    """The directory for the results of a trial, after those of the last trial were removed. Raises ResultsInUse if
    another process performs runs there.
    """
    from owlt.results.lock import require_free
    from owlt.results.plain_files import real_root, remove_tree

    path = real_root(parent) / name
    for results in (path, *(each for each in (path.iterdir() if path.is_dir() else ()) if each.is_dir())):
        require_free(results)
    remove_tree(path)
    return path


PerformCases = Callable[["Plan", Path], None]
"""Performs a plan whose runs may fail, into a results directory."""


@contextmanager
def case_runs(printer: Printer, again: str, guests: int | None) -> Iterator[PerformCases]:
    """Performs plans whose runs may fail, one after the other, in the same prepared guests. `again` is the command to
    print after an interrupt.

    A call ends the command if it is interrupted, or if one of its runs has no record.
    """
    from owlt.orchestrator.commands.progress import SweepProgress
    from owlt.orchestrator.sweep.campaign import Start, perform_plan
    from owlt.orchestrator.sweep.machine import PreparedMachine

    with PreparedMachine() as machine:

        def perform(plan: Plan, results: Path) -> None:
            start = Start(plan, results, again, machine=machine, guests=guests)
            with SweepProgress(printer.console, again, expected_failures={run.run_id for run in plan.runs}) as observe:
                performed = perform_plan(start, observe)
            if performed.interrupted:
                printer.note(performed.summary)
                raise typer.Exit(INTERRUPTED_STATUS)
            if performed.recorded < len(plan.runs):
                printer.note(performed.summary)
                raise typer.Exit(1)

        yield perform


def transfers(
    implementation: contract.Implementation,
    channel: ChannelSpec,
    file_size_bytes: int,
    ip: int = 4,
    clock: contract.Clock = "exact",
) -> PlanOfCases:
    """Plans the transfer of a file for `perform_sets`."""
    from owlt.orchestrator.checks.fault_cases import plan_of_cases

    name = f"prove-{implementation.name}"
    return partial(plan_of_cases, name, implementation, channel, file_size_bytes, ip=ip, clock=clock)


def perform_sets(
    perform: PerformCases, plan_of: PlanOfCases, sets: Sequence[Hits], results: Path, base: Trial | None = None
) -> list[Trial]:
    """One run of each set of faults, in a results directory of their own. `base` is the trial without faults, with
    which they are compared."""
    from owlt.orchestrator.checks.fault_cases import aimed_at, case_name
    from owlt.orchestrator.checks.proof import trials_of

    if not sets:
        return []
    plan = plan_of({case_name(each): aimed_at(each) for each in sets})
    perform(plan, results)
    return trials_of(plan, results, sets, base)


def write_channel(trial: Trial, channel: ChannelSpec, path: Path) -> Path:
    """Write a channel file that has the faults of a trial."""
    from ruamel.yaml import YAML

    from owlt.orchestrator.checks.fault_cases import aimed_at

    faults = (*channel.faults, *aimed_at(trial.hits))
    written: Mapping[str, Any] = channel.model_copy(update={"faults": faults}).to_wire()
    with path.open("w") as file:
        YAML().dump({"title": trial.text, **written}, file)
    return path
