"""A results directory as values: a row for each run, the plan, and the host baselines of a lab rig.

Where people read, an implementation is called by its label; files, tables and commands have its name. A label is the
title of the profile, without a remark in parentheses unless two implementations of the sweep would then have the same
one, and the values of the parameters that a sweep varies: "TCP BBR", "LTP, segment 500 B".

Comparing runs belongs to `reports.comparison`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.placeholders import as_text
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.inspection.time_account import TimeAccount, load_account
from owlt.captures.protocols.view import ProtocolView, load_view
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake, Place
from owlt.inputs.sweep import Sweep
from owlt.reports.units import delay_text, number_text, rate_text, size_text
from owlt.results.certificates import Certificate, certificate_or_problem
from owlt.results.files import (
    BASELINES_NAME,
    FAILURE_NAME,
    JOURNAL_NAME,
    PLAN_NAME,
    DamagedFile,
    Event,
    ReportError,
    Source,
    Sources,
    WrittenChannel,
    read_reported_record,
)
from owlt.results.judgements import ABORTED, COMPLETED, Delivery, by_delivery, doubts_about_files, reasons_for_doubt
from owlt.results.operator import read_note
from owlt.results.permutation import Permutation
from owlt.results.plain_files import directories_in, is_plain, is_plain_directory, names_in, read_plain
from owlt.results.plan import OrderOfRepetitions, WrittenPlan, read_written_plan
from owlt.results.plan import Run as PlanRun
from owlt.results.record import RECORD_NAME, RunRecord
from owlt.results.recorded_runs import RUNS
from owlt.results.upgrades import SOURCES_NAME

CONGESTION_CONTROL = "congestion_control"
CONGESTION_CONTROLS = {
    "bic": "BIC",
    "cdg": "CDG",
    "dctcp": "DCTCP",
    "highspeed": "HighSpeed",
    "htcp": "H-TCP",
    "lp": "TCP-LP",
    "nv": "NV",
    "yeah": "YeAH",
}
"""The names of congestion controls that are not simply written in capitals."""
WORDS = ("hybla", "illinois", "reno", "scalable", "vegas", "veno", "westwood")
IN_LINUX = {"bbr": "BBR version 1 (tcp_bbr of Linux)"}
"""What a congestion control of Linux is, where its name leaves that open."""
_UNITS = {"bytes": size_text, "bps": rate_text}


def labels_of(profiles: Mapping[str, Implementation]) -> dict[str, str]:
    """The label of each implementation of a sweep, by name; no two are equal."""
    titles = {base_name(name): _title(name, profile) for name, profile in profiles.items()}
    short = {name: re.sub(r" \([^()]*\)$", "", title) for name, title in titles.items()}
    counts = Counter(short.values())
    bases = {name: short[name] if counts[short[name]] == 1 else titles[name] for name in titles}
    labels = {name: bases[base_name(name)] + _chosen(name, profile) for name, profile in profiles.items()}
    counts = Counter(labels.values())
    return {name: label if counts[label] == 1 else f"{label} [{name}]" for name, label in labels.items()}


def congestion_control_of(profile: Implementation) -> str:
    """Which version of a congestion control an implementation over Linux's TCP has; "" where that is not known."""
    chosen = as_text(profile.of("sender").parameters.get(CONGESTION_CONTROL, ""))
    return IN_LINUX.get(chosen, "") if profile.protocol == "TCP" else ""


def _title(name: str, profile: Implementation) -> str:
    """The title of the implementation that a variant belongs to: a variant's ends with its parameters."""
    varied = _varied(name)
    return profile.title.partition(f", {varied[0]} ")[0] if varied else profile.title


def _varied(name: str) -> list[str]:
    return [part.partition("=")[0] for part in name.split("+")[1:]]


