"""A results directory as values: a row for each run, and the plan. Comparing runs belongs to `reports.comparison`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.files.plain_files import is_plain_directory, names_in, read_plain
from owlt.captures.protocols.view import ProtocolView, load_view
from owlt.inputs.mistake import Mistake, Place
from owlt.reports.results.advertised import advertised_note
from owlt.reports.results.delivery import COMPLETED, Delivery, by_delivery
from owlt.reports.results.records import (
    Certificate,
    DamagedFile,
    Event,
    Permutation,
    Plan,
    PlannedRun,
    Profile,
    Record,
    ReportError,
    Source,
    Sources,
    Sweep,
    WrittenChannel,
)
from owlt.reports.results.suspicion import doubts_about_files, reasons_for_doubt
from owlt.reports.results.upgrades import SOURCES_NAME

PLAN_NAME = "plan.json"
RECORD_NAME = "record.json"
JOURNAL_NAME = "journal.jsonl"
MOST_JOURNAL_BYTES = 512_000_000
CERTIFICATES = "certificates"
PERFORMED_AGAIN = "the run is omitted; 'owlt run' performs it again"


@dataclass(frozen=True)
class Run:
    """One run. `summary` is None if its captures have no summary, `view` if its messages were not decoded: they are for
    one repetition of each permutation."""

    record: Record
    summary: CaptureSummary | None
    directory: Path
    view: ProtocolView | None = None
    doubts: tuple[str, ...] = ()
    """The problems of the files that belong to the run, a sentence each."""

    @cached_property
    def suspect(self) -> tuple[str, ...]:
        """The reasons for doubt about the run's numbers; empty for most runs."""
        return reasons_for_doubt(self.record, self.summary, self.view, self.doubts)

    @property
    def completed(self) -> bool:
        """Whether the file was delivered."""
        return self.record.outcome == COMPLETED


@dataclass(frozen=True)
class Channel:
    """A channel of the sweep. `name` is that of its profile, "" if it is made of the sweep's own values."""

    key: str
    name: str
    specified: WrittenChannel
    certificate: Certificate | None
    """None if the channel was not measured, or if the file is missing or damaged."""
    problem: str = ""
    """The problem of the certificate's file, a sentence; "" if there is none."""

    @property
    def failed(self) -> bool:
        """Whether the channel was measured and differs from its specification."""
        return self.certificate is not None and self.certificate.verdict == "failed"


@dataclass(frozen=True)
class Results:
    """A sweep and its results: the runs that have a record, in the order of the grid."""

    directory: Path
    sweep: Sweep
    planned: dict[Permutation, int]
    """The number of planned runs of each permutation, recorded or not; in the order of the grid."""
    runs: tuple[Run, ...]
    channels: dict[Permutation, Channel]
    """The channel of each permutation."""
    profiles: dict[str, Profile]
    """Of each implementation, by name, in the order of the sweep."""
    deliveries: dict[str, Delivery]
    """Of each implementation, by name, in the order of the report."""
    warnings: tuple[str, ...]
    """A sentence for each file in the directory that is damaged or unexpected."""
    performed: tuple[float, float] | None
    """The first and the last event of the journal, in s since 1970 on the wall clock; None if there is no event."""
    baseline: frozenset[str] = frozenset()
    """The runs of the baseline, by name."""
    is_by_repetition: bool = True
    """Whether all runs of a repetition come before those of the next."""
    unrecorded: tuple[PlannedRun, ...] = ()
    """The planned runs that have no record."""
    sources: tuple[Source, ...] = ()
    """The directories that were combined; () if the runs are those of one sweep."""

    @cached_property
    def distinct_channels(self) -> tuple[Channel, ...]:
        """Each channel once, in the order of the grid."""
        return tuple({(channel.name, channel.key): channel for channel in self.channels.values()}.values())

    @cached_property
    def by_permutation(self) -> dict[Permutation, tuple[Run, ...]]:
        """The runs of every permutation, in the order of their repetitions."""
        by_permutation: dict[Permutation, list[Run]] = {permutation: [] for permutation in self.planned}
        for run in self.runs:
            by_permutation[run.record.permutation].append(run)
        return {permutation: tuple(runs) for permutation, runs in by_permutation.items()}

    @cached_property
    def implementations(self) -> dict[str, str]:
        """The title of each implementation, with advertised values that differ, by name, in the order of the report."""
        records: dict[str, list[Record]] = {permutation.implementation: [] for permutation in self.planned}
        for run in self.runs:
            records[run.record.implementation].append(run.record)
        return {name: _title(name, of_name) for name, of_name in records.items()}

    @cached_property
    def series(self) -> dict[str, int]:
        """The number of each implementation in the sweep, which decides its looks, independently of outcomes."""
        return {name: number for number, name in enumerate(self.profiles) if name in self.implementations}

    @property
    def clock(self) -> str:
        """The one clock of all runs."""
        return self.runs[0].record.clock


def _title(name: str, records: list[Record]) -> str:
    note = advertised_note(records)
    return (records[0].title if records else name) + (f" ({note})" if note else "")


