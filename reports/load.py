"""A results directory as values: one row a run, and what was asked for. Concluding is left to others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from captures.cache import load_summary
from captures.protocols.view import ProtocolView, load_view
from captures.summary import CaptureSummary
from reports.records import (
    Certificate,
    Event,
    Permutation,
    Plan,
    Profile,
    Record,
    ReportError,
    Sweep,
    WrittenChannel,
)
from reports.tcp_agreement import tcp_disagreement
from reports.told import told_apart

PLAN_NAME = "plan.json"
RECORD_NAME = "record.json"
JOURNAL_NAME = "journal.jsonl"
CERTIFICATES = "certificates"


@dataclass(frozen=True)
class Run:
    """One row of the table. `summary` is None where the captures were not summarised, `view` where the messages in
    them were not looked at: they are in one repetition of each permutation."""

    record: Record
    summary: CaptureSummary | None
    directory: Path
    view: ProtocolView | None = None

    @property
    def suspect(self) -> tuple[str, ...]:
        """Why the run's numbers are not to be trusted blindly; empty for most."""
        of_captures = self.summary.suspect if self.summary else []
        return tuple(dict.fromkeys((*self.record.suspect, *of_captures, *self._tcp_suspect)))

    @property
    def _tcp_suspect(self) -> tuple[str, ...]:
        kernel = self.record.tcp.get("sender")
        if kernel is None or self.view is None or self.view.tcp is None:
            return ()
        disagreement = tcp_disagreement(kernel, self.view.tcp)
        return (disagreement,) if disagreement else ()

    @property
    def completed(self) -> bool:
        """Whether the receiver has the very file of the sender."""
        return self.record.outcome == "completed"


@dataclass(frozen=True)
class Channel:
    """A channel of the sweep. `name` is that of its profile, "" if it is made of the sweep's own values."""

    key: str
    name: str
    asked: WrittenChannel
    certificate: Certificate | None
    """None: nobody measured it."""

    @property
    def failed(self) -> bool:
        """Whether it was measured to be other than asked."""
        return self.certificate is not None and self.certificate.verdict == "failed"


@dataclass(frozen=True)
class Results:
    """A sweep and what came of it: the runs that have a record, in the order of the grid."""

    directory: Path
    sweep: Sweep
    asked: dict[Permutation, int]
    """How many runs the plan has of each permutation, recorded or not; in the order of the grid."""
    runs: tuple[Run, ...]
    channels: dict[Permutation, Channel]
    """The channel of each permutation that was asked for."""
    profiles: dict[str, Profile]
    """Of each implementation, by name."""
    performed: tuple[float, float] | None
    """When it was begun and last worked at, in s since 1970 of this world's clock; None where nobody noted it."""

    @cached_property
    def distinct_channels(self) -> tuple[Channel, ...]:
        """Each channel once, in the order of the grid."""
        return tuple({(channel.name, channel.key): channel for channel in self.channels.values()}.values())

    @cached_property
    def by_permutation(self) -> dict[Permutation, tuple[Run, ...]]:
        """The runs of every permutation that was asked for, in the order of their repetitions."""
        found: dict[Permutation, list[Run]] = {permutation: [] for permutation in self.asked}
        for run in self.runs:
            found[run.record.permutation].append(run)
        return {permutation: tuple(runs) for permutation, runs in found.items()}

    @cached_property
    def implementations(self) -> dict[str, str]:
        """The title of each implementation by its name, in the order of the sweep, and what it was told apart."""
        records: dict[str, list[Record]] = {permutation.implementation: [] for permutation in self.asked}
        for run in self.runs:
            records[run.record.implementation].append(run.record)
        return {name: _title(name, of_name) for name, of_name in records.items()}

    @property
    def clock(self) -> str:
        """The one clock of all runs."""
        return self.runs[0].record.clock


def _title(name: str, records: list[Record]) -> str:
    told = told_apart(records)
    return (records[0].title if records else name) + (f" ({told})" if told else "")


def load_results(directory: Path) -> Results:
    """The plan, records, summaries and certificates of a results directory.

    Raises ReportError when a file is missing or is not what it should be, when no run has a record, when a
    run is not of the plan, and when runs of different clocks lie together: their times cannot be compared.
    """
    plan = Plan.read(directory / PLAN_NAME)
    paths = sorted(directory.glob(f"runs/*/{RECORD_NAME}"))
    if not paths:
        raise ReportError(
            f"{directory}: no run has a record (runs/*/{RECORD_NAME}), so there is nothing to report; "
            "run the sweep first, or name another results directory"
        )
    runs = [Run(Record.read(path), load_summary(path.parent), path.parent, load_view(path.parent)) for path in paths]
    _refuse_strangers(directory, plan, runs)
    _refuse_mixed_clocks(directory, runs)
    runs.sort(key=lambda run: (plan.place(run.record.permutation), run.record.repetition))
    asked = Counter(run.permutation for run in plan.runs)
    permutations = sorted(asked, key=plan.place)
    return Results(
        directory=directory,
        sweep=plan.sweep,
        asked={permutation: asked[permutation] for permutation in permutations},
        runs=tuple(runs),
        channels=_channels(directory, plan, permutations),
        profiles=plan.implementations,
        performed=_performed(directory / JOURNAL_NAME),
    )


def _performed(journal: Path) -> tuple[float, float] | None:
    """The times of the first and the last event."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    try:
        return (Event.model_validate_json(lines[0]).at_s, Event.model_validate_json(lines[-1]).at_s)
    except (IndexError, ValidationError):  # none, or cut off in the middle of a line
        return None


def _channels(directory: Path, plan: Plan, permutations: list[Permutation]) -> dict[Permutation, Channel]:
    keys = {run.permutation: run.channel_key for run in plan.runs}
    certificates = {key: _certificate(directory, key) for key in set(keys.values())}
    return {
        point: Channel(key, point.channel_name, plan.channels[key], certificates[key])
        for point in permutations
        for key in [keys[point]]
    }


def _certificate(directory: Path, key: str) -> Certificate | None:
    path = directory / CERTIFICATES / f"{key}.json"
    return Certificate.read(path) if path.exists() else None


def _refuse_strangers(directory: Path, plan: Plan, runs: list[Run]) -> None:
    planned = {run.run_id: run.permutation for run in plan.runs}
    for run in runs:
        if planned.get(run.record.run_id) != run.record.permutation:
            raise ReportError(
                f"{run.directory}: the record of {run.record.run_id} is not of this sweep, for the plan in "
                f"{directory / PLAN_NAME} has no such run; move it to a results directory of its own"
            )


def _refuse_mixed_clocks(directory: Path, runs: list[Run]) -> None:
    example = {run.record.clock: run.record.run_id for run in runs}
    if len(example) > 1:
        found = ", ".join(f"{clock!r} (run {run_id})" for clock, run_id in sorted(example.items()))
        raise ReportError(
            f"{directory}: got runs of the clocks {found}; their times cannot be compared in one figure: "
            "keep the runs of each clock in a results directory of their own"
        )