def _chosen(name: str, profile: Implementation) -> str:
    """The values of the parameters that a sweep varies, and the directory of one that is not pooled with others."""
    values = {key: as_text(profile.parameters[key]) for key in _varied(name) if key in profile.parameters}
    control = values.pop(CONGESTION_CONTROL, None)
    others = [_value(key, text) for key, text in values.items()]
    of_directory = "".join(f" ({part[3:]})" for part in name.split("+")[1:] if part.startswith("in="))
    return ", ".join([f" {_congestion_control(control)}" if control else "", *others]) + of_directory


def _congestion_control(name: str) -> str:
    return CONGESTION_CONTROLS.get(name) or (name.capitalize() if name in WORDS else name.upper())


def _value(key: str, text: str) -> str:
    """A parameter and its value: "segment 500 B", "ack threshold 2"."""
    words = key.split("_")
    try:
        number = float(text)
    except ValueError:
        return f"{' '.join(words)} {text}"
    if words[-1] in _UNITS and len(words) > 1:
        return f"{' '.join(words[:-1])} {_UNITS[words[-1]](int(number))}"
    if words[-1] in ("s", "ms") and len(words) > 1:
        return f"{' '.join(words[:-1])} {number_text(number)} {words[-1]}"
    return f"{' '.join(words)} {number_text(number)}"


OTHERWISE = "advertised differently"


def advertised_rates(records: Iterable[RunRecord]) -> dict[tuple[str, str], None]:
    """The advertised rates that differ from the channel's, each with the channel's, in order of the records."""
    return dict.fromkeys(
        (rate_text(record.advertised["rate_bps"]), rate_text(record.rate_bps))
        for record in records
        if "rate_bps" in record.advertised and record.advertised["rate_bps"] != record.rate_bps
    )


def advertised_delays(records: Iterable[RunRecord]) -> dict[tuple[str, str], None]:
    """The advertised one-way delays that differ from the channel's, each with the channel's, likewise."""
    return dict.fromkeys(
        (delay_text(advertised_ns), delay_text(record.delay_ns))
        for record in records
        if (advertised_s := record.advertised.get("one_way_delay_s")) is not None
        and (advertised_ns := round(advertised_s * 1e9)) != record.delay_ns
    )


def advertised_note(records: list[RunRecord]) -> str:
    """The one advertised value, or that there are several; "" if only the channel's values were advertised."""
    advertised = [value for value, _ in (*advertised_rates(records), *advertised_delays(records))]
    if not advertised:
        return ""
    return f"advertised {advertised[0]}" if len(set(advertised)) == 1 else OTHERWISE


MOST_JOURNAL_BYTES = 512_000_000
PERFORMED_AGAIN = "the run is omitted; 'owlt run' performs it again"


