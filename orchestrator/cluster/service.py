"""What a machine does for an `owlt run` elsewhere: it compares itself, performs jobs, and ends them if nobody asks.

Only one `owlt run` uses a machine at a time. Its lease ends when it has not called for a while, for example because it
was killed: then the machine's guests end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from owlt.orchestrator.cluster.jobs import Job, JobSetting, Report
from owlt.orchestrator.planning.clock import guests_side_by_side
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.provenance.machine import own_files
from owlt.orchestrator.provenance.provenance import Provenance, difference, differences
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.sweeping.machine import Machine
from owlt.orchestrator.workers.launching import Launcher

LEASE_S = 60.0
"""How long a user of the machine may be silent: it asks for reports every second while a job is performed."""
LEASE_PERIOD_S = 1.0


@dataclass(frozen=True)
class Opened:
    """A machine's answer to an `owlt run`: slots, or why it takes no runs."""

    slots: int = 0
    refusal: str = ""
    is_busy: bool = False
    """Whether another `owlt run` uses it: it may be free later."""


class SweepOnMachine:
    """One sweep on this machine: its launcher, its analyses and its jobs."""

    def __init__(self, plan: Plan, user: str, launch: Launcher, analyses: Executor, name: str) -> None:
        self.user = user
        self._setting = JobSetting(plan, launch, name, analyses)
        self._jobs: dict[str, Job] = {}
        self.asked_s = time.monotonic()

    def start(self, job: str, batch: Batch, slot: int, certificates: dict[str, Certified]) -> None:
        """Start a job."""
        self.asked_s = time.monotonic()
        self._jobs[job] = Job(batch, slot, certificates, self._setting)

    def reports(self, job: str, limit_s: float) -> list[Report]:
        """Its reports since the last call."""
        self.asked_s = time.monotonic()
        reports = self._jobs[job].reports(limit_s)
        if any(report.has_ended for report in reports):
            del self._jobs[job]
        return reports

    def stop(self, job: str) -> None:
        """End a job, if there is one of this name."""
        if job in self._jobs:
            self._jobs[job].stop()

    def end_jobs(self) -> None:
        """End all jobs, and forget them."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.stop()
        for job in jobs:
            job.join()
        self._jobs.clear()
        self.asked_s = time.monotonic()

    def close(self) -> None:
        """End all jobs, and what they share."""
        self.end_jobs()
        self._setting.launch.close()
        self._setting.analyses.shutdown(cancel_futures=True)


class Service:
    """This machine, as it serves others. Any thread may call it."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        cpus: list[int],
        lease_s: float = LEASE_S,
        note: Callable[[str], None] = print,
    ) -> None:
        """`note` gets a sentence whenever it takes or refuses a sweep."""
        self.name = name
        self._machine = machine
        self._cpus = cpus
        self._lease_s = lease_s
        self._note = note
        self._lock = threading.RLock()
        self._sweep: SweepOnMachine | None = None
        self._is_closed = threading.Event()
        threading.Thread(target=self._watch_lease, daemon=True).start()

    def open(self, user: str, plan_text: str, provenance_text: str) -> Opened:
        """Take the sweep of a user, if this machine has what it needs and is the same as the user's.

        Both texts are JSON: only the same version of owlt can read the plan for certain.
        """
        provenance = Provenance.model_validate_json(provenance_text)
        if unlike := difference("owlt", provenance.groups.get("owlt", {}), own_files()):
            return self._refused(user, f"it differs in {unlike}")
        plan = Plan.model_validate_json(plan_text)
        with self._lock:
            if self._sweep is not None and self._sweep.user != user:
                return Opened(refusal=f"it performs the sweep of {self._sweep.user}", is_busy=True)
            if self._sweep is None:
                if missing := self._machine.missing(plan):
                    return self._refused(user, "; ".join(map(str, missing)))
                launch = self._machine.launcher(plan, self._cpus)
                if phrases := differences(provenance, launch.provenance):
                    launch.close()
                    return self._refused(user, f"it differs in {'; '.join(phrases)}")
                analyses = self._machine.analysis_executor(plan)
                self._sweep = SweepOnMachine(plan, user, launch, analyses, self.name)
                self._note(f"performs runs of {plan.sweep.name} for {user}")
            else:
                self._sweep.end_jobs()  # the user lost the machine, and performs these batches again
            return Opened(slots=guests_side_by_side(plan.sweep.clock, len(self._cpus)))

    def sweep_of(self, user: str) -> SweepOnMachine:
        """The sweep of a user. Raises LookupError if the lease has ended."""
        with self._lock:
            if self._sweep is None or self._sweep.user != user:
                raise LookupError(f"{self.name} does not perform the sweep of {user} any more")
            return self._sweep

    def keep(self, user: str) -> None:
        """Extend the lease of a user."""
        self.sweep_of(user).asked_s = time.monotonic()

    def close(self, user: str) -> None:
        """End the sweep of a user."""
        with self._lock:
            sweep = self._sweep if self._sweep is not None and self._sweep.user == user else None
            if sweep is not None:
                sweep.close()
                self._sweep = None
                self._note(f"has ended the sweep of {user}")

    def shut_down(self) -> None:
        """End what it performs, for good."""
        self._is_closed.set()
        with self._lock:
            if self._sweep is not None:
                self.close(self._sweep.user)

    def _refused(self, user: str, reason: str) -> Opened:
        self._note(f"takes no runs of {user}: {reason}")
        return Opened(refusal=reason)

    def _watch_lease(self) -> None:
        while not self._is_closed.wait(LEASE_PERIOD_S):
            with self._lock:
                sweep = self._sweep
                if sweep is not None and time.monotonic() - sweep.asked_s > self._lease_s:
                    self._note(f"has heard nothing of {sweep.user} for {self._lease_s:g} s")
                    self.close(sweep.user)
