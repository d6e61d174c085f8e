"""A results directory as values: one row a run, and what was asked for. Concluding is left to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from captures.cache import load_summary
from captures.protocols.view import ProtocolView, load_view
from captures.summary import CaptureSummary
from reports.delivery import COMPLETED, Delivery, by_delivery
from reports.records import (
    Certificate,
    DamagedFile,
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
FAILURE_NAME = "analysis-failed.txt"
PERFORMED_AGAIN = "the run is left out; 'owlt run' performs it again"


@dataclass(frozen=True)
class Run:
    """One row of the table. `summary` is None where the captures were not summarised, `view` where the messages in
    them were not looked at: they are in one repetition of each permutation."""

    record: Record
    summary: CaptureSummary | None
    directory: Path
    view: ProtocolView | None = None
    doubts: tuple[str, ...] = ()
    """What is wrong with the files that belong to the run."""

    @property
    def suspect(self) -> tuple[str, ...]:
        """Why the run's numbers are not to be trusted blindly; empty for most."""
        of_captures = self.summary.suspect if self.summary else []
        return tuple(dict.fromkeys((*self.record.suspect, *of_captures, *self._tcp_suspect, *self.doubts)))

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
        return self.record.outcome == COMPLETED


@dataclass(frozen=True)
class Channel:
    """A channel of the sweep. `name` is that of its profile, "" if it is made of the sweep's own values."""

    key: str
    name: str
    asked: WrittenChannel
    certificate: Certificate | None
    """None: nobody measured it, or its file is missing or damaged."""
    problem: str = ""
    """What is wrong with the certificate's file."""

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
    """Of each implementation, by name, in the order of the sweep."""
    deliveries: dict[str, Delivery]
    """Of each implementation, by name, in the order of the report."""
    warnings: tuple[str, ...]
    """A sentence for everything in the directory that is damaged or does not belong."""
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
        """The title of each implementation by its name, in the order of the report, and what it was told apart."""
        records: dict[str, list[Record]] = {permutation.implementation: [] for permutation in self.asked}
        for run in self.runs:
            records[run.record.implementation].append(run.record)
        return {name: _title(name, of_name) for name, of_name in records.items()}

    @cached_property
    def series(self) -> dict[str, int]:
        """The number of each implementation in the sweep, which its looks are drawn by: no outcome changes them."""
        return {name: number for number, name in enumerate(self.profiles) if name in self.implementations}

    @property
    def clock(self) -> str:
        """The one clock of all runs."""
        return self.runs[0].record.clock


def _title(name: str, records: list[Record]) -> str:
    told = told_apart(records)
    return (records[0].title if records else name) + (f" ({told})" if told else "")


def load_results(directory: Path) -> Results:
    """The plan, records, summaries and certificates of a results directory.

    What is damaged or does not belong is left out, or makes runs suspect, and is in the warnings. Raises ReportError
    when there is no plan that can be read, when no run has a record, when another version of owlt wrote a file, and
    when runs of different clocks lie together: their times cannot be compared.
    """
    plan = _plan(directory / PLAN_NAME)
    warnings: list[str] = []
    records = dict(_records(directory, plan, warnings))
    if not records:
        raise ReportError(
            f"{directory}: no run has a record (runs/*/{RECORD_NAME}), so there is nothing to report; "
            "run the sweep first, or name another results directory"
        )
    deliveries = by_delivery(list(plan.implementations), list(records.values()))
    order = list(deliveries)
    asked = Counter(run.permutation for run in plan.runs)
    permutations = sorted(asked, key=lambda permutation: plan.place(permutation, order))
    channels = _channels(directory, plan, permutations)
    runs = [_run(run_directory, record, channels[record.permutation]) for run_directory, record in records.items()]
    _refuse_mixed_clocks(directory, runs)
    runs.sort(key=lambda run: (plan.place(run.record.permutation, order), run.record.repetition))
    on_their_channels = {run.record.channel_key for run in runs if run.doubts}
    warnings += dict.fromkeys(
        channel.problem for channel in channels.values() if channel.problem and channel.key in on_their_channels
    )
    return Results(
        directory=directory,
        sweep=plan.sweep,
        asked={permutation: asked[permutation] for permutation in permutations},
        runs=tuple(runs),
        channels=channels,
        profiles=plan.implementations,
        deliveries=deliveries,
        warnings=tuple(warnings),
        performed=_performed(directory / JOURNAL_NAME),
    )