@dataclass(frozen=True)
class Run:
    """One run. `summary` is None if its captures have no summary, `view` if its messages were not decoded: they are for
    one repetition of each permutation."""

    record: RunRecord
    summary: CaptureSummary | None
    directory: Path
    view: ProtocolView | None = None
    doubts: tuple[str, ...] = ()
    """The problems of the files that belong to the run, a sentence each."""
    time: TimeAccount | None = None
    """Where the session time went; None if 'owlt why' has not computed it."""

    @cached_property
    def suspect(self) -> tuple[str, ...]:
        """The reasons for doubt about the run's numbers; empty for most runs."""
        of_captures = self.summary.suspect if self.summary else []
        sent_again = self.view.tcp.sent_again if self.view and self.view.tcp else None
        return reasons_for_doubt(self.record, of_captures, sent_again, self.doubts)

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
    profiles: dict[str, Implementation]
    """The profile of each implementation, by name, in the order of the sweep."""
    deliveries: dict[str, Delivery]
    """The deliveries of each implementation, by name, in the order of the report."""
    warnings: tuple[str, ...]
    """A sentence for each file in the directory that is damaged or unexpected."""
    performed: tuple[float, float] | None
    """The first and the last event of the journal, in s since 1970 on the wall clock; None if there is no event."""
    baseline: frozenset[str] = frozenset()
    """The runs of the baseline, by name."""
    order_of_repetitions: OrderOfRepetitions = "one after the other"
    unrecorded: tuple[PlanRun, ...] = ()
    """The planned runs that have no record."""
    sources: tuple[Source, ...] = ()
    """The directories that were combined; () if the runs are those of one sweep."""
    note: str = ""
    """What an operator noted about the sweep; "" if nothing."""
    left_out_pairs: Mapping[str, str] = field(default_factory=dict)
    """The pairs that are not possible, with the reason."""

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
    def accounts(self) -> dict[str, TimeAccount]:
        """The time account of each run that has one, by its id."""
        return {run.record.run_id: run.time for run in self.runs if run.time}

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The table of runs: a row for each planned run (`reports.results.rows`)."""
        from owlt.reports.results.rows import run_rows  # which is made of results

        return tuple(run_rows(self))

    @cached_property
    def rows_by_permutation(self) -> dict[Permutation, tuple[dict[str, Any], ...]]:
        """The rows of every permutation, in the order of their repetitions."""
        points = {run.record.run_id: run.record.permutation for run in self.runs}
        points |= {planned.run_id: planned.permutation for planned in self.unrecorded}
        rows: dict[Permutation, list[dict[str, Any]]] = {}
        for row in self.rows:
            rows.setdefault(points[row["run_id"]], []).append(row)
        return {point: tuple(of_point) for point, of_point in rows.items()}

    @cached_property
    def implementations(self) -> dict[str, str]:
        """The label of each implementation, with advertised values that differ, by name, in the order of the report."""
        records: dict[str, list[RunRecord]] = {permutation.implementation: [] for permutation in self.planned}
        for run in self.runs:
            records[run.record.implementation].append(run.record)
        notes = {name: advertised_note(of_name) for name, of_name in records.items()}
        return {name: self.labels[name] + (f" ({note})" if note else "") for name, note in notes.items()}

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each implementation (`reports.results.load`), by name."""
        return labels_of(self.profiles)

    @cached_property
    def series(self) -> dict[str, int]:
        """The number of each implementation in the sweep, which decides its looks, independently of outcomes."""
        return {name: number for number, name in enumerate(self.profiles) if name in self.implementations}

    @property
    def clock(self) -> str:
        """The one clock of all runs."""
        return self.runs[0].record.clock


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
        order_of_repetitions=plan.order_of_repetitions,
        unrecorded=_unrecorded(plan, runs),
        sources=_sources(directory / SOURCES_NAME),
        note=read_note(directory),
        left_out_pairs=plan.left_out_pairs,
    )


def _sources(path: Path) -> tuple[Source, ...]:
    try:
        return Sources.read(path).sources
    except FileNotFoundError:
        return ()


def _unrecorded(plan: WrittenPlan, runs: Iterable[Run]) -> tuple[PlanRun, ...]:
    recorded = {run.record.run_id for run in runs}
    return tuple(run for run in plan.runs if run.run_id not in recorded)


def _plan(directory: Path) -> WrittenPlan:
    try:
        return read_written_plan(directory / PLAN_NAME)
    except FileNotFoundError:
        problem, expected = f"is not a results directory (it has no {PLAN_NAME})", "one that 'owlt run' made"
        raise ReportError(Mistake(problem, expected, where=Place(str(directory)))) from None
    except DamagedFile as problem:
        raise ReportError(
            Mistake(f"{problem}", fix="remove it, and 'owlt run' with the sweep file of these results rewrites it")
        ) from problem


def _records(directory: Path, plan: WrittenPlan, warnings: list[str]) -> Iterator[tuple[Path, RunRecord]]:
    """The directory and the record of every run of the plan; warnings are appended for all other entries.

    Each has its place in the order of the present plan: the record's is that of the plan of its time.
    """
    planned = {run.run_id: run.permutation for run in plan.runs}
    orders = {run.run_id: run.order for run in plan.runs}
    runs = directory / RUNS
    for path in [runs / name for name in names_in(runs)]:
        if path.name not in planned or not is_plain_directory(path):
            warnings.append(f"{path}: not a run of this sweep, ignored; move it to another directory")
            continue
        try:
            record = read_reported_record(path)
        except FileNotFoundError:
            continue
        except DamagedFile as problem:
            warnings.append(f"{problem}; {PERFORMED_AGAIN}")
            continue
        if (record.run_id, record.permutation) == (path.name, planned[path.name]):
            yield path, record.model_copy(update={"order": orders[path.name]})
        else:
            warnings.append(f"{path / RECORD_NAME}: the record of another run, {record.run_id}; {PERFORMED_AGAIN}")


