"""The journal of a results directory: an event a line, appended by every start of the sweep; read even if damaged.

`Activities` follow from its entries: what the workers of a sweep do now, and how fast it advances.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from pydantic_core import from_json

from owlt.orchestrator.run.events import (
    BatchEnded,
    CertificationStarted,
    ChannelCertified,
    ChannelDisturbed,
    Entry,
    Event,
    Observe,
    PhaseStarted,
    QuietAwaited,
    RigFailed,
    RigStarting,
    RunEnded,
    RunPublished,
    RunRepeated,
    RunStarted,
    SweepEnded,
    SweepResumed,
    SweepStarted,
    WorkerLost,
    WorkerStarted,
    decode,
    encode,
)
from owlt.orchestrator.steady_clock import SteadyTime
from owlt.results.files import JOURNAL_NAME
from owlt.results.plain_files import open_in_place


class Journal:
    """Appends events with their times, and passes them on to an observer. Any thread may note one.

    The times continue evenly if the machine's clock is set while a sweep runs.
    """

    def __init__(self, file: IO[str], observe: Observe) -> None:
        self._now_s = SteadyTime()
        self._file = file
        self._observe = observe
        self._lock = threading.Lock()

    def note(self, batch: int | None, event: Event) -> None:
        """Append an event that has just happened."""
        entry = Entry(self._now_s(), batch, event)
        with self._lock:
            self._file.write(json.dumps({"at_s": round(entry.at_s, 4), "batch": entry.batch, **encode(event)}) + "\n")
        self._observe(entry)


@contextmanager
def open_journal(results: Path, observe: Observe) -> Iterator[Journal]:
    """The journal of a results directory, for appending."""
    with open_in_place(results / JOURNAL_NAME, "a") as file:
        yield Journal(file, observe)


def entries_in(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of a journal's lines. Those that are cut, damaged or of unknown events are skipped."""
    for line in lines:
        try:
            values = from_json(line)
            batch = values["batch"]
            entry = Entry(float(values["at_s"]), None if batch is None else int(batch), decode(values))
        except (ValueError, LookupError, TypeError):
            continue
        yield entry


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
    """The time of the latest start since the machine was booted."""
    started_s: float | None = None
    """The time of the latest start; None if the journal has none, such as that of an older version."""
    ended_s: float | None = None
    """When that start ended on its own or after an interrupt; None if it is running or was killed."""
    latest_s: float | None = None
    """The time of the latest entry."""
    paced_from_s: float | None = None
    """When the latest start began to perform runs only: at its begin, when it was resumed, or when this machine
    certified its last channel, because certifications say nothing about the time of runs."""
    published_s: list[float] = field(default_factory=list)
    """When runs were published since then."""

    def take(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.latest_s = entry.at_s
        match entry.event:
            case SweepStarted(steady_s=steady_s):
                self.started_steady_s = steady_s
                self.by_batch.clear()
                self.published_s.clear()
                self.started_s, self.ended_s = entry.at_s, None
                self.paced_from_s = entry.at_s
            case SweepEnded():
                self.by_batch.clear()
                self.ended_s = entry.at_s
            case RunPublished():
                self.published_s.append(entry.at_s)
            case SweepResumed():
                self.published_s.clear()
                self.paced_from_s = entry.at_s
            case ChannelCertified() if self._is_here(entry.batch):
                self.published_s.clear()
                self.paced_from_s = entry.at_s
        if entry.batch is not None:
            self._take_of_worker(entry.batch, entry)

    def _is_here(self, batch: int | None) -> bool:
        """Whether the worker of a batch runs on this machine; others certify channels while runs are performed."""
        known = None if batch is None else self.by_batch.get(batch)
        return known is not None and not known.machine

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
