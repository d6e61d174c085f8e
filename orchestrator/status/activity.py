"""What the workers of a sweep do now, and how fast it advances, from the entries of its journal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from owlt.orchestrator.workers.events import (
    BatchEnded,
    CertificationStarted,
    ChannelCertified,
    ChannelDisturbed,
    Entry,
    PhaseStarted,
    QuietAwaited,
    RigFailed,
    RigStarting,
    RunEnded,
    RunPublished,
    RunRepeated,
    RunStarted,
    SweepEnded,
    SweepStarted,
    WorkerLost,
    WorkerStarted,
)


@dataclass(frozen=True)
class Activity:
    """What one worker does. Times are s since 1970."""

    batch: int
    slot: int
    what: str
    """In words: "boot", "raise the rig", "certify", "perform", "publish", "wait for a quiet machine"."""
    since_s: float
    run_id: str = ""
    """The run that it performs; "": none."""
    channel: str = ""
    """The key of the channel that it certifies; "": none."""
    phase: str = ""
    """The phase of the run, such as "transfer"."""
    phase_since_s: float | None = None
    machine: str = ""
    """The name of another machine that the worker runs on; "": that of `owlt run`."""


@dataclass
class Activities:
    """The activities of a sweep's latest start; `take` takes in the journal's entries in their order."""

    by_batch: dict[int, Activity] = field(default_factory=dict)
    started_steady_s: float | None = None
    """The same, since the machine was booted."""
    started_s: float | None = None
    """The time of the latest start; None if the journal has none, such as that of an older version."""
    ended_s: float | None = None
    """When that start ended on its own or after an interrupt; None if it is running or was killed."""
    latest_s: float | None = None
    """The time of the latest entry."""
    published_s: list[float] = field(default_factory=list)
    """When the runs of the latest start were published."""

    def take(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.latest_s = entry.at_s
        match entry.event:
            case SweepStarted(steady_s=steady_s):
                self.started_steady_s = steady_s
                self.by_batch.clear()
                self.published_s.clear()
                self.started_s, self.ended_s = entry.at_s, None
            case SweepEnded():
                self.by_batch.clear()
                self.ended_s = entry.at_s
            case RunPublished():
                self.published_s.append(entry.at_s)
        if entry.batch is not None:
            self._take_of_worker(entry.batch, entry)

    def _take_of_worker(self, batch: int, entry: Entry) -> None:
        known = self.by_batch.get(batch)
        idle = Activity(batch, known.slot if known else 0, "boot", entry.at_s, machine=known.machine if known else "")
        match event := entry.event:
            case QuietAwaited():
                self.by_batch[batch] = replace(idle, what="wait for a quiet machine")
            case WorkerStarted():
                self.by_batch[batch] = Activity(batch, event.slot, "boot", entry.at_s, machine=event.machine)
            case RigStarting():
                self.by_batch[batch] = replace(idle, what="raise the rig")
            case CertificationStarted():
                self.by_batch[batch] = replace(idle, what="certify", channel=event.channel)
            case RunStarted():
                self.by_batch[batch] = replace(idle, what="perform", run_id=event.run_id)
            case PhaseStarted() if known and known.run_id == event.run_id:
                self.by_batch[batch] = replace(known, phase=event.phase, phase_since_s=entry.at_s)
            case RunEnded() if known and known.run_id == event.run_id:
                self.by_batch[batch] = replace(known, what="publish", phase="", phase_since_s=entry.at_s)
            case ChannelCertified() | ChannelDisturbed() if known and known.channel == event.channel:
                self.by_batch[batch] = idle
            case RunPublished() | RunRepeated() | BatchEnded() | RigFailed() | WorkerLost():
                self.by_batch.pop(batch, None)
