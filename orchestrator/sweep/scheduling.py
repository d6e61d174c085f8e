"""Scheduling: what the next worker of a batch performs, which runs and channels are repeated, and when to give up.

Nothing here starts a worker or touches a file. `Scheduler` decides about attempts, `Quarantine` about implementations
that fail again and again, and `Deadline` about the end of this start of the sweep.

An implementation may fail at many points of a grid for good reasons: an unreliable protocol on a channel with losses.
So a series of failures counts only if the implementation has never completed a run, if it fails where it had completed
one, or if it costs much time: its programs hung, or timed out for more than LONGEST_SERIES_S.

Batches are in the order of the plan, repetition by repetition. So the runs that a deadline leaves to a later start are
those of the last repetitions, and every cell has the same number of runs, or one less; where repetitions share their
start, up to as many less as follow each other.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from owlt.agents.contract.implementation import Clock
from owlt.inputs.mistake import Invalid, Mistake, got
from owlt.orchestrator.planning.estimate import WITHOUT_RECORDS, Pace, batch_wall_s, duration_text
from owlt.orchestrator.planning.plan import Batch, Run
from owlt.orchestrator.rigs.processor_time import PATIENCE_S, Patience
from owlt.orchestrator.steady_clock import steady_s
from owlt.results.judgements import is_repeated_now, needs_quiet
from owlt.results.record import Outcome, ReasonCode, RunRecord

WORKERS_PER_START = 3
"""A start of the sweep gives up when so many workers of a batch are lost outside of runs that it has yet to perform."""


BACK_OFF_S = (5.0, 60.0)
"""Waits before the second and the third worker after a fault of the rig: what it needs may be scarce for a moment."""


class Scheduler:
    """The state of one start of a sweep: runs done, attempts, losses.

    Each worker's thread calls it for its own batch only, so it needs no lock.
    """

    def __init__(self, done: set[str], patience: Patience, back_off_s: Sequence[float] = BACK_OFF_S) -> None:
        """`done` are the runs whose records stand."""
        self._done = done
        self.patience = patience
        """Limits the wait for a quiet machine."""
        self._attempts: Counter[str] = Counter()
        self._aborted: Counter[str] = Counter()
        """Attempts that a fault of the rig ended."""
        self._back_off_s = back_off_s
        self._rig_losses: Counter[int] = Counter()
        self._disturbed: set[str] = set()
        """Runs that are performed again when the machine is quiet."""
        self._certified_again: set[str] = set()
        """Channels that are measured a second time, which is the last."""

    def undone(self, batches: Iterable[Batch]) -> list[Batch]:
        """The batches with runs that are not done."""
        return [batch for batch in batches if any(run.run_id not in self._done for run in batch.runs)]

    def next_part(self, batch: Batch, clock: Clock) -> Batch | None:
        """The part of a batch that its next worker performs, of repetitions on the exact clock one run; None if all of
        its runs are done."""
        runs = [run for run in batch.runs if run.run_id not in self._done]
        if runs and clock == "exact" and len({run.permutation for run in batch.runs}) == 1:
            return batch.model_copy(update={"runs": runs[:1]})
        return batch.model_copy(update={"runs": runs}) if runs else None

    def needs_quiet(self, batch: Batch) -> bool:
        """Whether a batch has a run or a channel that was disturbed and is repeated when the machine is quiet."""
        return bool(self._disturbed & {run.run_id for run in batch.runs} or self._certified_again & set(batch.certify))

    def back_off_s(self, batch: Batch) -> float:
        """How long to wait before the next worker of a batch: longer after each fault of the rig, 0 without one."""
        aborted = max((self._aborted[run.run_id] for run in batch.runs if run.run_id not in self._done), default=0)
        faults = aborted + self._rig_losses[batch.index]
        return self._back_off_s[min(faults, len(self._back_off_s)) - 1] if faults else 0.0

    def count_attempt(self, record: RunRecord) -> bool:
        """Count an attempt at a run. Returns whether the run is repeated; if not, it is done."""
        run_id = record.run_id
        self._attempts[run_id] += 1
        self._aborted[run_id] += record.outcome is Outcome.ABORTED
        is_in_vain = needs_quiet(record) and self.patience.is_used_up
        if is_repeated_now(record, self._attempts[run_id]) and not is_in_vain:
            if needs_quiet(record):
                self._disturbed.add(run_id)
            return True
        self._disturbed.discard(run_id)
        return False

    def finish(self, run_id: str) -> None:
        """A run is recorded in the results directory."""
        self._done.add(run_id)

    def may_certify_again(self, channel: str) -> bool:
        """Whether a disturbed channel is measured once more."""
        return channel not in self._certified_again and not self.patience.is_used_up

    def certify_again(self, channel: str) -> None:
        """Measure a channel once more, when the machine is quiet."""
        self._certified_again.add(channel)

    def count_rig_loss(self, batch: int) -> bool:
        """A worker was lost outside of a run. Returns whether another takes its place."""
        self._rig_losses[batch] += 1
        return self._rig_losses[batch] < WORKERS_PER_START


LONGEST_SERIES_S = 3600.0
"""Wall time of a series after which its timed-out runs count in any cell."""
FAILURES_PER_HANG = 4
"""A hang is found by a long silence in wall time, and so counts as so many failures."""
COUNTED = (Outcome.FAILED, Outcome.TIMED_OUT)
"""The outcomes that count as failures; others show that packets passed, or are not caused by the implementation."""
ENDING = (Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.CORRUPT)
"""The outcomes that end a series: the receiver has some data."""


@dataclass(frozen=True)
class Failure:
    """A failed run of a series."""

    cell: str
    run_id: str
    is_timed_out: bool
    is_hung: bool
    wall_s: float


class Quarantine:
    """The series of failures of each implementation, and those that are in quarantine.

    Each method is one step for the interpreter's threads, or concerns one implementation of the calling thread's run;
    a lost increment would only make a series longer by one.
    """

    def __init__(self, after: int, completed: Iterable[tuple[str, str]]) -> None:
        """`after` so many failures in a row; 0: never. `completed` are implementations and cells with a completion."""
        self._after = after
        self._completed = set(completed)
        self._series: dict[str, list[Failure]] = defaultdict(list)
        """The failures since the latest other outcome, by implementation."""
        self._reasons: dict[str, str] = {}

    def take(self, run: Run, record: RunRecord, wall_s: float = 0.0) -> str:
        """Take in the record of a run, which took so much wall time.

        Returns the reason if its implementation is quarantined from now on, else "".
        """
        name, cell = run.permutation.implementation, run.permutation.cell
        if record.outcome is Outcome.COMPLETED:
            self._completed.add((name, cell))
        if record.outcome in COUNTED:
            is_timed_out, is_hung = record.outcome is Outcome.TIMED_OUT, record.reason_code is ReasonCode.HUNG
            self._series[name].append(Failure(cell, run.run_id, is_timed_out, is_hung, wall_s))
        elif record.outcome in ENDING:
            self._series[name].clear()
        if name in self._reasons or not self._is_due(name):
            return ""
        series = self._series[name]
        times = "once" if len(series) == 1 else f"{len(series)} times in a row"
        reason = f"not launched: {name} failed {times}, the last time in {series[-1].run_id}"
        if hung := sum(failure.is_hung for failure in series):
            reason += f"; hung: {hung}"
        if (wall_s := _wall_s(series)) > LONGEST_SERIES_S:
            reason += f"; this took {duration_text(wall_s)}"
        self._reasons[name] = reason
        return reason

    def reason(self, run: Run) -> str:
        """Why a run is not launched; "" if it is."""
        return self._reasons.get(run.permutation.implementation, "")

    def _is_due(self, name: str) -> bool:
        series = self._series[name]
        if not self._after:
            return False
        if FAILURES_PER_HANG * sum(failure.is_hung for failure in series) >= self._after:
            return True
        if len(series) < self._after:
            return False
        timed_out = [failure for failure in series if failure.is_timed_out]
        if len(timed_out) >= self._after and _wall_s(timed_out) > LONGEST_SERIES_S:
            return True
        has_completed = any(implementation == name for implementation, _ in self._completed)
        return not has_completed or any((name, failure.cell) in self._completed for failure in series)


def _wall_s(failures: Iterable[Failure]) -> float:
    return sum(failure.wall_s for failure in failures)


LATEST_STOP = timedelta(days=366)
LATEST_BATCHES = 50
"""Only so many decide: the first one of a start also boots what the others share, and other work comes and goes."""


@dataclass(frozen=True)
class StopTime:
    """A moment by a clock: that of the machine (`time.time`), or one that is never set (`steady_s`)."""

    at_s: float
    now_s: Callable[[], float]


class Deadline:
    """Compares the time that a batch is expected to take with the time that is left. Any thread may call it.

    The time of a batch is estimated from its runs as in the forecast, and corrected by the times of the latest batches.
    """

    def __init__(
        self,
        clock: Clock,
        stop: StopTime | None = None,
        elapsed_s: Callable[[], float] = steady_s,
        pace: Pace = WITHOUT_RECORDS,
    ) -> None:
        """Without a `stop`, the deadline never comes. `elapsed_s` measures how long batches take; `pace` is what is
        known from earlier ones."""
        self._clock, self._pace = clock, pace
        self._stop = stop
        self._elapsed_s = elapsed_s
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST_BATCHES)
        """The time that each of the latest batches took, and the one that was estimated."""
        self._lock = threading.Lock()
        self.is_over = False
        """Whether a batch was left to a later start."""
        self.left = ""
        """The first such batch, in words: its runs and the time that they are expected to take."""

    def allows(self, batch: Batch) -> bool:
        """Whether a batch is expected to end in time; once one is not, no other is either."""
        if self._stop is None:
            return True
        with self._lock:
            expected_s = self._slowness() * batch_wall_s(batch, self._clock, self._pace)
            if not self.is_over and self._stop.now_s() + expected_s > self._stop.at_s:
                self.is_over = True
                count = len(batch.runs)
                runs = f"{count} run{'s' if count > 1 else ''}" if count else "certificates"
                self.left = f"the next {runs} would take about {duration_text(expected_s)}"
            return not self.is_over

    def end_if_past(self) -> None:
        """End this start if its time is over while the sweep is paused."""
        with self._lock:
            if self._stop is not None and not self.is_over and self._stop.now_s() > self._stop.at_s:
                self.is_over, self.left = True, "the sweep is paused"

    @contextmanager
    def timed(self, batch: Batch) -> Iterator[None]:
        """Learn from the time that a batch takes."""
        began_s = self._elapsed_s()
        yield
        with self._lock:
            self._latest.append((self._elapsed_s() - began_s, batch_wall_s(batch, self._clock, self._pace)))

    def _slowness(self) -> float:
        """How many times longer than estimated the latest batches took; less than 1 on a fast machine."""
        took_s, estimated_s = map(sum, zip(*self._latest, strict=True)) if self._latest else (1.0, 1.0)
        return took_s / estimated_s


@dataclass(frozen=True)
class Timing:
    """When workers are launched."""

    patience: Patience = field(default_factory=lambda: Patience(float(os.environ.get("OWLT_PATIENCE_S", PATIENCE_S))))
    """Limits the wait for a quiet machine."""
    back_off_s: Sequence[float] = BACK_OFF_S
    """Waits after faults of the rig."""
    deadline: Deadline | None = None
    """Batches that it does not allow are left to a later start."""


def parse_until(text: str, now: datetime) -> datetime:
    """The moment that a user means: "07:00" is the next time that a clock shows it; or a date and a time.

    Raises Invalid for anything else, and for a moment that is over or more than a year away.
    """
    expected = "a time such as 07:00, or a date and a time such as 2030-01-31 07:00"
    of_day = re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip())
    try:
        if of_day:
            until = now.replace(hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0)
            return until if until > now else until + timedelta(days=1)
        until = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(Mistake(got(text), expected)) from None
    until = until.replace(tzinfo=now.tzinfo) if until.tzinfo is None else until
    if not now < until < now + LATEST_STOP:
        raise Invalid(Mistake(got(text), f"a time after {now:%Y-%m-%d %H:%M}, within a year"))
    return until
