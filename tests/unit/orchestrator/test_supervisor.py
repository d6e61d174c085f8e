"""The supervisor with workers that speak its language but perform nothing: publishing, resuming, losing a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import supervisor
from orchestrator.catalogue import implementations_of
from orchestrator.certification import Certified
from orchestrator.plan import Batch, Plan, plan_sweep
from orchestrator.record import Outcome, read_record
from orchestrator.rigs.quiet import Patience
from orchestrator.rigs.waits import Waited
from orchestrator.supervisor import Event, WorkerFailed, guest_memory_mb, hang_limit_s, supervise, write_task
from orchestrator.sweep import Sweep

WORKER = """\
import json, sys, time
from pathlib import Path
from orchestrator.record import RunRecord, write_record
from orchestrator.worker import Task, tell

task = Task.model_validate_json(Path("batch.json").read_text())
tell("connect")
for key in task.certify:
    Path("certificates").mkdir(exist_ok=True)
    certificate = {
        "verdict": "failed", "channel": {}, "started_at_ns": "0", "duration_s": 0.0, "kernel": "", "alpha": 0.001,
        "checks": [{"direction": "forward", "quantity": "warp", "verdict": "failed", "asked": 1.0, "measured": 2.0}],
    }
    Path("certificates", f"{key}.json").write_text(json.dumps(certificate))
    tell("certified", channel=key, verdict="failed")
for run in task.runs:
    tell("run", run_id=run.run_id)
    withheld = None
    outcome, spoil, guest = "completed", False, len(Path("../../journal.jsonl").read_text().split('"boot"')) - 1
    BEHAVIOUR
    directory = Path("runs", run.run_id)
    directory.mkdir(parents=True)
    record = RunRecord(
        run_id=run.run_id, sweep="small", implementation="cfdp", title="", protocol="", repetition=run.repetition,
        order=run.order, seed=run.seed, clock="exact", rig="virtual", outcome=outcome,
        reason="" if outcome == "completed" else "no SSH", withheld=withheld,
        suspect=[told for found in task.certificates.values() for told in found.suspicion],
        **run.permutation.model_dump(exclude={"implementation"}),
    )
    if spoil:
        captures = {"session": {"sender": 7}}
        for name in ("sender.pcap", "receiver.pcap"):
            (directory / name).touch()
        record = record.model_copy(update=captures)
    write_record(record, directory)
    tell("done", run_id=run.run_id, outcome=record.outcome, reason=record.reason)
