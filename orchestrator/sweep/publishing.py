"""Publishing: what a worker has left in its directory takes its place in the results directory, or is set aside.

An attempt at a run that is repeated is set aside in `attempts/RUN/N/` of the results directory. Its record and logs
stay, its captures do not: they show a fault of the rig, not the channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.run.analysis import Analyses
from owlt.orchestrator.run.events import ChannelCertified, ImplementationQuarantined, RunPublished, RunRepeated
from owlt.orchestrator.run.same_failures import ATTEMPTS, note_captures
from owlt.orchestrator.run.task import planned_record
from owlt.orchestrator.sweep.journal import Journal
from owlt.orchestrator.sweep.scheduling import Quarantine, Scheduler
from owlt.results.certificates import certified, of_machine
from owlt.results.files import CERTIFICATES
from owlt.results.judgements import disturbance, fault, reason_code
from owlt.results.plain_files import (
    directories_in,
    files_in,
    is_plain,
    make_directory,
    move,
    read_plain,
    remove,
    remove_tree,
    write_whole,
)
from owlt.results.record import RECORD_NAME, Outcome, ReasonCode, RunRecord, read_record, write_record
from owlt.results.recorded_runs import RUNS, UNPUBLISHED

SEED_NAME = "seed"
MOST_SEED_BYTES = 100
"""Beside the attempts: the seed of a run that is performed again with another one, also by a later start."""


def set_aside(results: Path, run_directory: Path) -> Path:
    """Move a run's directory to its earlier attempts, without its captures. Returns where it is now."""
    of_run = results / ATTEMPTS / run_directory.name
    make_directory(of_run)
    with suppress(ResultsConflict, OSError):  # its record is damaged
        note_captures(run_directory, read_record(run_directory))
    for capture in files_in(run_directory, ".pcap"):
        remove(capture)
    place = of_run / str(1 + max(_numbers(of_run), default=0))
    move(run_directory, place)
    return place


def reasons(results: Path, run_id: str) -> list[str]:
    """Why each earlier attempt at a run was repeated, oldest first."""
    of_run = results / ATTEMPTS / run_id
    return [_reason(of_run / str(number)) for number in sorted(_numbers(of_run))]


def note_seeds(results: Path, run_ids: Iterable[str], new_seeds: Mapping[str, int]) -> None:
    """Note the seeds of runs that are performed again; a run that is not in `new_seeds` has that of the plan."""
    for run_id in run_ids:
        place = results / ATTEMPTS / run_id / SEED_NAME
        if run_id in new_seeds:
            make_directory(place.parent)
            write_whole(place, f"{new_seeds[run_id]}\n")
        else:
            remove(place)


def noted_seeds(results: Path) -> dict[str, int]:
    """The seeds that take the place of the plan's, by run, until the run is performed again with another one."""
    places = [directory / SEED_NAME for directory in directories_in(results / ATTEMPTS)]
    return {place.parent.name: int(read_plain(place, MOST_SEED_BYTES)) for place in places if is_plain(place)}


def number_record(results: Path, run_directory: Path) -> RunRecord:
    """Write into a new run's record which attempt it is, and what later ones are compared with. Returns the record."""
    record = note_captures(run_directory, read_record(run_directory))
    earlier = reasons(results, record.run_id)
    if earlier:
        numbers = {"attempt": 1 + len(earlier), "earlier_attempts": earlier}
        record = record.model_copy(update=numbers)
        write_record(record, run_directory)
    return record


def _numbers(of_run: Path) -> list[int]:
    return [int(path.name) for path in directories_in(of_run) if path.name.isdecimal()]


def _reason(directory: Path) -> str:
    try:
        record = read_record(directory)
    except (ResultsConflict, OSError):
        return f"{ReasonCode.DAMAGED}: {RECORD_NAME} was missing or damaged"
    why = record.reason or (disturbance(record.machine_delay) if record.machine_delay else "")
    ended = f"{record.outcome} ({reason_code(record)})" if reason_code(record) else str(record.outcome)
    return f"{ended}: {why}" if why else ended


