"""The supervisor with workers in memory: publishing, resuming, losing a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.rigs.processor_time import Patience, Waited
from owlt.orchestrator.run.analysis import Analyses
from owlt.orchestrator.run.events import (
    ChannelCertified,
    ChannelDisturbed,
    Entry,
    PhaseStarted,
    QuietAwaited,
    RunPublished,
    RunRepeated,
    WorkerStarted,
)
from owlt.orchestrator.run.launching import Worker
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.journal import open_journal
from owlt.orchestrator.sweep.machine import Allocation, SlotsHere
from owlt.orchestrator.sweep.monitoring import SweepContext, WorkerFailed, hang_limit_s
from owlt.orchestrator.sweep.publishing import Publisher
from owlt.orchestrator.sweep.scheduling import Deadline, Quarantine, Scheduler
from owlt.orchestrator.sweep.supervisor import Supervisor
from owlt.results.record import Outcome, read_record
from tests.unit.orchestrator.small_sweep import (
    abort,
    except_in,
    fail_certification,
    go,
    in_a_thread,
    launched,
    lose_worker,
    runs_done,
    small_plan,
    small_workers,
)
from tests.unit.orchestrator.workers_in_memory import (
    InMemoryWorkers,
    PerformRun,
    Reported,
    Silence,
    WorkerGone,
    complete,
)


def without_a_rig(plan: Plan, lost: int = 1000) -> InMemoryWorkers:
    """Workers of which so many end before they have a rig."""

    class Workers(InMemoryWorkers):
        def work(self, directory: Path) -> Iterator[Reported]:
            if len(self.batches) <= lost:
                yield "no namespaces here"
                raise WorkerGone
            yield from super().work(directory)

    return Workers(plan, certify=fail_certification)


def test_every_run_is_published_once(tmp_path: Path) -> None:
    workers = small_workers(small_plan())

    entries = go(workers, tmp_path, slots=2)

    assert runs_done(tmp_path) == {run.run_id for run in workers.plan.runs}
    published = [entry.event.run_id for entry in entries if isinstance(entry.event, RunPublished)]
    assert sorted(published) == sorted(runs_done(tmp_path))


def test_every_channel_is_certified_once_and_before_any_run(tmp_path: Path) -> None:
    workers = small_workers(small_plan(certify=True))

    go(workers, tmp_path, slots=2)

    assert sorted(path.stem for path in (tmp_path / "certificates").iterdir()) == list(workers.plan.channels)
    assert sorted(launched(workers)[:3]) == [[key] for key in workers.plan.channels]
    assert len(workers.batches) == 3 + len(workers.plan.batches)


def test_the_first_run_of_each_implementation_waits_for_the_certificate_of_its_own_channel_only(tmp_path: Path) -> None:
    plan = small_plan("exact", certify=True, implementations=["cfdp", "ltp"])
    workers = small_workers(plan)

    go(workers, tmp_path)

    kinds = ["certify" if batch.certify else batch.runs[0].permutation.implementation for batch in workers.batches]
    assert (kinds[0], sorted(kinds[1:3]), kinds[3:5]) == ("certify", ["cfdp", "ltp"], ["certify", "certify"])
    assert len(runs_done(tmp_path)) == len(plan.runs)
    assert sorted(kinds[5:]) == ["cfdp"] * 5 + ["ltp"] * 5


def test_the_task_of_a_run_has_the_suspicion_of_its_channels_certificate(tmp_path: Path) -> None:
    go(small_workers(small_plan(certify=True)), tmp_path)

    for run_id in runs_done(tmp_path):
        assert "forward: warp: specified 1, measured 2" in read_record(tmp_path / "runs" / run_id).suspect


def test_a_resumed_sweep_certifies_only_channels_without_a_certificate(tmp_path: Path) -> None:
    go(small_workers(small_plan(certify=True)), tmp_path)
    plan = small_plan(certify=True)
    (tmp_path / "runs" / plan.runs[0].run_id / "record.json").unlink()
    again = small_workers(plan)

    go(again, tmp_path)

    assert launched(again) == [[plan.runs[0].run_id]]


def test_a_channel_that_cannot_be_certified_stops_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="a channel could not be certified: "):
        go(without_a_rig(small_plan(certify=True)), tmp_path)


def test_a_finished_sweep_starts_no_worker(tmp_path: Path) -> None:
    go(small_workers(small_plan()), tmp_path)
    again = small_workers(small_plan())

    go(again, tmp_path)

    assert again.batches == []


def test_only_the_missing_run_of_a_batch_is_performed(tmp_path: Path) -> None:
    plan = small_plan("real")
    go(small_workers(plan), tmp_path)
    missing = plan.batches[0].runs[1].run_id
    (tmp_path / "runs" / missing / "record.json").unlink()
    again = small_workers(plan)

    go(again, tmp_path)

    assert launched(again) == [[missing]]


def test_a_run_in_which_the_worker_ends_every_time_is_aborted_with_its_last_line_and_the_others_are_performed(
    tmp_path: Path,
) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id

    go(small_workers(plan, except_in(victim, lose_worker)), tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert record.outcome is Outcome.ABORTED
    assert "the bridge fell down" in record.reason
    assert len(runs_done(tmp_path)) == len(plan.runs)


def test_a_run_whose_guest_was_lost_is_performed_again_and_names_the_earlier_attempt(
    tmp_path: Path,
) -> None:
    plan = small_plan()
    first, victim, last = (run.run_id for run in plan.batches[0].runs)
    workers = small_workers(plan, except_in(victim, lose_worker, attempts=1))

    go(workers, tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (record.outcome, record.attempt) == (Outcome.COMPLETED, 2)
    assert record.earlier_attempts == ["aborted (rig_lost): the worker ended: the bridge fell down"]
    assert launched(workers)[:2] == [[first, victim, last], [victim, last]]


def test_a_run_that_its_worker_calls_aborted_is_performed_again(tmp_path: Path) -> None:
    plan = small_plan("real")
    victim = plan.batches[0].runs[1].run_id
    workers = small_workers(plan, except_in(victim, abort, attempts=1))

    go(workers, tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (record.outcome, record.attempt, record.earlier_attempts) == (Outcome.COMPLETED, 2, ["aborted: no SSH"])
    assert launched(workers)[1] == [victim]


def test_the_journal_has_every_attempt_with_its_reason(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[0].run_id

    entries = go(small_workers(plan, except_in(victim, abort, attempts=2)), tmp_path)

    endings = [entry.event for entry in entries if isinstance(entry.event, RunPublished | RunRepeated)]
    attempts = [(ending.attempt, ending.outcome) for ending in endings if ending.run_id == victim]
    assert attempts == [(1, "aborted"), (2, "aborted"), (3, "completed")]
    assert '"event": "retry"' in (tmp_path / "journal.jsonl").read_text()


def test_one_start_performs_an_aborted_run_three_times_and_a_later_start_tries_again(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[0].run_id
    first = small_workers(plan, except_in(victim, abort))
    go(first, tmp_path)
    given_up = read_record(tmp_path / "runs" / victim)

    go(small_workers(plan), tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (given_up.outcome, given_up.attempt) == (Outcome.ABORTED, 3)
    assert sum(victim in runs for runs in launched(first)) == 3
    assert (record.outcome, record.attempt, len(record.earlier_attempts)) == (Outcome.COMPLETED, 4, 3)


def test_what_an_aborted_attempt_left_is_kept_without_its_captures(tmp_path: Path) -> None:
    def leave_a_capture(_run: Run, _task: Task, directory: Path) -> Iterator[Reported]:
        directory.mkdir(parents=True)
        (directory / "sender.pcap").touch()
        yield "the bridge fell down"
        raise WorkerGone

    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id

    go(small_workers(plan, except_in(victim, leave_a_capture, attempts=1)), tmp_path)

    assert sorted(path.name for path in (tmp_path / "attempts" / victim / "1").iterdir()) == [
        "console.log",
        "record.json",
    ]


def test_channels_that_are_certified_when_a_sweep_is_interrupted_are_not_certified_again(tmp_path: Path) -> None:
    plan = small_plan(certify=True)
    first = plan.certifications[0].certify[0]

    def certify_only_the_first(key: str, directory: Path) -> Iterable[Reported]:
        if key != first:
            raise WorkerGone
        return fail_certification(key, directory)

    lost = InMemoryWorkers(plan, certify=certify_only_the_first)
    with pytest.raises(WorkerFailed, match="a channel could not be certified"):
        go(lost, tmp_path)
    again = small_workers(plan)

    go(again, tmp_path)

    assert launched(again)[:2] == [[key] for key in sorted(set(plan.channels) - {first})]


def test_a_guest_that_is_lost_before_its_first_run_is_followed_by_another(tmp_path: Path) -> None:
    workers = without_a_rig(small_plan(), lost=2)

    go(workers, tmp_path)

    assert len(runs_done(tmp_path)) == len(workers.plan.runs)


def fall_silent_in(phase: str) -> PerformRun:
    """A run whose worker falls silent in a phase."""

    def perform(run: Run, _task: Task, _directory: Path) -> Iterator[Reported]:
        yield PhaseStarted(run_id=run.run_id, phase=phase)
        yield Silence()

    return perform


def test_a_run_in_which_the_worker_falls_silent_has_timed_out(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id

    go(small_workers(plan, except_in(victim, fall_silent_in("transfer"))), tmp_path)

    assert read_record(tmp_path / "runs" / victim).outcome is Outcome.TIMED_OUT
    assert len(runs_done(tmp_path)) == len(plan.runs)


def test_a_run_hangs_after_the_limit_of_its_own_profile(tmp_path: Path) -> None:
    plan = small_plan()
    implementation = plan.implementations["cfdp"].model_copy(update={"hang_s": 3.0})
    plan = plan.model_copy(update={"implementations": {"cfdp": implementation}})
    victim = plan.batches[0].runs[1].run_id

    go(small_workers(plan, except_in(victim, fall_silent_in("transfer"))), tmp_path)

    assert "it reported nothing for 3.03 s of wall time" in read_record(tmp_path / "runs" / victim).reason


def test_the_environment_has_another_hang_limit_for_every_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWLT_HANG_S", "300")
    plan = small_plan()

    assert hang_limit_s(plan.batches[0].runs[0], plan.implementations["cfdp"]) == 300.03


def test_a_larger_file_may_keep_a_guest_silent_for_longer() -> None:
    plan = small_plan()
    run = plan.batches[0].runs[0]
    larger = run.model_copy(update={"permutation": run.permutation.model_copy(update={"file_size_bytes": 2_000_000})})

    limits_s = [hang_limit_s(each, plan.implementations["cfdp"]) for each in (run, larger)]

    assert limits_s == [60.03, 120.0]


def test_a_worker_that_falls_silent_when_the_build_has_ended_is_not_the_builds_fault(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id

    go(small_workers(plan, except_in(victim, fall_silent_in("fetch"))), tmp_path)

    assert read_record(tmp_path / "runs" / victim).outcome is Outcome.ABORTED


def test_a_rig_that_does_not_come_up_stops_the_sweep_and_its_console_is_kept(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="no namespaces here"):
        go(without_a_rig(small_plan()), tmp_path)

    assert "no namespaces here" in (tmp_path / "failed-batch-0.log").read_text()
    assert runs_done(tmp_path) == set()


def test_the_log_that_a_failure_names_is_still_there_after_the_next_start(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed) as failed:
        go(without_a_rig(small_plan()), tmp_path)

    go(small_workers(small_plan()), tmp_path)

    assert "no namespaces here" in Path(str(failed.value).rpartition("see ")[2]).read_text()


def patience_of(patience_s: float, stalled_share: float = 0.0) -> Patience:
    """Patience with a machine whose threads stall for this share of the time, by a clock that only waiting moves."""
    now_s = 0.0

    def sleep(duration_s: float) -> None:
        nonlocal now_s
        now_s += duration_s

    return Patience(patience_s, lambda: stalled_share * now_s, sleep, lambda: now_s)


def disturb(guests: int) -> tuple[InMemoryWorkers, Plan]:
    """Workers of which so many have their runs disturbed by other work on the machine."""
    plan = small_plan("real")

    def perform(run: Run, task: Task, directory: Path) -> Iterable[Reported]:
        overdue_ns = 50 if len(workers.batches) <= guests else 0
        return complete(run, task, directory, machine_delay={"session_ns": 100, "overdue_ns": overdue_ns})

    workers = small_workers(plan, perform)
    return workers, plan


def test_a_run_that_was_disturbed_is_performed_again_once_the_machine_is_quiet(tmp_path: Path) -> None:
    workers, plan = disturb(guests=1)

    entries = go(workers, tmp_path, patience=patience_of(100.0))

    first = [run.run_id for run in plan.batches[0].runs]
    assert launched(workers) == [first, first, [run.run_id for run in plan.batches[1].runs]]
    again = read_record(tmp_path / "runs" / first[0])
    assert again.attempt == 2
    assert again.earlier_attempts == [
        "completed (machine_busy): the machine was busy: "
        "during a session of 0.0 ms packets were overdue in the emulator for 0.0 ms"
    ]
    assert [type(entry.event) for entry in entries].count(QuietAwaited) == 1


def test_a_machine_that_stays_busy_costs_no_more_attempts_than_its_first_guest(tmp_path: Path) -> None:
    workers, plan = disturb(guests=100)

    go(workers, tmp_path, patience=patience_of(10.0, stalled_share=1.0))

    assert len(workers.batches) == 1 + len(plan.batches)
    assert {read_record(path).attempt for path in (tmp_path / "runs").iterdir()} == {1, 2}


def test_what_is_disturbed_each_time_stands_after_three_attempts_and_at_the_next_start(tmp_path: Path) -> None:
    workers, plan = disturb(guests=100)

    go(workers, tmp_path, patience=patience_of(100.0))
    go(workers, tmp_path, patience=patience_of(100.0))

    assert len(workers.batches) == 3 * len(plan.batches)
    assert {read_record(path).attempt for path in (tmp_path / "runs").iterdir()} == {3}


def test_on_the_exact_clock_each_run_of_a_batch_has_a_worker_with_the_seed_of_the_batch(tmp_path: Path) -> None:
    plan = small_plan("exact", repetitions=6)
    workers = small_workers(plan)

    go(workers, tmp_path)

    assert max(len(batch.runs) for batch in plan.batches) == 5
    assert [(run_id,) for batch in plan.batches for run_id in (run.run_id for run in batch.runs)] == [
        tuple(run_ids) for run_ids in launched(workers)
    ]
    assert {batch.seed for batch in workers.batches} == {batch.seed for batch in plan.batches}


class ConstantWaits:
    """A worker whose processes wait for so long while each channel is certified; runs are not measured."""

    def __init__(self, waited: Waited) -> None:
        self._waited = waited

    def since(self, first_ns: int) -> Waited:
        return self._waited

    def between(self, first_ns: int, last_ns: int) -> None: ...

    def forget(self, before_ns: int) -> None: ...

    def close(self) -> None: ...


def certify_while(waited: Waited, plan: Plan, results: Path) -> tuple[InMemoryWorkers, list[Entry]]:
    """A sweep whose channels all fail certification while its processes wait for a processor for so long."""
    workers = small_workers(plan)
    workers.waits = ConstantWaits(waited)
    return workers, go(workers, results, patience=patience_of(100.0))


def test_a_channel_that_fails_certification_on_a_busy_machine_is_measured_once_more_when_it_is_quiet(
    tmp_path: Path,
) -> None:
    plan = small_plan("real", certify=True)

    workers, entries = certify_while(Waited(1_000_000, dispatches=10), plan, tmp_path)

    certified = [batch.certify for batch in plan.certifications]
    assert launched(workers)[: 2 * len(certified)] == [each for each in certified for _ in range(2)]
    types = [type(entry.event) for entry in entries]
    assert (types.count(ChannelDisturbed), types.count(QuietAwaited)) == (len(plan.channels), len(certified))
    verdicts = [entry.event.verdict for entry in entries if isinstance(entry.event, ChannelCertified)]
    assert verdicts == ["failed"] * len(plan.channels)
    assert sorted(path.stem for path in (tmp_path / "certificates").iterdir()) == sorted(plan.channels)


def test_a_channel_that_fails_certification_on_a_quiet_machine_is_not_measured_again(tmp_path: Path) -> None:
    plan = small_plan("real", certify=True)

    workers, entries = certify_while(Waited(1_000_000, dispatches=1000), plan, tmp_path)

    assert len(workers.batches) == len(plan.certifications) + len(plan.batches)
    assert not any(isinstance(entry.event, ChannelDisturbed) for entry in entries)


def not_launched(plan: Plan, times: int) -> InMemoryWorkers:
    """Workers of which the first ones cannot be launched."""

    class Workers(InMemoryWorkers):
        failures = 0

        def __call__(self, *arguments: Any) -> Worker:
            self.failures += 1
            if self.failures <= times:
                raise HostError("the guest cannot be copied")
            return super().__call__(*arguments)

    return Workers(plan, certify=fail_certification)


def test_a_worker_that_cannot_be_launched_is_followed_by_another(tmp_path: Path) -> None:
    workers = not_launched(small_plan(), times=2)

    go(workers, tmp_path)

    assert len(runs_done(tmp_path)) == 6


def test_a_sweep_ends_with_the_reason_if_no_worker_can_be_launched(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match=r"did not come up: the guest cannot be copied; see .*failed-batch-0\.log"):
        go(not_launched(small_plan(), times=100), tmp_path)

    assert (tmp_path / "failed-batch-0.log").read_text() == "the guest cannot be copied\n"


def test_an_interrupt_just_before_a_worker_is_launched_prevents_it(tmp_path: Path) -> None:
    workers = small_workers(small_plan())
    plan, scheduler = workers.plan, Scheduler(set(), Patience(0))
    interrupted: list[Supervisor] = []

    def interrupt(entry: Entry) -> None:
        if isinstance(entry.event, WorkerStarted):
            interrupted[0].close()

    with open_journal(tmp_path, interrupt) as journal:
        analyses = Analyses(lambda directory: "", in_a_thread, lambda run_id, problem: None)
        publisher = Publisher(plan, tmp_path, scheduler, Quarantine(0, []), journal, analyses)
        publisher.prepare()
        context = SweepContext(plan, scheduler, publisher, journal)
        interrupted.append(Supervisor(context, workers, Deadline(plan.sweep.clock)))

        interrupted[0].perform(Allocation(plan.batches, SlotsHere(1)))

    assert launched(workers) == []


RELEASED_S = 5.0


class SlowToLaunch:
    """Launches workers in memory once it is released."""

    def __init__(self, workers: InMemoryWorkers) -> None:
        self._workers = workers
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.begun.set()
        assert self.released.wait(RELEASED_S), "the supervisor waits for a launch before it ends its workers"
        return self._workers(*arguments)

    def close(self) -> None:
        """It has nothing to end."""


def test_an_interrupt_does_not_wait_for_a_launch_and_the_worker_performs_nothing(tmp_path: Path) -> None:
    workers = small_workers(small_plan())
    plan, launch = workers.plan, SlowToLaunch(workers)
    with open_journal(tmp_path, lambda entry: None) as journal:
        analyses = Analyses(lambda directory: "", in_a_thread, lambda run_id, problem: None)
        publisher = Publisher(plan, tmp_path, Scheduler(set(), Patience(0)), Quarantine(0, []), journal, analyses)
        publisher.prepare()
        context = SweepContext(plan, Scheduler(set(), Patience(0)), publisher, journal)
        supervisor = Supervisor(context, launch, Deadline(plan.sweep.clock))
        with ThreadPoolExecutor(1) as performing:
            performed = performing.submit(supervisor.perform, Allocation(plan.batches, SlotsHere(1)))
            launch.begun.wait(RELEASED_S)
            supervisor.close()
            launch.released.set()
            performed.result()

    assert supervisor.problems == []
    assert runs_done(tmp_path) == set()
