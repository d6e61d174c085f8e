"""Scheduling: what the next worker of a batch performs, which runs and channels are repeated, and when to give up.

Nothing here starts a worker or touches a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from owlt.orchestrator.planning.plan import Batch
from owlt.orchestrator.results.record import Outcome, RunRecord
from owlt.orchestrator.results.repeat_rules import is_repeated_now, needs_quiet
from owlt.orchestrator.rigs.quiet import Patience

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
        """For a quiet machine."""
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

    def next_part(self, batch: Batch) -> Batch | None:
        """The part of a batch that its next worker performs; None if all of its runs are done."""
        runs = [run for run in batch.runs if run.run_id not in self._done]
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