class Publisher:
    """Moves runs and certificates into a results directory: each by one rename, so all there are complete."""

    def __init__(
        self,
        plan: Plan,
        results: Path,
        scheduler: Scheduler,
        quarantine: Quarantine,
        journal: Journal,
        analyses: Analyses,
    ) -> None:
        self.results = results
        self._scheduler = scheduler
        self._journal = journal
        self._analyses = analyses
        self._plan = plan
        self._quarantine = quarantine
        self._runs = {run.run_id: run for run in plan.runs}

    def prepare(self) -> None:
        """Make the directories, and remove what workers of an earlier start left."""
        make_directory(self.results / RUNS)
        make_directory(self.results / CERTIFICATES)
        self.remove_workers()

    def worker_directory(self, batch: int, slot: int) -> Path:
        """A new directory for a worker."""
        directory = self.results / UNPUBLISHED / f"{batch}-{slot}"
        remove_tree(directory)
        make_directory(directory)
        return directory

    def remove_workers(self) -> None:
        """Remove all directories of workers."""
        remove_tree(self.results / UNPUBLISHED)

    def publish_run(self, run_directory: Path, batch: int, wall_s: float = 0.0) -> None:
        """Publish a run, which took so much wall time, and start its analysis; or set it aside if it is repeated."""
        run_id = run_directory.name
        record = number_record(self.results, run_directory)
        ending = {
            "run_id": run_id,
            "outcome": record.outcome,
            "code": reason_code(record),
            "reason": record.reason,
            "attempt": record.attempt,
        }
        if self._scheduler.count_attempt(record):
            set_aside(self.results, run_directory)
            self._journal.note(batch, RunRepeated(**ending, fault=fault(record)))
            return
        place = self.results / RUNS / run_id
        take_place(run_directory, place)
        self._scheduler.finish(run_id)
        self._journal.note(batch, RunPublished(**ending))
        self._analyses.start(place)
        if reason := self._quarantine.take(self._runs[run_id], record, wall_s):
            self._journal.note(batch, ImplementationQuarantined(implementation=record.implementation, reason=reason))

    def publish_quarantined(self, runs: list[Run], batch: int) -> list[Run]:
        """Record those of some runs whose implementations are in quarantine. Returns the others."""
        launched = []
        for run in runs:
            reason = self._quarantine.reason(run)
            if not reason:
                launched.append(run)
                continue
            implementation = self._plan.implementations[run.permutation.implementation]
            certificate = certified(self.results, {run.channel_key}).get(run.channel_key)
            outcome, code = Outcome.QUARANTINED, ReasonCode.QUARANTINED
            record = planned_record(run, self._plan.sweep, implementation, certificate, outcome, code, reason)
            directory = self.results / UNPUBLISHED / f"quarantined-{run.run_id}"
            make_directory(directory)
            write_record(record, directory)
            take_place(directory, self.results / RUNS / run.run_id)
            self._scheduler.finish(run.run_id)
            ending = {"run_id": run.run_id, "outcome": outcome, "code": code, "reason": reason}
            self._journal.note(batch, RunPublished(**ending))
        return launched

    def publish_certificate(
        self, worker_directory: Path, event: ChannelCertified, batch: int, machine: str = ""
    ) -> None:
        """Publish a channel's certificate; the first of several machines is that of the results, too."""
        self._journal.note(batch, event)
        name = f"{event.channel}.json"
        certificate = worker_directory / CERTIFICATES / name
        of_results = self.results / CERTIFICATES / name
        if machine:
            place = of_machine(self.results, machine) / CERTIFICATES
            make_directory(place)
            write_whole(place / name, read_plain(certificate))
        if not (machine and of_results.exists()):
            take_place(certificate, of_results)

    def keep_console(self, worker_directory: Path, batch: int) -> Path:
        """Copy the console log of a worker whose rig failed to the results. Returns the copy."""
        log = self.results / f"failed-batch-{batch}.log"
        return write_whole(log, read_plain(worker_directory / "console.log"))


def take_place(path: Path, target: Path) -> None:
    """Rename a file or directory; it replaces anything of that name."""
    if path.is_dir() or target.is_dir():
        remove_tree(target)
    move(path, target)
