"""What a worker is doing and has left to do, from its events."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from owlt.orchestrator.planning.plan import Batch, Run
from owlt.orchestrator.workers.events import (
    CertificationStarted,
    ChannelCertified,
    Event,
    PhaseStarted,
    RigFailed,
    RunEnded,
    RunStarted,
)

POWER_OFF = re.compile(r"sysrq: Power Off|reboot: Power down")
"""A guest's last words if it ends as it should."""


@dataclass
class WorkerState:
    """The state of one worker; `take` changes it."""

    waiting: dict[str, Run]
    """Runs without a record, by id."""
    uncertified: list[str]
    """Channels without a certificate, by key."""
    certifying_since_ns: int = 0
    run_id: str | None = None
    """The run that is being performed."""
    phase: str = ""
    failure: str = ""
    """Why its rig failed."""
    console: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, batch: Batch) -> WorkerState:
        """The state of a worker that has yet to begin a batch."""
        return cls({run.run_id: run for run in batch.runs}, list(batch.certify))

    def take(self, event: Event, now_ns: int) -> None:
        """Take in an event that arrived at a time."""
        match event:
            case CertificationStarted():
                self.certifying_since_ns = now_ns
            case ChannelCertified():
                self.uncertified.remove(event.channel)
            case RunStarted():
                self.run_id = event.run_id
            case PhaseStarted():
                self.phase = event.phase
            case RunEnded():
                del self.waiting[event.run_id]
                self.run_id = None
            case RigFailed():
                self.failure = event.reason

    @property
    def is_unfinished(self) -> bool:
        """Whether something of its batch is left."""
        return bool(self.waiting or self.uncertified)

    @property
    def is_computing(self) -> bool:
        """Whether the run is in a phase in which the implementation's programs run."""
        return self.phase in ("launch", "transfer")

    @property
    def last_line(self) -> str:
        """The last line of its console, beside what a guest prints when it powers off."""
        lines = [line.strip() for line in self.console if line.strip() and not POWER_OFF.search(line)]
        return lines[-1] if lines else "it wrote nothing"
