"""When an implementation is no longer launched, and what becomes of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Plan, Run, plan_sweep
from owlt.orchestrator.profiles.catalogue import implementations_of
from owlt.orchestrator.run.events import ImplementationQuarantined, PhaseStarted
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.scheduling import Quarantine
from owlt.results.record import Outcome, ReasonCode, RunRecord, read_record
from owlt.results.recorded_runs import recorded_runs
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import go, launched
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, Silence, complete

FAILED, COMPLETED = Outcome.FAILED, Outcome.COMPLETED


def plan_of_two(after: int, repetitions: int = 6) -> Plan:
    """cfdp and ltp on two channels; each run has a worker of its own."""
    sweep = Sweep.model_validate(
        {
            "name": "two",
            "seed": 7,
            "implementations": ["cfdp", "ltp"],
            "file_size": "1 kB",
            "rate": "1 Mbit/s",
            "delay": "1 ms",
            "packet_error_rate": [0, 0.1],
            "repetitions": repetitions,
            "runs_per_guest": 1,
            "certify": False,
            "quarantine_after": after,
        }
    )
    return plan_sweep(sweep, implementations_of(sweep))


def runs_at(plan: Plan, packet_error_rate: float) -> list[Run]:
    runs = [run for run in plan.runs if run.permutation.implementation == "ltp"]
    return [run for run in runs if run.permutation.packet_error_rate == packet_error_rate]


def reasons(quarantine: Quarantine, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> list[bool]:
    """Whether each outcome leads to quarantine."""
    return [
        bool(quarantine.take(run, record(implementation="ltp", outcome=outcome)))
        for run, outcome in zip(runs, outcomes, strict=True)
    ]


def test_a_series_of_failures_from_the_beginning_leads_to_quarantine_once() -> None:
    runs = runs_at(plan_of_two(3), 0)[:5]

    assert reasons(Quarantine(3, []), runs, [FAILED] * 5) == [False, False, True, False, False]


def test_an_outcome_that_shows_that_packets_passed_ends_a_series() -> None:
    runs = runs_at(plan_of_two(3), 0)[:5]

    assert not any(reasons(Quarantine(3, []), runs, [FAILED, FAILED, Outcome.INCOMPLETE, FAILED, FAILED]))


def test_a_fault_of_the_rig_is_neither_a_failure_nor_the_end_of_a_series() -> None:
    runs = runs_at(plan_of_two(3), 0)[:4]

    assert reasons(Quarantine(3, []), runs, [FAILED, Outcome.ABORTED, FAILED, FAILED])[-1]


def test_failures_where_the_implementation_never_completed_are_no_reason_if_it_completed_elsewhere() -> None:
    plan = plan_of_two(3)
    quarantine = Quarantine(3, [])
    quarantine.take(runs_at(plan, 0)[0], record(implementation="ltp", outcome=COMPLETED))

    assert not any(reasons(quarantine, runs_at(plan, 0.1)[:5], [FAILED] * 5))


def test_failures_where_the_implementation_had_completed_are_a_reason() -> None:
    plan = plan_of_two(3)
    quarantine = Quarantine(3, [("ltp", runs_at(plan, 0)[0].permutation.cell)])
    lossy, clear = runs_at(plan, 0.1), runs_at(plan, 0)

    assert reasons(quarantine, [*lossy[:3], clear[1]], [FAILED] * 4) == [False, False, False, True]


def test_zero_means_never() -> None:
    runs = runs_at(plan_of_two(0), 0)

    assert not any(reasons(Quarantine(0, []), runs, [FAILED] * len(runs)))


def fail_ltp(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
    """ltp fails at once, cfdp completes."""
    is_broken = run.permutation.implementation == "ltp"
    changes = {"outcome": "failed", "reason_code": "exited", "reason": "status 3"} if is_broken else {}
    yield from complete(run, task, directory, **changes)


def records_of(results: Path, implementation: str) -> list[RunRecord]:
    return [each.record for each in recorded_runs(results) if each.record.implementation == implementation]


def test_the_remaining_runs_are_recorded_with_the_reason_and_the_others_go_on(tmp_path: Path) -> None:
    plan = plan_of_two(4)

    entries = go(InMemoryWorkers(plan, fail_ltp), tmp_path)

    ltp = records_of(tmp_path, "ltp")
    assert sorted(each.outcome for each in ltp) == [FAILED] * 4 + [Outcome.QUARANTINED] * 8
    quarantined = next(each for each in ltp if each.outcome is Outcome.QUARANTINED)
    assert quarantined.reason_code is ReasonCode.QUARANTINED
    assert quarantined.reason.startswith("not launched: ltp failed 4 times in a row, the last time in ltp_")
    assert {each.outcome for each in records_of(tmp_path, "cfdp")} == {COMPLETED}
    assert sum(isinstance(entry.event, ImplementationQuarantined) for entry in entries) == 1


def test_quarantined_runs_are_not_performed_by_the_next_start(tmp_path: Path) -> None:
    plan = plan_of_two(4)
    go(InMemoryWorkers(plan, fail_ltp), tmp_path)
    again = InMemoryWorkers(plan, fail_ltp)

    go(again, tmp_path)

    assert launched(again) == []


def test_a_channels_certificate_is_in_the_record_of_a_quarantined_run(tmp_path: Path) -> None:
    plan = plan_of_two(1)
    plan = plan_sweep(plan.sweep.model_copy(update={"certify": True}), plan.implementations)

    go(InMemoryWorkers(plan, fail_ltp), tmp_path)

    (run_id, *_) = [each.run_id for each in records_of(tmp_path, "ltp") if each.outcome is Outcome.QUARANTINED]
    assert read_record(tmp_path / "runs" / run_id).certificate == "ok"


def hung_or_timed_out(quarantine: Quarantine, runs: Sequence[Run], code: ReasonCode, wall_s: float) -> list[bool]:
    """Whether each of these runs, which ended at a limit after so much wall time, leads to quarantine."""
    ended = record(implementation="ltp", outcome=Outcome.TIMED_OUT, reason_code=code)
    return [bool(quarantine.take(run, ended, wall_s)) for run in runs]


def completed_in_another_cell(plan: Plan, after: int) -> Quarantine:
    return Quarantine(after, [("ltp", runs_at(plan, 0)[0].permutation.cell)])


def test_an_implementation_that_completed_once_and_hangs_in_other_cells_is_quarantined_after_a_quarter() -> None:
    plan = plan_of_two(8)
    hangs, failures = (completed_in_another_cell(plan, 8) for _ in range(2))
    runs = runs_at(plan, 0.1)[:3]

    assert hung_or_timed_out(hangs, runs, ReasonCode.HUNG, wall_s=1) == [False, True, False]
    assert not any(hung_or_timed_out(failures, runs, ReasonCode.TIME_LIMIT, wall_s=1))


def test_a_completion_ends_a_series_of_hangs() -> None:
    plan = plan_of_two(8)
    quarantine, runs = completed_in_another_cell(plan, 8), runs_at(plan, 0.1)

    for run in runs[:4]:
        assert hung_or_timed_out(quarantine, [run], ReasonCode.HUNG, wall_s=1) == [False]
        quarantine.take(runs_at(plan, 0)[0], record(implementation="ltp", outcome=COMPLETED))


def test_runs_that_time_out_where_none_completed_lead_to_quarantine_if_they_take_more_than_an_hour() -> None:
    plan = plan_of_two(3)
    runs = runs_at(plan, 0.1)[:4]

    long = hung_or_timed_out(completed_in_another_cell(plan, 3), runs, ReasonCode.TIME_LIMIT, wall_s=1201)
    short = hung_or_timed_out(completed_in_another_cell(plan, 3), runs, ReasonCode.TIME_LIMIT, wall_s=890)

    assert (long, short) == ([False, False, True, False], [False] * 4)


def test_failures_that_are_no_time_outs_do_not_count_towards_the_hour() -> None:
    plan = plan_of_two(3)
    quarantine = completed_in_another_cell(plan, 3)

    for run in runs_at(plan, 0.1)[:4]:
        assert not quarantine.take(run, record(implementation="ltp", outcome=FAILED), 7200)


def test_zero_means_that_hangs_do_not_count_either() -> None:
    runs = runs_at(plan_of_two(0), 0.1)

    assert not any(hung_or_timed_out(Quarantine(0, []), runs, ReasonCode.HUNG, wall_s=7200))


def test_a_sweep_goes_on_without_an_implementation_that_hangs(tmp_path: Path) -> None:
    """It completes its first run, and hangs in all others."""
    plan = plan_of_two(4)
    first = next(run.run_id for run in plan.runs if run.permutation.implementation == "ltp")

    def hang_ltp(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        if run.permutation.implementation == "ltp" and run.run_id != first:
            yield PhaseStarted(run_id=run.run_id, phase="transfer")
            yield Silence()
        yield from complete(run, task, directory)

    go(InMemoryWorkers(plan, hang_ltp), tmp_path)

    ltp = records_of(tmp_path, "ltp")
    assert sorted(each.outcome for each in ltp) == [COMPLETED, *[Outcome.QUARANTINED] * 10, Outcome.TIMED_OUT]
    assert next(each for each in ltp if each.reason_code is ReasonCode.QUARANTINED).reason.endswith("; hung: 1")
    assert {each.outcome for each in records_of(tmp_path, "cfdp")} == {COMPLETED}
