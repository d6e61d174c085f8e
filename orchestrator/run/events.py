"""The events of a sweep: a frozen type for each, with one encoder and one decoder.

A worker reports its events on standard output, a line each, and the supervisor adds its own. All of them are lines of
the journal; only the supervisor can time them, because a worker may run on a virtual clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from owlt.results.record import Outcome, ReasonCode

EVENT_MARK = "@owlt "
"""Begins each line of a worker that is an event; other lines are its console's."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RigStarting(_Event):
    """A worker has started and raises its rig."""

    event: Literal["connect"] = "connect"


class CertificationStarted(_Event):
    """A worker starts to measure a channel."""

    event: Literal["certify"] = "certify"
    channel: str


class ChannelCertified(_Event):
    """A channel's certificate is written."""

    event: Literal["certified"] = "certified"
    channel: str
    verdict: str


class RunStarted(_Event):
    """A worker starts a run."""

    event: Literal["run"] = "run"
    run_id: str


class PhaseStarted(_Event):
    """A run enters a phase, such as "transfer"."""

    event: Literal["phase"] = "phase"
    run_id: str
    phase: str


class RunEnded(_Event):
    """A run has its record, in the worker's directory."""

    event: Literal["done"] = "done"
    run_id: str
    outcome: Outcome
    reason: str


class BatchEnded(_Event):
    """A worker has performed its batch and taken its rig down."""

    event: Literal["end"] = "end"


class RigFailed(_Event):
    """A worker's rig failed; the worker ends."""

    event: Literal["failed"] = "failed"
    reason: str


class Heartbeat(_Event):
    """A run is still going on: on a virtual clock, an implementation that polls is slow and does not hang."""

    event: Literal["alive"] = "alive"


WorkerEvent = (
    RigStarting
    | CertificationStarted
    | ChannelCertified
    | RunStarted
    | PhaseStarted
    | RunEnded
    | BatchEnded
    | RigFailed
    | Heartbeat
)
"""The events that a worker reports."""


class SweepStarted(_Event):
    """A start of the sweep begins; its process holds the lock of the results directory."""

    event: Literal["start"] = "start"
    host: str
    pid: int
    steady_s: float | None = None
    """The time since this machine was booted; None in a journal of an older version."""


class SweepEnded(_Event):
    """A start of the sweep has ended all workers, after its last run, an interrupt or a problem."""

    event: Literal["stop"] = "stop"
    problem: str = ""


class WorkerStarted(_Event):
    """A worker is launched on one of the slots."""

    event: Literal["boot"] = "boot"
    slot: int = 0
    machine: str = ""
    """The name of another machine that the worker runs on."""


class WorkerLost(_Event):
    """A worker ended before its batch was done, and no run was the reason; another takes its place."""

    event: Literal["lost"] = "lost"
    reason: str


class SweepPaused(_Event):
    """No run is started until the sweep is resumed."""

    event: Literal["pause"] = "pause"


class SweepResumed(_Event):
    """Runs are started again."""

    event: Literal["resume"] = "resume"


class QuietAwaited(_Event):
    """The next worker is launched when the machine is quiet."""

    event: Literal["wait"] = "wait"


class ChannelDisturbed(_Event):
    """A channel failed certification while the machine was busy; it is measured once more."""

    event: Literal["recertify"] = "recertify"
    channel: str
    verdict: str = ""


class RunRepeated(_Event):
    """An attempt at a run was set aside; the run is performed again."""

    event: Literal["retry"] = "retry"
    run_id: str
    outcome: Outcome
    code: ReasonCode | None = None
    reason: str = ""
    attempt: int = 1
    fault: str = ""


class ImplementationQuarantined(_Event):
    """An implementation failed too often in a row; its remaining runs are recorded without being performed."""

    event: Literal["quarantine"] = "quarantine"
    implementation: str
    reason: str


class RunPublished(_Event):
    """A run is recorded in the results directory."""

    event: Literal["published"] = "published"
    run_id: str
    outcome: Outcome
    code: ReasonCode | None = None
    reason: str = ""
    attempt: int = 1


class RunAnalysed(_Event):
    """The analysis of a published run has ended."""

    event: Literal["analysed"] = "analysed"
    run_id: str
    problem: str = ""
    """Why it failed, or has no protocol view; "" if it succeeded."""


class RepetitionsDue(_Event):
    """Which runs of adaptive repetitions are performed follows from the results so far."""

    event: Literal["due"] = "due"
    runs: int
    """The runs of this start that are due or recorded; more may become due."""


class SweepInterrupted(_Event):
    """Ctrl-C or SIGTERM, for the first, second, ... time."""

    event: Literal["interrupted"] = "interrupted"
    times: int


Event = (
    WorkerEvent
    | SweepStarted
    | SweepEnded
    | WorkerStarted
    | WorkerLost
    | QuietAwaited
    | ChannelDisturbed
    | RunRepeated
    | ImplementationQuarantined
    | RunPublished
    | RunAnalysed
    | RepetitionsDue
    | SweepInterrupted
    | SweepPaused
    | SweepResumed
)

_DECODER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


@dataclass(frozen=True)
class Entry:
    """An event with its time (s since 1970, of this machine) and the batch of its worker; None if it has none."""

    at_s: float
    batch: int | None
    event: Event


Observe = Callable[[Entry], None]


def encode(event: Event) -> dict[str, Any]:
    """An event as JSON values: its name under `event`, then its fields."""
    return event.model_dump(mode="json")


def decode(values: Mapping[str, Any]) -> Event:
    """The event of JSON values; keys that it does not have are ignored. Raises ValueError if it is none."""
    return _DECODER.validate_python(dict(values))


def worker_line(event: WorkerEvent) -> str:
    """An event as a worker's line, without its end."""
    return EVENT_MARK + json.dumps(encode(event))


def event_in(line: str) -> Event | None:
    """The event that a worker's line reports; None if the line is its console's, or damaged."""
    if not line.startswith(EVENT_MARK):
        return None
    try:
        return decode(json.loads(line.removeprefix(EVENT_MARK)))
    except (ValueError, TypeError):
        return None