def _plan(path: Path) -> Plan:
    try:
        return Plan.read(path)
    except FileNotFoundError:
        raise ReportError(f"{path}: cannot be read (it is missing); wanted a results directory of owlt") from None
    except DamagedFile as problem:
        raise ReportError(
            f"{problem}; remove it, and 'owlt run' with the sweep file of these results writes it again"
        ) from problem


def _records(directory: Path, plan: Plan, warnings: list[str]) -> Iterator[tuple[Path, Record]]:
    """The directory and the record of every run of the plan; what else is there goes to the warnings."""
    planned = {run.run_id: run.permutation for run in plan.runs}
    runs = directory / "runs"
    for path in sorted(runs.iterdir()) if runs.is_dir() else []:
        if path.name not in planned or not path.is_dir():
            warnings.append(f"{path}: is no run of this sweep, and is ignored; move it away")
            continue
        try:
            record = Record.read(path / RECORD_NAME)
        except FileNotFoundError:
            continue
        except DamagedFile as problem:
            warnings.append(f"{problem}; {PERFORMED_AGAIN}")
            continue
        if (record.run_id, record.permutation) == (path.name, planned[path.name]):
            yield path, record
        else:
            warnings.append(f"{path / RECORD_NAME}: is the record of another run, {record.run_id}; {PERFORMED_AGAIN}")


def _run(directory: Path, record: Record, channel: Channel) -> Run:
    doubts = []
    if channel.problem and record.certificate:
        doubts.append(channel.problem)
    failure = directory / FAILURE_NAME
    if failure.exists():
        doubts.append(f"analysis failed: {failure.read_text(errors='replace').partition(chr(10))[0]}")
    summary = load_summary(directory)
    if summary is not None and record.outcome != COMPLETED:
        summary = summary.of_no_file
    return Run(record, summary, directory, load_view(directory), tuple(doubts))


def _performed(journal: Path) -> tuple[float, float] | None:
    """The times of the first and the last event that can be read."""
    try:
        lines = journal.read_bytes().splitlines()
    except OSError:
        return None
    first, last = next(_times(lines), None), next(_times(reversed(lines)), None)
    return None if first is None or last is None else (first, last)


def _times(lines: Iterable[bytes]) -> Iterator[float]:
    for line in lines:
        with suppress(ValidationError):
            yield Event.model_validate_json(line).at_s


def _channels(directory: Path, plan: Plan, permutations: list[Permutation]) -> dict[Permutation, Channel]:
    keys = {run.permutation: run.channel_key for run in plan.runs}
    certificates = {key: _certificate(directory, key) for key in set(keys.values())}
    return {
        point: Channel(key, point.channel_name, plan.channels[key], *certificates[key])
        for point in permutations
        for key in [keys[point]]
    }


def _certificate(directory: Path, key: str) -> tuple[Certificate | None, str]:
    """A channel's certificate; or none, and what is wrong with its file."""
    path = directory / CERTIFICATES / f"{key}.json"
    try:
        return Certificate.read(path), ""
    except (FileNotFoundError, NotADirectoryError):
        state = "missing"
    except ReportError:
        state = "damaged"
    return None, f"the certificate {CERTIFICATES}/{path.name} is {state}; 'owlt run' measures the channel again"


def _refuse_mixed_clocks(directory: Path, runs: list[Run]) -> None:
    example = {run.record.clock: run.record.run_id for run in runs}
    if len(example) > 1:
        found = ", ".join(f"{clock!r} (run {run_id})" for clock, run_id in sorted(example.items()))
        raise ReportError(
            f"{directory}: got runs of the clocks {found}; their times cannot be compared in one figure: "
            "keep the runs of each clock in a results directory of their own"
        )