def load_results(directory: Path) -> Results:
    """The plan, records, summaries and certificates of a results directory.

    Files that are damaged or unexpected are omitted or make runs suspect, and are in the warnings. Raises ReportError
    if the plan cannot be read, if no run has a record, if another version of owlt wrote a file, or if runs have
    different clocks, because their times cannot be compared.
    """
    plan = _plan(directory)
    warnings: list[str] = []
    records = dict(_records(directory, plan, warnings))
    _require_records(directory, records)
    deliveries = by_delivery(list(plan.implementations), list(records.values()))
    order = list(deliveries)
    planned = Counter(run.permutation for run in plan.runs)
    permutations = sorted(planned, key=lambda permutation: plan.place(permutation, order))
    channels = _channels(directory, plan, permutations)
    runs = [_run(run_directory, record, channels[record.permutation]) for run_directory, record in records.items()]
    _refuse_mixed_clocks(directory, runs)
    runs.sort(key=lambda run: (plan.place(run.record.permutation, order), run.record.repetition))
    doubtful = {run.record.channel_key for run in runs if run.doubts}
    warnings += dict.fromkeys(each.problem for each in channels.values() if each.problem and each.key in doubtful)
    return Results(
        directory=directory,
        sweep=plan.sweep,
        planned={permutation: planned[permutation] for permutation in permutations},
        runs=tuple(runs),
        channels=channels,
        profiles=plan.implementations,
        deliveries=deliveries,
        warnings=tuple(warnings),
        performed=_performed(directory / JOURNAL_NAME),
        baseline=frozenset(run.run_id for run in plan.runs if run.is_baseline),
        is_by_repetition=plan.is_by_repetition,
        unrecorded=_unrecorded(plan, runs),
        sources=_sources(directory / SOURCES_NAME),
    )


def _sources(path: Path) -> tuple[Source, ...]:
    try:
        return Sources.read(path).sources
    except FileNotFoundError:
        return ()


def _unrecorded(plan: Plan, runs: Iterable[Run]) -> tuple[PlannedRun, ...]:
    recorded = {run.record.run_id for run in runs}
    return tuple(run for run in plan.runs if run.run_id not in recorded)


def _plan(directory: Path) -> Plan:
    try:
        return Plan.read(directory / PLAN_NAME)
    except FileNotFoundError:
        problem, expected = f"is not a results directory (it has no {PLAN_NAME})", "one that 'owlt run' made"
        raise ReportError(Mistake(problem, expected, where=Place(str(directory)))) from None
    except DamagedFile as problem:
        raise ReportError(
            Mistake(f"{problem}", fix="remove it, and 'owlt run' with the sweep file of these results rewrites it")
        ) from problem


def _records(directory: Path, plan: Plan, warnings: list[str]) -> Iterator[tuple[Path, Record]]:
    """The directory and the record of every run of the plan; warnings are appended for all other entries.

    Each has its place in the order of the present plan: the record's is that of the plan of its time.
    """
    planned = {run.run_id: run.permutation for run in plan.runs}
    orders = {run.run_id: run.order for run in plan.runs}
    runs = directory / "runs"
    for path in [runs / name for name in names_in(runs)]:
        if path.name not in planned or not is_plain_directory(path):
            warnings.append(f"{path}: not a run of this sweep, ignored; move it to another directory")
            continue
        try:
            record = Record.read(path / RECORD_NAME)
        except FileNotFoundError:
            continue
        except DamagedFile as problem:
            warnings.append(f"{problem}; {PERFORMED_AGAIN}")
            continue
        if (record.run_id, record.permutation) == (path.name, planned[path.name]):
            yield path, record.model_copy(update={"order": orders[path.name]})
        else:
            warnings.append(f"{path / RECORD_NAME}: the record of another run, {record.run_id}; {PERFORMED_AGAIN}")


def _require_records(directory: Path, records: Mapping[Path, Record]) -> None:
    if not records:
        raise ReportError(
            Mistake(
                f"no run has a record (runs/*/{RECORD_NAME}), so there is nothing to report",
                fix="run the sweep first, or name another results directory",
                where=Place(str(directory)),
            )
        )


def _run(directory: Path, record: Record, channel: Channel) -> Run:
    doubts = doubts_about_files(directory, record, channel.problem)
    summary = load_summary(directory)
    if summary is not None and record.outcome != COMPLETED:
        summary = summary.of_no_file
    return Run(record, summary, directory, load_view(directory), doubts)


def _performed(journal: Path) -> tuple[float, float] | None:
    """The times of the first and the last valid event, in s since 1970."""
    try:
        lines = read_plain(journal, MOST_JOURNAL_BYTES).splitlines()
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
    """A channel's certificate; or None, and the problem of its file."""
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
        clocks = ", ".join(f"{clock!r} (run {run_id})" for clock, run_id in sorted(example.items()))
        raise ReportError(
            Mistake(
                f"the runs have different clocks: {clocks}; their times cannot be compared",
                fix="keep the runs of each clock in a separate results directory",
                where=Place(str(directory)),
            )
        )