tell("end")
"""


def small_plan(clock: str = "exact", certify: bool = False) -> Plan:
    settings = {"name": "small", "seed": 7, "implementations": ["cfdp"], "file_size": "1 kB", "rate": "1 Mbit/s"}
    errors = {"delay": "1 ms", "packet_error_rate": [0, 0.1, 0.2], "repetitions": 2, "runs_per_guest": 3}
    sweep = Sweep.model_validate(settings | errors | {"clock": clock, "certify": certify})
    return plan_sweep(sweep, implementations_of(sweep))


class Workers:
    """Starts real processes; counts what it was asked for."""

    def __init__(self, plan: Plan, behaviour: str = "pass") -> None:
        self.plan = plan
        self.program = WORKER.replace("BEHAVIOUR", behaviour)
        self.asked: list[list[str]] = []
        self.seeds: list[int] = []

    def __call__(
        self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]
    ) -> subprocess.Popen[str]:
        self.asked.append(batch.certify or [run.run_id for run in batch.runs])
        self.seeds.append(batch.seed)
        write_task(self.plan, batch, directory, 100, certificates)
        command = [sys.executable, "-c", self.program]
        return subprocess.Popen(
            command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )


def runs_done(results: Path) -> set[str]:
    return {path.parent.name for path in results.glob("runs/*/record.json")}


def go(workers: Workers, results: Path, slots: int = 1, patience: Patience | None = None) -> list[Event]:
    heard: list[Event] = []
    supervise(workers.plan, results, workers, slots, heard.append, lambda directory: "", patience)
    return heard


def test_every_run_is_published_once(tmp_path: Path) -> None:
    workers = Workers(small_plan())

    heard = go(workers, tmp_path, slots=2)

    assert runs_done(tmp_path) == {run.run_id for run in workers.plan.runs}
    assert sorted(event.facts["run_id"] for event in heard if event.name == "published") == sorted(runs_done(tmp_path))


def test_every_channel_is_certified_once_and_before_any_run(tmp_path: Path) -> None:
    workers = Workers(small_plan(certify=True))

    go(workers, tmp_path, slots=2)

    assert sorted(path.stem for path in (tmp_path / "certificates").iterdir()) == list(workers.plan.channels)
    assert sorted(workers.asked[0]) == list(workers.plan.channels)
    assert len(workers.asked) == 1 + len(workers.plan.batches)


def test_what_a_certificate_suspects_every_run_on_its_channel_is_told(tmp_path: Path) -> None:
    go(Workers(small_plan(certify=True)), tmp_path)

    for run_id in runs_done(tmp_path):
        assert "forward: warp: asked 1, measured 2" in read_record(tmp_path / "runs" / run_id).suspect


def test_a_resumed_sweep_certifies_only_channels_without_a_certificate(tmp_path: Path) -> None:
    go(Workers(small_plan(certify=True)), tmp_path)
    plan = small_plan(certify=True)
    (tmp_path / "runs" / plan.runs[0].run_id / "record.json").unlink()
    again = Workers(plan)

    go(again, tmp_path)

    assert again.asked == [[plan.runs[0].run_id]]


def test_a_channel_that_cannot_be_certified_stops_the_sweep(tmp_path: Path) -> None:
    workers = Workers(small_plan(certify=True))
    workers.program = "print('no such dummy')"

    with pytest.raises(WorkerFailed, match="a channel could not be certified: "):
        go(workers, tmp_path)


def test_a_finished_sweep_starts_no_worker(tmp_path: Path) -> None:
    go(Workers(small_plan()), tmp_path)
    again = Workers(small_plan())

    go(again, tmp_path)

    assert again.asked == []


def test_on_the_exact_clock_a_batch_is_performed_from_its_start_up_to_the_missing_run(tmp_path: Path) -> None:
    plan = small_plan()
    go(Workers(plan), tmp_path)
    first, second = plan.batches[0].runs[0].run_id, plan.batches[0].runs[1].run_id
    (tmp_path / "runs" / second / "record.json").unlink()
    kept = (tmp_path / "runs" / first / "record.json").stat().st_mtime_ns
    again = Workers(plan)

    go(again, tmp_path)

    assert again.asked == [[first, second]]
    assert (tmp_path / "runs" / first / "record.json").stat().st_mtime_ns == kept


def test_on_another_clock_only_the_missing_run_is_performed(tmp_path: Path) -> None:
    plan = small_plan("real")
    go(Workers(plan), tmp_path)
    missing = plan.batches[0].runs[1].run_id
    (tmp_path / "runs" / missing / "record.json").unlink()
    again = Workers(plan)

    go(again, tmp_path)

    assert again.asked == [[missing]]


def test_a_run_in_which_the_worker_ends_every_time_is_aborted_with_its_last_words_and_the_others_are_performed(
    tmp_path: Path,
) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id
    go(Workers(plan, f"if run.run_id == {victim!r}: sys.exit('the bridge fell down')"), tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert record.outcome is Outcome.ABORTED
    assert "the bridge fell down" in record.reason
    assert len(runs_done(tmp_path)) == len(plan.runs)


def test_a_run_whose_guest_was_lost_is_performed_again_behind_the_same_runs_and_names_the_earlier_attempt(
    tmp_path: Path,
) -> None:
    plan = small_plan()
    first, victim, last = (run.run_id for run in plan.batches[0].runs)
    workers = Workers(plan, f"if run.run_id == {victim!r} and guest == 1: sys.exit('the bridge fell down')")

    go(workers, tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (record.outcome, record.attempt) == (Outcome.COMPLETED, 2)
    assert record.earlier_attempts == ["aborted: the worker ended: the bridge fell down"]
    assert workers.asked[:2] == [[first, victim, last], [first, victim, last]]


def test_a_run_that_its_worker_calls_aborted_is_performed_again(tmp_path: Path) -> None:
    plan = small_plan("real")
    victim = plan.batches[0].runs[1].run_id
    workers = Workers(plan, f"if run.run_id == {victim!r} and guest == 1: outcome = 'aborted'")

    go(workers, tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (record.outcome, record.attempt, record.earlier_attempts) == (Outcome.COMPLETED, 2, ["aborted: no SSH"])
    assert workers.asked[1] == [victim]


def test_the_journal_has_every_attempt_with_its_reason(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[0].run_id

    heard = go(Workers(plan, f"if run.run_id == {victim!r} and guest < 3: outcome = 'aborted'"), tmp_path)

    facts = [event.facts for event in heard if event.facts.get("run_id") == victim and "attempt" in event.facts]
    assert [(fact["attempt"], fact["outcome"]) for fact in facts] == [(1, "aborted"), (2, "aborted"), (3, "completed")]
    assert '"event": "retry"' in (tmp_path / "journal.jsonl").read_text()


def test_one_start_performs_an_aborted_run_three_times_and_a_later_start_tries_again(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[0].run_id
    first = Workers(plan, f"if run.run_id == {victim!r}: outcome = 'aborted'")
    go(first, tmp_path)
    given_up = read_record(tmp_path / "runs" / victim)

    go(Workers(plan), tmp_path)

    record = read_record(tmp_path / "runs" / victim)
    assert (given_up.outcome, given_up.attempt) == (Outcome.ABORTED, 3)
    assert sum(victim in asked for asked in first.asked) == 3
    assert (record.outcome, record.attempt, len(record.earlier_attempts)) == (Outcome.COMPLETED, 4, 3)


def test_what_an_aborted_attempt_left_is_kept_without_its_captures(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id
    lost = "Path('runs', run.run_id).mkdir(parents=True); Path('runs', run.run_id, 'sender.pcap').touch(); sys.exit()"
    go(Workers(plan, f"if run.run_id == {victim!r} and guest == 1: {lost}"), tmp_path)

    assert sorted(path.name for path in (tmp_path / "attempts" / victim / "1").iterdir()) == [
        "console.log",
        "record.json",
    ]


def killed_repeatedly(results: Path, times: int) -> Plan:
    """The plan of a sweep whose first run is recorded, and whose first batch was killed so often before its second."""
    plan = small_plan()
    go(Workers(plan), results)
    for run in plan.runs[1:]:
        (results / "runs" / run.run_id / "record.json").unlink()
    events = ["boot", "published", *["boot"] * times]
    lines = [json.dumps({"at_s": 1.0, "batch": 0, "event": event}) for event in events]
    (results / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return plan


def test_a_batch_that_is_interrupted_repeatedly_is_performed_run_by_run_in_guests_of_their_own(tmp_path: Path) -> None:
    plan = killed_repeatedly(tmp_path, times=2)
    workers = Workers(plan)

    go(workers, tmp_path)

    _first, second, third = plan.batches[0].runs
    assert workers.asked[:2] == [[second.run_id], [third.run_id]]
    assert workers.seeds[:2] == [second.seed, third.seed]
    alone = {run.run_id for run in plan.runs if read_record(tmp_path / "runs" / run.run_id).alone}
    assert alone == {second.run_id, third.run_id}


def test_a_batch_that_was_interrupted_once_is_performed_as_planned(tmp_path: Path) -> None:
    plan = killed_repeatedly(tmp_path, times=1)
    workers = Workers(plan)

    go(workers, tmp_path)

    assert workers.asked[0] == [run.run_id for run in plan.batches[0].runs]
    assert not any(read_record(tmp_path / "runs" / run.run_id).alone for run in plan.runs)


def test_channels_that_are_certified_when_a_sweep_is_interrupted_are_not_certified_again(tmp_path: Path) -> None:
    plan = small_plan(certify=True)
    first = plan.certifications[0].certify[0]
    lost = Workers(plan)
    lost.program = lost.program.replace('tell("certified"', f'if key != {first!r}: sys.exit()\n    tell("certified"')
    with pytest.raises(WorkerFailed, match="a channel could not be certified"):
        go(lost, tmp_path)
    again = Workers(plan)

    go(again, tmp_path)

    assert sorted(again.asked[0]) == sorted(set(plan.channels) - {first})


def test_a_guest_that_is_lost_before_its_first_run_is_followed_by_another(tmp_path: Path) -> None:
    workers = Workers(small_plan())
    workers.program = f"boots = len(open('../../journal.jsonl').readlines())\nif boots < 3: exit()\n{workers.program}"

    go(workers, tmp_path)

    assert len(runs_done(tmp_path)) == len(workers.plan.runs)


def test_a_run_in_which_the_worker_falls_silent_has_timed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "hang_limit_s", lambda run, build: 3.0)
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id
    transferring = "tell('phase', run_id=run.run_id, phase='transfer')"
    go(Workers(plan, f"if run.run_id == {victim!r}: {transferring}; time.sleep(1000)"), tmp_path)

    assert read_record(tmp_path / "runs" / victim).outcome is Outcome.TIMED_OUT
    assert len(runs_done(tmp_path)) == len(plan.runs)


def test_a_run_hangs_after_the_limit_of_its_own_profile(tmp_path: Path) -> None:
    plan = small_plan()
    build = plan.implementations["cfdp"].model_copy(update={"hang_s": 3.0})
    plan = plan.model_copy(update={"implementations": {"cfdp": build}})
    victim = plan.batches[0].runs[1].run_id
    transferring = "tell('phase', run_id=run.run_id, phase='transfer')"
    go(Workers(plan, f"if run.run_id == {victim!r}: {transferring}; time.sleep(1000)"), tmp_path)

    assert "nothing was heard of it for 3.03 s of wall time" in read_record(tmp_path / "runs" / victim).reason


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


def test_a_worker_that_falls_silent_when_the_build_has_ended_is_not_the_builds_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "hang_limit_s", lambda run, build: 3.0)
    plan = small_plan()
    victim = plan.batches[0].runs[1].run_id
    fetching = "tell('phase', run_id=run.run_id, phase='fetch')"
    go(Workers(plan, f"if run.run_id == {victim!r}: {fetching}; time.sleep(1000)"), tmp_path)

    assert read_record(tmp_path / "runs" / victim).outcome is Outcome.ABORTED


def test_a_rig_that_does_not_come_up_stops_the_sweep_and_keeps_what_it_said(tmp_path: Path) -> None:
    plan = small_plan()
    workers = Workers(plan)
    workers.program = "print('no namespaces here')"

    with pytest.raises(WorkerFailed, match="no namespaces here"):
        go(workers, tmp_path)

    assert "no namespaces here" in (tmp_path / "failed-batch-0.log").read_text()
    assert runs_done(tmp_path) == set()


def test_the_log_that_a_failure_names_is_still_there_after_the_next_start(tmp_path: Path) -> None:
    workers = Workers(small_plan())
    workers.program = "print('no namespaces here')"
    with pytest.raises(WorkerFailed) as failed:
        go(workers, tmp_path)

    go(Workers(small_plan()), tmp_path)

    assert "no namespaces here" in Path(str(failed.value).rpartition("see ")[2]).read_text()


def test_a_guest_has_memory_for_what_is_in_flight() -> None:
    near = small_plan().runs
    fast = near[0].permutation.model_copy(update={"rate_bps": 1e8})
    far = [run.model_copy(update={"permutation": fast, "rtt_s": 2000.0}) for run in near]

    assert guest_memory_mb(far) - guest_memory_mb(near) > 2 * 1e8 / 8 * 1000 / 1e6


DISTURBED = "withheld = dict(session_ns=100, overdue_ns=50) if guest < GUESTS else dict(session_ns=100, overdue_ns=0)"
QUIET = 0.0


def disturbed_in(guests: int) -> str:
    """What happens in the runs of so many guests."""
    return DISTURBED.replace("GUESTS", str(1 + guests))


def test_a_run_that_was_disturbed_is_performed_again_once_the_machine_is_quiet(tmp_path: Path) -> None:
    plan = small_plan("real")
    workers = Workers(plan, disturbed_in(1))

    heard = go(workers, tmp_path, patience=Patience(100.0, lambda: QUIET))

    first = [run.run_id for run in plan.batches[0].runs]
    assert workers.asked == [first, first, [run.run_id for run in plan.batches[1].runs]]
    again = read_record(tmp_path / "runs" / first[0])
    assert again.attempt == 2
    assert again.earlier_attempts == [
        "completed: the machine was busy: during a session of 0.0 ms packets were overdue in the emulator for 0.0 ms"
    ]
    assert [event.name for event in heard].count("wait") == 1


def test_a_machine_that_stays_busy_costs_no_more_attempts_than_its_first_guest(tmp_path: Path) -> None:
    plan = small_plan("real")
    workers = Workers(plan, disturbed_in(100))

    go(workers, tmp_path, patience=Patience(1e-9, iter(range(1000)).__next__))

    assert len(workers.asked) == 1 + len(plan.batches)
    assert {read_record(path).attempt for path in (tmp_path / "runs").iterdir()} == {1, 2}


def test_what_is_disturbed_each_time_stands_after_three_attempts_and_at_the_next_start(tmp_path: Path) -> None:
    plan = small_plan("real")
    workers = Workers(plan, disturbed_in(100))

    go(workers, tmp_path, patience=Patience(100.0, lambda: QUIET))
    go(workers, tmp_path, patience=Patience(100.0, lambda: QUIET))

    assert len(workers.asked) == 3 * len(plan.batches)
    assert {read_record(path).attempt for path in (tmp_path / "runs").iterdir()} == {3}


def certified_while(
    waited: Waited, plan: Plan, results: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Workers, list[Event]]:
    """A sweep whose channels all fail certification while its processes wait for a processor for so long."""

    class Waits:
        def __init__(self, pid: int) -> None: ...

        def since(self, first_ns: int) -> Waited:
            return waited

        def between(self, first_ns: int, last_ns: int) -> None: ...

        def forget(self, before_ns: int) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(supervisor, "is_counted", lambda pid: True)
    monkeypatch.setattr(supervisor, "ProcessorWaits", Waits)
    workers = Workers(plan)
    return workers, go(workers, results, patience=Patience(100.0, lambda: QUIET))


def test_a_channel_that_fails_certification_on_a_busy_machine_is_measured_once_more_when_it_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan("real", certify=True)

    workers, heard = certified_while(Waited(1_000_000, dispatches=10), plan, tmp_path, monkeypatch)

    certified = [batch.certify for batch in plan.certifications]
    assert workers.asked[: 2 * len(certified)] == [each for each in certified for _ in range(2)]
    names = [event.name for event in heard]
    assert (names.count("recertify"), names.count("wait")) == (len(plan.channels), len(certified))
    assert [event.facts["verdict"] for event in heard if event.name == "certified"] == ["failed"] * len(plan.channels)
    assert sorted(path.stem for path in (tmp_path / "certificates").iterdir()) == sorted(plan.channels)


def test_a_channel_that_fails_certification_on_a_quiet_machine_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan("real", certify=True)

    workers, heard = certified_while(Waited(1_000_000, dispatches=1000), plan, tmp_path, monkeypatch)

    assert len(workers.asked) == len(plan.certifications) + len(plan.batches)
    assert "recertify" not in {event.name for event in heard}
