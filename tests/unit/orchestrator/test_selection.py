"""Runs that are performed alone, or again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from owlt.orchestrator.commands import cli
from owlt.orchestrator.commands.performing import Performing
from owlt.orchestrator.commands.progress import SweepProgress
from owlt.orchestrator.commands.run import extend_again, retry_again, select, warnings
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.selection import Selection, new_seeds, runs_in_cells, runs_named, selected_by
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.campaign import Performed, Start, perform_plan
from owlt.results.operator import kept_options
from owlt.results.record import Outcome, RunRecord, read_record
from owlt.results.recorded_runs import read_recorded
from tests.unit.orchestrator.small_sweep import launched, runs_done, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, complete


def perform(workers: InMemoryWorkers, results: Path, selection: Selection | None = None) -> Performed:
    start = Start(workers.plan, results, "again", selection, workers, guests=1)
    return perform_plan(start, lambda _plan, _done: lambda _entry: None)


def fail_every_run(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
    yield from complete(run, task, directory, outcome="failed", reason_code="exited", reason="status 3")


def records(results: Path, plan: Plan) -> dict[str, RunRecord]:
    return read_recorded(results, {run.run_id for run in plan.runs}).records


def test_only_the_selected_run_is_recorded(tmp_path: Path) -> None:
    plan = small_plan("real")
    chosen = plan.runs[3].run_id
    workers = small_workers(plan)

    done = perform(workers, tmp_path, Selection(frozenset({chosen})))

    assert (runs_done(tmp_path), launched(workers)) == ({chosen}, [[chosen]])
    assert done.is_complete
    assert done.summary.startswith("1 of 1 selected runs recorded")


def test_the_progress_of_a_selection_counts_its_runs_only(tmp_path: Path) -> None:
    plan, printed, log = small_plan("real"), StringIO(), StringIO()
    perform(small_workers(plan), tmp_path, Selection(frozenset({plan.runs[0].run_id})))
    selection = Selection(frozenset(run.run_id for run in plan.runs[1:3]))

    with SweepProgress(Console(file=printed), log=log) as progress:
        perform_plan(Start(plan, tmp_path, "again", selection, small_workers(plan), guests=1), progress)

    assert printed.getvalue() == ""
    assert ["of 2 runs recorded" in line for line in log.getvalue().splitlines()] == [True, True]


def test_the_next_start_performs_the_others(tmp_path: Path) -> None:
    plan = small_plan("real")
    perform(small_workers(plan), tmp_path, Selection(frozenset({plan.runs[3].run_id})))

    perform(small_workers(plan), tmp_path)

    assert len(runs_done(tmp_path)) == len(plan.runs)


def test_only_the_channels_of_selected_runs_are_certified(tmp_path: Path) -> None:
    plan = small_plan("real", certify=True)
    run = plan.runs[0]

    perform(small_workers(plan), tmp_path, Selection(frozenset({run.run_id})))

    assert [path.stem for path in (tmp_path / "certificates").iterdir()] == [run.channel_key]


def test_a_start_keeps_the_options_that_select_its_runs_and_a_retry_leaves_them(tmp_path: Path) -> None:
    plan = small_plan()
    selection = selected_by(plan, ["--shard", "1/2"])
    assert selection is not None

    perform(small_workers(plan), tmp_path, selection)
    perform(small_workers(plan), tmp_path, Selection(frozenset({min(selection.run_ids)}), again=True))

    assert kept_options(tmp_path)[:2] == ["--shard", "1/2"]


def test_a_run_that_is_performed_again_keeps_its_earlier_attempt(tmp_path: Path) -> None:
    plan = small_plan("real")
    victim = plan.runs[0].run_id
    perform(InMemoryWorkers(plan, fail_every_run), tmp_path)
    before = read_record(tmp_path / "runs" / plan.runs[1].run_id)

    perform(small_workers(plan), tmp_path, Selection(frozenset({victim}), again=True))

    again = read_record(tmp_path / "runs" / victim)
    assert (again.outcome, again.attempt) == (Outcome.COMPLETED, 2)
    assert again.earlier_attempts == ["failed (exited): status 3"]
    assert read_record(tmp_path / "runs" / plan.runs[1].run_id) == before


def test_a_new_seed_is_in_the_record_and_differs_with_each_retry(tmp_path: Path) -> None:
    plan = small_plan("real")
    run = plan.runs[0]
    seeds = {run.seed}

    for attempts in (0, 1):
        selection = Selection(frozenset({run.run_id}), True, new_seeds([run], {run.run_id: attempts}))
        perform(small_workers(plan), tmp_path, selection)
        seeds.add(read_record(tmp_path / "runs" / run.run_id).seed)

    assert len(seeds) == 3


def test_a_start_after_an_interrupted_retry_performs_its_runs_with_their_new_seeds(tmp_path: Path) -> None:
    plan = small_plan("real")
    perform(small_workers(plan), tmp_path)
    victim = plan.runs[0]
    seeds = new_seeds([victim], {})

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    selection = Selection(frozenset({victim.run_id}), True, seeds)
    start = Start(plan, tmp_path, "again", selection, small_workers(plan), guests=1)
    perform_plan(start, lambda _plan, _done: lambda _: None, interrupt)
    assert victim.run_id not in records(tmp_path, plan)

    perform(small_workers(plan), tmp_path)

    assert records(tmp_path, plan)[victim.run_id].seed == seeds[victim.run_id] != victim.seed


def test_a_retry_without_new_seeds_has_those_of_the_plan_again(tmp_path: Path) -> None:
    plan = small_plan("real")
    perform(small_workers(plan), tmp_path)
    victim = plan.runs[0]
    chosen = frozenset({victim.run_id})
    perform(small_workers(plan), tmp_path, Selection(chosen, True, new_seeds([victim], {})))

    perform(small_workers(plan), tmp_path, Selection(chosen, True))

    assert records(tmp_path, plan)[victim.run_id].seed == victim.seed


@pytest.mark.parametrize(("clock", "is_guests"), [("exact", True), ("real", False)])
def test_a_new_seed_is_that_of_the_guest_if_the_run_has_a_guest_of_its_own(clock: str, is_guests: bool) -> None:
    plan = small_plan(clock, implementations=["norm"], parameters={"norm": {"backoff_factor": [4]}})
    batch = plan.batches[0]
    selection = Selection(frozenset({batch.runs[0].run_id}), True, {batch.runs[0].run_id: 7})

    performed = selection.applied(plan).batches[0]

    assert performed.runs[0].seed == 7
    assert performed.seed == (7 if is_guests else batch.seed)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("packet_error_rate=0.1", 2),
        ("implementation=cfdp,packet_error_rate=0", 2),
        ("delay=1ms", 6),
        ("file_size=1 kB", 6),
    ],
)
def test_a_cell_is_named_by_its_values(name: str, count: int) -> None:
    assert len(runs_named(small_plan(), [name])) == count


def test_a_permutation_names_its_runs() -> None:
    plan = small_plan()

    assert len(runs_named(plan, [plan.runs[0].permutation.slug])) == 2


def test_values_of_the_same_key_are_alternatives() -> None:
    assert len(runs_in_cells(small_plan(), ["packet_error_rate=0.1", "packet_error_rate=0.2", "delay=1ms"])) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cfpd_1kB", "no run or cell of this sweep is cfpd_1kB"),
        ("delay=25", "--only delay: got '25', expected a value as in a sweep"),
        ("speed=1", "expected KEY=VALUE, with one of the keys implementation, file_size"),
        ("delay=9s", "no run or cell of this sweep is delay=9s"),
    ],
)
def test_a_name_that_no_run_has_is_refused(name: str, message: str) -> None:
    with pytest.raises(OwltError) as refused:
        runs_named(small_plan(), [name])

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("delay=9s", "--cell delay=9s: no run of this sweep has this delay, expected one of 1 ms"),
        ("packet_error_rate=0.3", "no run of this sweep has this packet_error_rate, expected one of 0, 0.1, 0.2"),
        ("implementation=norm", "no run of this sweep has this implementation, expected one of cfdp"),
        ("duration=9s", "no run of this sweep has this duration, expected a sweep with 'duration'"),
        ("delay=25", "--cell delay: got '25'"),
    ],
)
def test_a_value_that_no_run_has_is_refused_with_those_there_are(condition: str, message: str) -> None:
    with pytest.raises(OwltError) as refused:
        runs_in_cells(small_plan(), [condition])

    assert message in str(refused.value)


def made(plan: Plan, **outcomes: Any) -> dict[str, RunRecord]:
    """A record for each run: failed, or with the outcome of its place."""
    from tests.unit.orchestrator.making import record

    return {
        run.run_id: record(
            run_id=run.run_id, seed=run.seed, outcome=outcomes.get(f"run{place}", Outcome.COMPLETED), clock="exact"
        )
        for place, run in enumerate(plan.runs)
    }


def test_without_options_failures_of_every_kind_are_performed_again() -> None:
    plan = small_plan()
    there = made(plan, run0="failed", run1="timed_out", run2="quarantined", run3="aborted", run4="incomplete")

    assert select(plan, there, "", [], []) == plan.runs[:4]


def test_an_outcome_selects_its_runs_and_an_unknown_one_is_refused() -> None:
    plan = small_plan()
    there = made(plan, run0="failed", run4="incomplete")

    assert select(plan, there, "incomplete", [], []) == [plan.runs[4]]
    with pytest.raises(OwltError, match="--outcome: got 'broken'"):
        select(plan, there, "broken", [], [])


def test_a_named_run_is_performed_again_whatever_its_outcome() -> None:
    plan = small_plan()

    assert select(plan, made(plan), "", [plan.runs[2].run_id], []) == [plan.runs[2]]


def test_a_run_that_an_interrupted_retry_set_aside_is_performed_again() -> None:
    plan = small_plan()
    there = made(plan, run1="failed")
    left = plan.runs[0].run_id
    del there[left]

    assert select(plan, there, "", [], [], {left}) == plan.runs[:2]


def test_the_command_that_resumes_a_retry_selects_the_same_runs() -> None:
    command = retry_again(Path("results/a b"), "failed", ["r1", "r2"], ["delay=25 ms"], new_seed=True)

    assert shlex.split(command) == [
        *("owlt", "retry", "results/a b", "--outcome", "failed", "--run", "r1", "--run", "r2"),
        *("--cell", "delay=25 ms", "--new-seed"),
    ]


DASK = ("--dask", "tcp://lab1:8786", "--without-authentication")


@pytest.mark.parametrize(
    ("as_typed", "words"),
    [
        (retry_again, (Path("results/a"), "", (), ())),
        (extend_again, (Path("results/a"), 8)),
    ],
)
def test_the_command_that_resumes_uses_the_same_machines(
    as_typed: Callable[..., str], words: tuple[object, ...]
) -> None:
    options = Performing(report=False, dask="tcp://lab1:8786", without_authentication=True).words

    assert shlex.split(as_typed(*words, options=options))[-4:] == ["--no-report", *DASK]


@pytest.mark.parametrize("command", ["retry", "extend"])
def test_runs_are_performed_again_on_other_machines_which_must_authenticate(tmp_path: Path, command: str) -> None:
    plan = small_plan("exact")
    write_plan(plan, tmp_path)
    perform(small_workers(plan), tmp_path)
    options = ["--run", plan.runs[0].run_id] if command == "retry" else []

    done = CliRunner().invoke(cli.app, [command, str(tmp_path), *options, "--dask", "tcp://192.0.2.1:8786"])

    assert "tcp://192.0.2.1:8786 has no authentication" in str(done.exception)


@pytest.mark.parametrize(
    ("clock", "outcome", "says"),
    [("exact", "failed", True), ("exact", "aborted", False), ("real", "failed", False)],
)
def test_a_deterministic_retry_is_reported_with_the_way_out(clock: str, outcome: str, says: bool) -> None:
    plan = small_plan(clock)

    lines = warnings(plan, plan.runs[:1], made(plan, run0=outcome))

    assert [("--new-seed" in line and "the same result" in line) for line in lines] == ([True] if says else [])


@pytest.mark.parametrize("option", ["--only ip=six", f"--shard 1/{'9' * 5000}"], ids=["ip", "shard"])
def test_what_no_number_can_be_is_a_mistake_in_an_option(option: str) -> None:
    with pytest.raises(OwltError, match="got"):
        selected_by(small_plan("exact"), option.split())
