"""`owlt bisect`: the first of several versions of an implementation that behaves differently."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place, not_one_of
from owlt.orchestrator.commands.fault_tests import (
    OneTransfer,
    case_runs,
    empty_directory,
    require_repeatable,
    with_parameters,
)
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json, channel_option, complete_implementation
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from owlt.agents.contract import implementation as contract
    from owlt.orchestrator.planning.plan import Plan

BISECTED = Path("results", "bisected")


@dataclass(frozen=True)
class Limit:
    """A measure, and the number above or below which a version is bad."""

    column: str
    number: float
    is_above: bool


@dataclass(frozen=True)
class _Transfer(OneTransfer):
    """The transfer of each version."""

    file_size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the file.")] = "100 kB"
    channel: Annotated[str | None, channel_option("Channel; default: 250 ms and 1 Mbit/s in both directions.")] = None


@dataclass(frozen=True)
class JudgementOptions:
    """How a version is judged."""

    measure: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Compare a column of runs.csv, such as session_s; default: compare the packets."
        ),
    ] = None
    above: Annotated[float | None, typer.Option(help="A version is bad if the measure is above this number.")] = None
    below: Annotated[float | None, typer.Option(help="A version is bad if the measure is below this number.")] = None

    def limit(self) -> Limit | None:
        """The measure by which versions are judged; None: by their packets. Raises OwltError."""
        from owlt.reports.results.columns import COLUMNS

        if self.measure is None:
            if self.above is not None or self.below is not None:
                fix = "add --measure session_s"
                raise OwltError(Mistake.of("--measure", "is missing", "a column of runs.csv", fix))
            return None
        numbers = [each.name for each in COLUMNS if each.kind in ("integer", "number")]
        if self.measure not in numbers:
            raise OwltError(not_one_of(self.measure, numbers).below("--measure"))
        if (self.above is None) == (self.below is None):
            problem = "is missing, or --below is given as well"
            raise OwltError(Mistake.of("--above", problem, "one of --above and --below"))
        return Limit(self.measure, self.above if self.above is not None else self.below or 0.0, self.above is not None)


def bisect(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Implementations, NAME@VERSION or paths of their files, one for each version, oldest first; with "
            "--good and --bad, one NAME.",
            autocompletion=complete_implementation,
        ),
    ],
    *,
    good: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Search the installed versions of NAME from this one.")
    ] = None,
    bad: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Search the installed versions of NAME up to this one.")
    ] = None,
    judging: JudgementOptions,
    transfer: _Transfer,
    as_json: Json = False,
) -> None:
    """Find the first version that behaves differently.

    Each version has its own profile, or is NAME@VERSION: 'owlt third-party install NAME@VERSION' installs it. The
    command performs one transfer with the first version, with the last, and with those that a binary search selects,
    all with the same seed on the exact clock. A version is bad if its packets differ from those of the first version.
    With --measure, it is bad if the measure is above or below the number, or if the file is not delivered. The runs
    remain in results/bisected/NAME.

    Exit status: 0 if the first bad version is found, 1 if the first version is bad or the last one is good.
    """
    from owlt.orchestrator.checks.bisecting import find_version, first_bad

    printer = Printer(as_json)
    limit = judging.limit()
    names = _names(names, good, bad)
    versions = [with_parameters(find_version(name), transfer.parameter) for name in names]
    for version in versions:
        require_repeatable(version)
    plans = [_plan(version, versions[0].name, transfer) for version in versions]
    results = empty_directory(BISECTED, versions[0].name)
    again = shlex.join(["owlt", "bisect", *names, *transfer.words, *_words(limit)])
    tried: dict[int, Tried] = {}

    with case_runs(printer, again, guests=1) as perform:

        def is_bad(number: int) -> bool:
            if number not in tried:
                place = results / f"{number + 1}-{versions[number].name}"
                perform(plans[number], place)
                tried[number] = _tried(plans[number], place, tried[0].run if number and limit is None else None, limit)
                printer.text(f"{names[number]}: {'bad' if tried[number].is_bad else 'good'}: {tried[number].text}")
            return tried[number].is_bad

        found = None if is_bad(0) or not is_bad(len(names) - 1) else first_bad(len(names), is_bad)
    printer.json(_as_json(names, tried, found, results))
    printer.text(_conclusion(names, tried, found))
    raise typer.Exit(0 if found is not None else 1)


def _names(names: list[str], good: str | None, bad: str | None) -> list[str]:
    """The versions as NAME@VERSION or profiles, in the order of the search. Raises OwltError."""
    from owlt.orchestrator.checks.bisecting import versions_between

    if good is not None or bad is not None:
        if good is None or bad is None:
            raise OwltError(Mistake.of("--bad" if bad is None else "--good", "is missing", "both --good and --bad"))
        if len(names) != 1:
            raise OwltError(Mistake.of("NAME", f"got {', '.join(names)}", "one implementation with --good and --bad"))
        return list(versions_between(names[0], good, bad))
    if len(names) < 2 or len(set(names)) < len(names):
        raise OwltError(Mistake.of("NAME", f"got {', '.join(names)}", "at least two different versions"))
    return names


@dataclass(frozen=True)
class Tried:
    """The transfer of a version: its directory, whether it is bad, and why."""

    run: Path
    is_bad: bool
    text: str


def _words(limit: Limit | None) -> list[str]:
    if limit is None:
        return []
    return ["--measure", limit.column, "--above" if limit.is_above else "--below", f"{limit.number:g}"]


def _plan(version: contract.Implementation, name: str, transfer: OneTransfer) -> Plan:
    """One transfer of a version under the name of the first, so that its seed and directory are the same."""
    from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, plan_over

    renamed = version.model_copy(update={"name": name})
    plan = plan_over(f"bisect-{name}", renamed, {"bisect": transfer.link(PLAIN_CHANNEL)}, transfer.file_size_bytes)
    return plan.model_copy(update={"sweep": plan.sweep.model_copy(update={"keep_captures": "full"})})


def _tried(plan: Plan, results: Path, good: Path | None, limit: Limit | None) -> Tried:
    """The judgement on the transfer of a version: by the measure, or by the packets of the first version's run, `good`;
    None: it is the first. Raises OwltError for a run that shows nothing about the version."""
    from owlt.orchestrator.checks.bisecting import first_divergence
    from owlt.orchestrator.checks.proof import UNDECIDED
    from owlt.results.record import Outcome, read_record
    from owlt.results.recorded_runs import run_directory

    run = run_directory(results, plan.runs[0].run_id)
    record = read_record(run)
    if record.outcome in UNDECIDED:
        problem, expected = f"was {record.outcome}: {record.reason}", "a run that shows what the version does"
        raise OwltError(Mistake(problem, expected, "repeat the command", Place(str(run))))
    if limit is not None:
        value = _value(results, limit.column)
        if record.outcome is not Outcome.COMPLETED or value is None:
            return Tried(run, True, f"{record.outcome}{f': {record.reason}' if record.reason else ''}")
        return Tried(run, value > limit.number if limit.is_above else value < limit.number, f"{limit.column} {value:g}")
    divergence = first_divergence(good, run) if good else ""
    same = "same packets" if good else "reference for the packets"
    return Tried(run, bool(divergence), f"{record.outcome}, {divergence or same}")


def _value(results: Path, column: str) -> float | None:
    from owlt.reports.results.load import load_results
    from owlt.reports.results.rows import run_rows

    value = run_rows(load_results(results))[0][column]
    return None if value is None else float(value)


def _conclusion(names: Sequence[str], tried: dict[int, Tried], found: int | None) -> str:
    if found is not None:
        return f"{names[found]} is the first bad version, after {names[found - 1]} ({len(tried)} runs)"
    if tried[0].is_bad:
        return f"no search: the first version, {names[0]}, is bad"
    return f"no search: the last version, {names[-1]}, is good"


def _as_json(names: Sequence[str], tried: dict[int, Tried], found: int | None, results: Path) -> dict[str, Any]:
    return {
        "first_bad": None if found is None else names[found],
        "last_good": None if found is None else names[found - 1],
        "results": results,
        "tried": [
            {"name": names[number], "is_bad": each.is_bad, "why": each.text, "run": each.run}
            for number, each in sorted(tried.items())
        ],
    }
