"""A fault of the rig is followed by another attempt after a while, and does not end a sweep at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.orchestrator.rigs.processor_time import Patience
from owlt.orchestrator.run.events import RigFailed, RunPublished, RunRepeated, WorkerLost
from owlt.orchestrator.sweep.monitoring import WorkerFailed
from owlt.orchestrator.sweep.scheduling import Scheduler
from owlt.results.record import Outcome
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import abort, except_in, go, runs_done, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, WorkerGone


def scheduler() -> Scheduler:
    return Scheduler(set(), Patience(0.0), back_off_s=(5.0, 60.0))


def test_there_is_no_wait_without_a_fault_of_the_rig() -> None:
    scheduling, batch = scheduler(), small_plan("real").batches[0]
    scheduling.count_attempt(record(run_id=batch.runs[0].run_id, outcome=Outcome.FAILED))

    assert scheduling.back_off_s(batch) == 0


def test_each_fault_of_the_rig_is_followed_by_a_longer_wait() -> None:
    scheduling, batch = scheduler(), small_plan("real").batches[0]
    waits = []
    for _ in range(3):
        scheduling.count_attempt(record(run_id=batch.runs[0].run_id, outcome=Outcome.ABORTED))
        waits.append(scheduling.back_off_s(batch))

    assert waits == [5.0, 60.0, 60.0]


def test_a_batch_does_not_wait_for_the_faults_of_another() -> None:
    scheduling, plan = scheduler(), small_plan("real")
    scheduling.count_rig_loss(plan.batches[0].index)

    assert [scheduling.back_off_s(batch) for batch in plan.batches] == [5.0, 0.0]


def with_a_rig_that_fails(times: int) -> InMemoryWorkers:
    """Workers of which the first say that their rig did not come up."""

    class Workers(InMemoryWorkers):
        def work(self, directory: Path) -> Iterator[Reported]:
            if len(self.batches) <= times:
                yield RigFailed(reason="no memory left")
                raise WorkerGone
            yield from super().work(directory)

    return Workers(small_plan())


def test_a_rig_that_comes_up_at_the_third_attempt_costs_no_run(tmp_path: Path) -> None:
    workers = with_a_rig_that_fails(times=2)

    entries = go(workers, tmp_path)

    assert runs_done(tmp_path) == {run.run_id for run in workers.plan.runs}
    lost = [entry.event.reason for entry in entries if isinstance(entry.event, WorkerLost)]
    assert lost == ["no memory left", "no memory left"]


def test_a_rig_that_never_comes_up_ends_the_sweep_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="did not come up: no memory left"):
        go(with_a_rig_that_fails(times=1000), tmp_path)


def test_an_aborted_run_is_repeated_three_times_and_again_by_the_next_start(tmp_path: Path) -> None:
    plan = small_plan("real")
    victim = plan.runs[0].run_id

    first = go(small_workers(plan, except_in(victim, abort)), tmp_path)
    second = go(small_workers(plan), tmp_path)

    assert len([entry for entry in first if isinstance(entry.event, RunRepeated)]) == 2
    assert [entry.event.run_id for entry in second if isinstance(entry.event, RunPublished)] == [victim]
