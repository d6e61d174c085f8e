"""The page of a run: its record, numbers, phases, ledger, certificate, the files it left, and its packets.

The phases of a run in the rig come from the journal: what its worker did, and for how long. They are not those of the
session, which the packets show: a rig also stages files, starts captures and fetches them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, abort, make_response, redirect, render_template, url_for
from werkzeug.wrappers import Response

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.protocols.view import load_view
from owlt.orchestrator.dashboard.child_processes import PacketView, PacketViews, TooMany, may_list
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.missing_packets import read_missing
from owlt.orchestrator.dashboard.sweep_pages import directory_of, file_answer, is_part, sweep_of
from owlt.orchestrator.run.events import Entry, PhaseStarted, RunEnded, RunPublished, RunRepeated, RunStarted
from owlt.orchestrator.sweep.journal import entries_in
from owlt.reports.comparison.metrics import MEASURES, METRICS
from owlt.reports.page.certificates import CheckWords, check_words
from owlt.reports.results.channels import channel_head
from owlt.reports.results.load import Run
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.run_text import ledger_rows
from owlt.reports.units import moment_text, size_text
from owlt.results.certificates import Certificate, certificate_or_problem, of_machine
from owlt.results.files import JOURNAL_NAME, ReportError, WrittenChannel, read_reported_record
from owlt.results.plain_files import files_in, is_plain, open_plain
from owlt.results.plan import WrittenPlan
from owlt.results.record import RunRecord
from owlt.results.recorded_runs import run_directory

LONGEST_LINE_BYTES = 1_000_000
LONGEST_JOURNAL_BYTES = 64_000_000
"""The part of a journal that is searched, from its end."""
BEFORE, AFTER = "before the first phase", "publish"


@dataclass(frozen=True)
class RigPhase:
    """A phase, and how long it took on this machine's clock."""

    name: str
    duration_s: float


def rig_phases(results: Path, run_id: str) -> Sequence[RigPhase]:
    """The phases of the latest time that a run was performed, in their order; [] if the journal does not have them."""
    began: list[tuple[str, float]] = []
    for entry in entries_in(_lines_of(results / JOURNAL_NAME, run_id)):
        if getattr(entry.event, "run_id", "") != run_id:
            continue  # of a run whose name begins in the same way
        name = _phase_that_begins(entry)
        if name == BEFORE:
            began = []
        if name is not None:
            began.append((name, entry.at_s))
    ends_s = [at_s for _, at_s in began[1:]]
    phases = [RigPhase(name, end_s - at_s) for (name, at_s), end_s in zip(began, ends_s, strict=False)]
    return [phase for phase in phases if phase.name != BEFORE or phase.duration_s > 0]


def _phase_that_begins(entry: Entry) -> str | None:
    """The phase that begins with an entry; "": the last one has ended; None: it has nothing to do with phases."""
    match entry.event:
        case RunStarted():
            return BEFORE
        case PhaseStarted(phase=phase):
            return phase
        case RunEnded():
            return AFTER
        case RunPublished() | RunRepeated():
            return ""
    return None


def _lines_of(journal: Path, run_id: str) -> Iterator[str]:
    """The lines of a journal that contain the name of a run."""
    name = run_id.encode()
    try:
        with open_plain(journal) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LONGEST_JOURNAL_BYTES, 0))
            for line in iter(lambda: file.readline(LONGEST_LINE_BYTES), b""):
                if name in line:
                    yield line.decode(errors="replace")
    except OSError:
        return


PROGRAM_LOGS = ("sender.out", "sender.err", "receiver.out", "receiver.err")
"""What the programs wrote: the first logs of a page."""
LOG_ENDINGS = (".out", ".err", ".log")
"""The names of all logs in a run's directory, including those of its captures, and of a lost worker (`console.log`)."""
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

    record: RunRecord
    channel: str
    facts: Sequence[tuple[str, str]]
    suspect: Sequence[str]
    numbers: Sequence[tuple[str, str]]
    phases: Sequence[tuple[str, str]]
    """The phases of the session, in the time of the rig's clock since the first packet."""
    rig_phases: Sequence[RigPhase]
    ledger: Sequence[tuple[str, str, str]]
    certificate: Certificate | None
    checks: Sequence[CheckWords]
    logs: Sequence[Log]
    files: Sequence[File]


def run_details(results: Path, plan: WrittenPlan, run_id: str) -> RunDetails:
    """The details of a recorded run. Raises FileNotFoundError if it has no record, ReportError."""
    directory = run_directory(results, run_id)
    record = read_reported_record(directory)
    summary = load_summary(directory)
    run = Run(record, summary, directory, load_view(directory))
    certificate = _certificate(results, record)
    return RunDetails(
        record=record,
        channel=channel_head(plan.channels.get(record.channel_key, WrittenChannel())),
        facts=_facts(record),
        suspect=run.suspect,
        numbers=_numbers(run),
        phases=_phases(run),
        rig_phases=rig_phases(results, run_id),
        ledger=ledger_rows(summary.ledger_forward, summary.ledger_reverse) if summary else (),
        certificate=certificate,
        checks=[check_words(check) for check in certificate.checks] if certificate else (),
        logs=list(_logs(directory)),
        files=list(_files(directory)),
    )


def _facts(record: RunRecord) -> list[tuple[str, str]]:
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


def _numbers(run: Run) -> list[tuple[str, str]]:
    values = [(metric, metric.of(run)) for metric in dict.fromkeys((*METRICS, *MEASURES))]
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


