"""A job: one batch that a machine performs for `owlt run` elsewhere, with what it reports.

A report is a line of the worker, with the files that belong to it: those of the run or the certificate that the line
says is complete.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.process_directory import process_directory
from owlt.orchestrator.results.analysis import analyse_or_mark, note_machine_delay
from owlt.orchestrator.results.certificates import DIRECTORY_NAME, Certified
from owlt.orchestrator.results.record import read_record, write_record
from owlt.orchestrator.results.recorded_runs import RUNS
from owlt.orchestrator.rigs.waits import Waited
from owlt.orchestrator.sweeping.monitoring import silence_limit_s
from owlt.orchestrator.workers.events import ChannelCertified, RunEnded, RunStarted, event_in
from owlt.orchestrator.workers.launching import Launcher
from owlt.orchestrator.workers.process import Waits, Worker, WorkerHung

Files = dict[str, bytes]
"""The content of files by their path in the worker's directory."""


@dataclass(frozen=True)
class Report:
    """What a worker did: a line, or its end."""

    line: str = ""
    files: Files = field(default_factory=dict)
    has_ended: bool = False
    hung_s: float | None = None
    """If it ended because it reported nothing: for how long."""
    failure: str = ""
    """Why it could not be launched, or the machine could not perform it."""


@dataclass(frozen=True)
class JobSetting:
    """What the jobs of a sweep on one machine share."""

    plan: Plan
    launch: Launcher
    machine: str
    analyses: Executor
    launching: threading.Lock = field(default_factory=threading.Lock)
    """One job at a time launches its worker."""


class Job:
    """Performs a batch in a thread of its own, and holds its reports until they are fetched."""

    def __init__(self, batch: Batch, slot: int, certificates: dict[str, Certified], setting: JobSetting) -> None:
        self._batch = batch
        self._slot = slot
        self._certificates = certificates
        self._setting = setting
        self._reports: deque[Report] = deque()
        self._arrival = threading.Condition()
        self._worker: Worker | None = None
        self._is_stopped = False
        self._run_id: str | None = None
        self._waits: Waits | None = None
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._thread.start()

    def reports(self, limit_s: float) -> list[Report]:
        """All reports since the last call; waits until one has files or is the last, but no longer than `limit_s`."""
        with self._arrival:
            self._arrival.wait_for(lambda: any(_is_awaited(report) for report in self._reports), limit_s)
            reports = list(self._reports)
            self._reports.clear()
        return reports

    def stop(self) -> None:
        """Have its worker ended, without waiting for that."""
        with self._arrival:
            self._is_stopped = True
            worker = self._worker
        if worker is not None:
            threading.Thread(target=worker.end, daemon=True).start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _perform(self) -> None:
        end = Report(has_ended=True)
        try:
            with process_directory("job") as directory:
                self._report_lines(directory)
        except WorkerHung as hang:
            end = Report(has_ended=True, hung_s=hang.silence_s)
        except HostError as problem:
            end = Report(has_ended=True, failure=str(problem))
        except Exception as problem:  # such as a full disk: a fault of this machine, which another may not have
            end = Report(has_ended=True, failure=f"{self._setting.machine}: {type(problem).__name__}: {problem}")
        finally:
            self._put(end)

    def _report_lines(self, directory: Path) -> None:
        worker = self._launched(directory)
        try:
            for line in worker.lines(self._limit_s):
                self._put(Report(line, self._files(line, directory)))
        finally:
            worker.end()
            if self._waits is not None:
                self._waits.close()

    def _launched(self, directory: Path) -> Worker:
        with self._setting.launching:
            worker = self._setting.launch(self._batch, directory, self._slot, self._certificates)
        with self._arrival:
            self._worker = worker
            is_stopped = self._is_stopped
        if is_stopped:
            worker.end()
        self._waits = worker.waits() if self._setting.plan.sweep.clock == "real" else None
        return worker

    def _put(self, report: Report) -> None:
        with self._arrival:
            self._reports.append(report)
            self._arrival.notify_all()

    def _limit_s(self) -> float:
        return silence_limit_s(self._setting.plan, self._batch, self._run_id)

    def _files(self, line: str, directory: Path) -> Files:
        """What a line says is complete; a run is analysed first, so that cut captures are sent."""
        match event := event_in(line):
            case RunStarted():
                self._run_id = event.run_id
            case RunEnded():
                self._run_id = None
                run_directory = directory / RUNS / event.run_id
                self._conclude(run_directory)
                files = dict(_content(run_directory, directory))
                shutil.rmtree(run_directory)
                return files
            case ChannelCertified():
                certificate = directory / DIRECTORY_NAME / f"{event.channel}.json"
                return {str(certificate.relative_to(directory)): certificate.read_bytes()}
        return {}

    def _conclude(self, run_directory: Path) -> None:
        """Enter the machine and its delay into the record, and analyse the run in another process."""
        plan = self._setting.plan
        record = read_record(run_directory)
        write_record(record.model_copy(update={"machine": self._setting.machine}), run_directory)
        if plan.sweep.clock != "exact":
            note_machine_delay(run_directory, self._waited)
        dissectors = {name: each.dissector for name, each in plan.implementations.items()}
        analyse = partial(analyse_or_mark, keep=plan.sweep.keep_captures, dissectors=dissectors)
        self._setting.analyses.submit(analyse, run_directory).result()

    def _waited(self, first_ns: int, last_ns: int) -> Waited | None:
        return self._waits.between(first_ns, last_ns) if self._waits is not None else None


def _is_awaited(report: Report) -> bool:
    return bool(report.files) or report.has_ended


def _content(root: Path, relative_to: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(relative_to)), path.read_bytes()
