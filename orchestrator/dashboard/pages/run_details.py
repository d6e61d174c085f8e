"""The page of one run: its record, numbers, phases, ledger, certificate, and the files it left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.files.plain_files import files_in, open_plain
from owlt.captures.protocols.view import load_view
from owlt.orchestrator.dashboard.sweeps.rig_phases import RigPhase, rig_phases
from owlt.orchestrator.results.certificates import DIRECTORY_NAME, of_machine
from owlt.orchestrator.results.record import RECORD_NAME
from owlt.orchestrator.results.recorded_runs import run_directory
from owlt.reports.comparison.metrics import MEASURES, METRICS
from owlt.reports.page.certificates import CheckWords, check_words
from owlt.reports.results.channels import channel_head
from owlt.reports.results.load import Run
from owlt.reports.results.records import Certificate, Plan, Record, ReportError, WrittenChannel
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.run_numbers import ledger_rows
from owlt.reports.style.units import moment_text, size_text

PROGRAM_LOGS = ("sender.out", "sender.err", "receiver.out", "receiver.err")
"""What the programs wrote: the first logs of a page."""
LOG_ENDINGS = (".out", ".err", ".log")
"""Of all logs in a run's directory, also those of its captures, and of a worker that was lost (`console.log`)."""
MOST_LOGS = 24
LAST_LINES = 40
LOG_BYTES = 64_000


@dataclass(frozen=True)
class File:
    """A file in a run's directory."""

    name: str
    size: str


@dataclass(frozen=True)
class Log:
    """The end of what a program wrote."""

    name: str
    text: str
    is_cut: bool
    is_of_rig: bool
    """Whether the rig wrote it, not the programs that are compared."""


@dataclass(frozen=True)
class RunDetails:
    """What the page of a run shows; parts that the run does not have are empty."""

    record: Record
    channel: str
    facts: Sequence[tuple[str, str]]
    suspect: Sequence[str]
    numbers: Sequence[tuple[str, str]]
    phases: Sequence[tuple[str, str]]
    """Of the session, in the time of the rig's clock, since the first packet."""
    rig_phases: Sequence[RigPhase]
    ledger: Sequence[tuple[str, str, str]]
    certificate: Certificate | None
    checks: Sequence[CheckWords]
    logs: Sequence[Log]
    files: Sequence[File]


def run_details(results: Path, plan: Plan, run_id: str) -> RunDetails:
    """All that is known of a recorded run. Raises FileNotFoundError if it has no record, ReportError."""
    directory = run_directory(results, run_id)
    record = Record.read(directory / RECORD_NAME)
    summary = load_summary(directory)
    run = Run(record, summary, directory, load_view(directory))
    certificate = _certificate(results, record)
    return RunDetails(
        record=record,
        channel=channel_head(plan.channels.get(record.channel_key, WrittenChannel())),
        facts=_facts(record),
        suspect=run.suspect,
        numbers=_numbers(record, summary),
        phases=_phases(run),
        rig_phases=rig_phases(results, run_id),
        ledger=ledger_rows(summary.ledger_forward, summary.ledger_reverse) if summary else (),
        certificate=certificate,
        checks=[check_words(check) for check in certificate.checks] if certificate else (),
        logs=list(_logs(directory)),
        files=list(_files(directory)),
    )


def _facts(record: Record) -> list[tuple[str, str]]:
    duration_ns = (record.ended_at_ns or 0) - (record.started_at_ns or 0)
    facts = [
        ("implementation", record.title),
        ("version", record.versions.get("implementation", "")),
        ("repetition", str(record.repetition)),
        ("seed", str(record.seed)),
        ("rig, clock", f"{record.rig}, {record.clock}"),
        ("duration", moment_text(duration_ns // 10**6 * 10**6) if record.started_at_ns and record.ended_at_ns else ""),
        ("attempt", str(record.attempt) if record.attempt > 1 else ""),
        *((f"attempt {number}", why) for number, why in enumerate(record.earlier_attempts, start=1)),
        ("owlt", record.versions.get("owlt", "")),
        ("kernel", record.versions.get("kernel", "")),
    ]
    return [(name, value) for name, value in facts if value]


def _numbers(record: Record, summary: CaptureSummary | None) -> list[tuple[str, str]]:
    if summary is None or record.outcome != "completed":
        return []
    metrics = dict.fromkeys((*METRICS, *MEASURES))
    values = [(metric, metric.of_summary(summary)) for metric in metrics]
    return [(each.name, f"{each.text(value)} {each.unit}".rstrip()) for each, value in values if value is not None]


def _phases(run: Run) -> list[tuple[str, str]]:
    """When each phase of the session was reached; [] if it was not captured."""
    if run.summary is None or run.summary.first_packet_ns is None:
        return []
    if run.view is not None:
        return [(name, f"{value} s") for name, value in ShownRun(run.record.title, run, run.view).phases.items()]
    times_ns = {"file delivered": run.record.file_delivered_at_ns, "session end": run.summary.last_packet_ns}
    first_ns = run.summary.first_packet_ns
    return [(name, f"{(time_ns - first_ns) / 1e9:.3f} s") for name, time_ns in times_ns.items() if time_ns is not None]


def _certificate(results: Path, record: Record) -> Certificate | None:
    """The certificate that the run's machine measured; that of the results if the machine's is not kept."""
    key = record.channel_key
    for directory in (of_machine(results, record.machine), results):
        with suppress(OSError, ReportError, ValueError):
            return Certificate.read(directory / DIRECTORY_NAME / f"{key}.json") if key else None
    return None


def _logs(directory: Path) -> Iterator[Log]:
    """The logs that are not empty: those of the programs first, then those of the rig."""
    endings = [path.name for path in files_in(directory) if path.suffix in LOG_ENDINGS]
    names = [*PROGRAM_LOGS, *(name for name in endings if name not in PROGRAM_LOGS)]
    for name in names[:MOST_LOGS]:
        log = _log(directory / name)
        if log is not None:
            yield log


def _log(path: Path) -> Log | None:
    """The end of a log; None if there is none or it is empty."""
    try:
        with open_plain(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - LOG_BYTES, 0))
            lines = file.read(LOG_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    shown = lines[-LAST_LINES:]
    is_cut = size > LOG_BYTES or len(lines) > len(shown)
    return Log(path.name, "\n".join(shown), is_cut, path.name not in PROGRAM_LOGS) if lines else None


def _files(directory: Path) -> Iterator[File]:
    for path in files_in(directory):
        if not path.name.startswith("."):
            size_bytes = path.lstat().st_size
            yield File(path.name, size_text(size_bytes) if size_bytes else "empty")