def _require_records(directory: Path, records: Mapping[Path, RunRecord]) -> None:
    if not records:
        raise ReportError(
            Mistake(
                f"no run has a record (runs/*/{RECORD_NAME}), so there is nothing to report",
                fix="run the sweep first, or name another results directory",
                where=Place(str(directory)),
            )
        )


def _run(directory: Path, record: RunRecord, channel: Channel) -> Run:
    doubts = doubts_about_files(directory, record, channel.problem)
    summary = load_summary(directory)
    if summary is not None and record.outcome != COMPLETED:
        summary = summary.of_no_file
    return Run(record, summary, directory, load_view(directory), doubts, load_account(directory))


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


def _channels(directory: Path, plan: WrittenPlan, permutations: list[Permutation]) -> dict[Permutation, Channel]:
    keys = {run.permutation: run.channel_key for run in plan.runs}
    certificates = {key: certificate_or_problem(directory, key) for key in set(keys.values())}
    return {
        point: Channel(key, point.channel_name, plan.channels[key], *certificates[key])
        for point in permutations
        for key in [keys[point]]
    }


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


def repetition_goodput(
    directory: Path, outcome: str, summary: Callable[[], CaptureSummary | None]
) -> tuple[float | None, ...]:
    """The goodput of the run in a directory, in bit/s; None in the tuple if it has none: it did not complete, or its
    captures have no summary.

    (): the goodput is not known, because the rig aborted the run or its captures have not been analysed yet.
    """
    if outcome == ABORTED:
        return ()
    if outcome != COMPLETED:
        return (None,)
    known = summary()
    if known is not None:
        return (known.goodput_bps,)
    return () if _is_analysis_awaited(directory) else (None,)


def _is_analysis_awaited(directory: Path) -> bool:
    return not (directory / FAILURE_NAME).exists() and all(is_plain(directory / name) for name in CAPTURES)


CPU_BOUND = "CPU-bound"
"""How a record says that a host may have limited a run."""


@dataclass(frozen=True)
class HostBaseline:
    """One implementation before and after a start of the sweep, which counts from 1; None: it was not performed."""

    start: int
    title: str
    load: str
    """What was sent: "100 MB", "10 s"."""
    before: Run | None
    after: Run | None

    @property
    def cpu_bound(self) -> list[str]:
        """Why a host, and not the link, may have been the limit; each sentence once."""
        runs = [run for run in (self.before, self.after) if run is not None]
        return list(dict.fromkeys(each for run in runs for each in run.record.suspect if each.startswith(CPU_BOUND)))


def host_baselines_of(directory: Path) -> tuple[HostBaseline, ...]:
    """The host baselines in a results directory, in the order of the starts."""
    starts = [path for path in directories_in(directory / BASELINES_NAME) if path.name.isdecimal()]
    return tuple(each for start in sorted(starts, key=lambda path: int(path.name)) for each in _of_start(start))


def _of_start(start: Path) -> Iterator[HostBaseline]:
    for kind in ("files", "iperf3"):
        before, after = (_runs(start / moment / kind) for moment in ("before", "after"))
        for name in dict.fromkeys([*before, *after]):
            runs = before.get(name), after.get(name)
            record = next(run.record for run in runs if run is not None)
            yield HostBaseline(int(start.name), record.title, record.permutation.load_text, *runs)


def _runs(directory: Path) -> dict[str, Run]:
    """The one run of each implementation; none if nothing can be read."""
    try:
        return {run.record.implementation: run for run in load_results(directory).runs}
    except ReportError:
        return {}