def _certificate(results: Path, record: RunRecord) -> Certificate | None:
    """The certificate that the run's machine measured; that of the results if the machine's is not kept."""
    key = record.channel_key
    for directory in (of_machine(results, record.machine), results):
        certificate = certificate_or_problem(directory, key)[0] if key else None
        if certificate is not None:
            return certificate
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


FIGURES = ("traces", "ladder")
TABLE = "packets.csv"
FATES = {
    "lost": "lost by the channel",
    "corrupted": "damaged by the channel",
    "queue": "dropped by a full queue",
    "mtu": "too long for the link",
    "in_flight": "in the emulator when the captures ended",
    "unrecognised": "arrived, but too damaged to be recognised",
    "undetermined": "did not arrive; the cause is unknown",
    "unexplained_missing": "did not arrive; no recorded drop",
}
"""The fates of packets that did not arrive as they were sent, in words."""


def add_run_pages(app: Flask, directories: Directories, views: PacketViews, lists: PacketViews) -> None:
    """Add them to the application. `lists` are of the packets that did not arrive, `views` complete analyses."""

    @app.get("/sweeps/<name>/runs/<run_id>/")
    def run(name: str, run_id: str) -> Response:
        index, snapshot = sweep_of(directories, name)
        directory = directory_of(index, snapshot, run_id)
        assert snapshot.plan is not None
        values = {
            "name": name,
            "run_id": run_id,
            "row": snapshot.rows[run_id],
            **_packet_values(directory, views.view(directory)),
            **_missing_values(directory, lists.view(directory)),
        }
        try:
            details = run_details(index.directory, snapshot.plan, run_id)
        except FileNotFoundError:
            return make_response(render_template("unrecorded.html", **values))
        except ReportError as problem:
            abort(409, str(problem))
        return make_response(render_template("run.html", details=details, **values))

    @app.get("/sweeps/<name>/runs/<run_id>/packets")
    def run_packets(name: str, run_id: str) -> Response:
        directory = directory_of(*sweep_of(directories, name), run_id)
        values = _packet_values(directory, views.view(directory))
        return make_response(render_template("packets.html", name=name, run_id=run_id, **values))

    @app.get("/sweeps/<name>/runs/<run_id>/missing")
    def run_missing(name: str, run_id: str) -> Response:
        """The list of packets; begins to make it if a page of the dashboard asks, which other sites cannot imitate."""
        directory = directory_of(*sweep_of(directories, name), run_id)
        view, must_wait = lists.view(directory), False
        if view is None and is_part() and _missing_count(load_summary(directory)) and may_list(directory):
            try:
                view = lists.request(directory)
            except TooMany:
                must_wait = True
        values = _missing_values(directory, view, must_wait)
        return make_response(render_template("missing.html", name=name, run_id=run_id, **values))

    @app.post("/sweeps/<name>/runs/<run_id>/packets")
    def analyse(name: str, run_id: str) -> Response:
        directory = directory_of(*sweep_of(directories, name), run_id)
        try:
            view = views.request(directory)
        except TooMany:
            abort(503, "too many analyses wait; try again when they are done")
        if is_part():
            values = _packet_values(directory, view)
            return make_response(render_template("packets.html", name=name, run_id=run_id, **values))
        return redirect(url_for("run", name=name, run_id=run_id, _anchor="packets"), 303)

    @app.get("/sweeps/<name>/runs/<run_id>/packets/<file>")
    def packet_file(name: str, run_id: str, file: str) -> Response:
        view = views.view(directory_of(*sweep_of(directories, name), run_id))
        if view is None or not view.is_ready:
            abort(404, "this run is not analysed; start the analysis on its page")
        return file_answer(view.directory, file)


def _packet_values(run: Path, view: PacketView | None) -> dict[str, object]:
    """The values of the part of the page that shows the analysis."""
    values = {"view": view, "has_captures": all(is_plain(run / name) for name in CAPTURES)}
    if view is None or not view.is_ready or view.problem:
        return {**values, "figures": (), "has_table": False}
    figures = [name for name in FIGURES if is_plain(view.directory / f"{name}.svg")]
    return {**values, "figures": figures, "has_table": is_plain(view.directory / TABLE)}


def _missing_values(run: Path, view: PacketView | None, must_wait: bool = False) -> dict[str, object]:
    """The values of the part of the page that lists the packets which did not arrive as they were sent."""
    summary = load_summary(run)
    return {
        "missing_view": view,
        "missing_count": _missing_count(summary),
        "unseen_count": _unseen_count(summary),
        "may_list_missing": may_list(run),
        "must_wait": must_wait,
        "missing": read_missing(view.directory) if view is not None and view.is_ready else None,
        "fates": FATES,
    }


def _missing_count(summary: CaptureSummary | None) -> int | None:
    """How many of the packets that did not arrive as they were sent can be listed; None if the run has no summary."""
    if summary is None:
        return None
    ledgers = (summary.ledger_forward, summary.ledger_reverse)
    return sum(each.sent - each.delivered - each.corrupted_unseen for each in ledgers)


def _unseen_count(summary: CaptureSummary | None) -> int:
    """How many packets were corrupted beyond their captured bytes: the emulator counted them, but nothing shows which
    they are.
    """
    if summary is None:
        return 0
    return summary.ledger_forward.corrupted_unseen + summary.ledger_reverse.corrupted_unseen
