"""A run that is performed again and fails as before is reported as deterministic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import conclude
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.selection import Selection, new_seeds
from owlt.orchestrator.run.same_failures import failed_again, note_captures, same_failures_text
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.campaign import Performed, Start, perform_plan
from owlt.orchestrator.sweep.state_reader import read_state
from owlt.results.record import read_record, write_record
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import small_plan
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, PerformRun, Reported, complete

FAILURE = {"outcome": "failed", "reason_code": "exited", "reason": "status 3"}


def failing(frames: bytes, **changes: object) -> PerformRun:
    """Runs that fail with these captures."""

    def perform(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, **(FAILURE | changes))
        for role in ("sender", "receiver"):
            (directory / f"{role}.pcap").write_bytes(frames)

    return perform


def perform(plan: Plan, results: Path, how: PerformRun, selection: Selection | None = None) -> Performed:
    """The plan, or a retry of a selection."""
    start = Start(plan, results, "again", selection, InMemoryWorkers(plan, how), guests=1)
    return perform_plan(start, lambda _plan, _done: lambda _entry: None)


def retried(results: Path, how: PerformRun, clock: str = "exact", new_seed: bool = False) -> Performed:
    """A sweep whose runs fail with the captures b"frames"; its first run is performed again."""
    plan = small_plan(clock)
    perform(plan, results, failing(b"frames"))
    seeds = new_seeds(plan.runs[:1], {}) if new_seed else {}
    return perform(plan, results, how, Selection(frozenset({plan.runs[0].run_id}), again=True, new_seeds=seeds))


def test_the_same_failure_with_the_same_packets_is_in_the_summary_with_the_command_for_another_seed(
    tmp_path: Path,
) -> None:
    done = retried(tmp_path, failing(b"frames"))

    run_id = small_plan().runs[0].run_id
    assert done.same_failures == (run_id,)
    assert (
        f"; failed again in the same way, with the same packets: {run_id}: the failure is deterministic; "
        f"to use another seed: owlt retry {tmp_path} --run {run_id} --new-seed"
    ) in done.summary


@pytest.mark.parametrize(
    ("how", "clock", "new_seed"),
    [
        (failing(b"other frames"), "exact", False),
        (failing(b"frames", reason="status 4"), "exact", False),
        (failing(b"frames", outcome="timed_out"), "exact", False),
        (complete, "exact", False),
        (failing(b"frames"), "real", False),
        (failing(b"frames"), "exact", True),
    ],
)
def test_another_end_other_packets_another_clock_or_another_seed_is_not_the_same_failure(
    tmp_path: Path, how: PerformRun, clock: str, new_seed: bool
) -> None:
    assert retried(tmp_path, how, clock, new_seed).same_failures == ()


def test_a_first_failure_is_not_called_deterministic(tmp_path: Path) -> None:
    assert perform(small_plan("exact"), tmp_path, failing(b"frames")).same_failures == ()


def test_a_failure_of_an_older_version_is_compared_by_the_captures_that_were_kept(tmp_path: Path) -> None:
    plan = small_plan("exact")
    perform(plan, tmp_path, failing(b"frames"))
    directory = tmp_path / "runs" / plan.runs[0].run_id
    write_record(read_record(directory).model_copy(update={"captures_sha256": {}}), directory)

    done = perform(plan, tmp_path, failing(b"frames"), Selection(frozenset({plan.runs[0].run_id}), again=True))

    assert len(done.same_failures) == 1


def test_without_captures_nothing_is_said_about_packets(tmp_path: Path) -> None:
    failed = record(**FAILURE)
    write_record(failed, tmp_path)

    assert note_captures(tmp_path, failed) == failed
    assert not failed_again(tmp_path, failed.model_copy(update={"attempt": 2}))


def test_the_status_says_so_as_text_and_as_json(tmp_path: Path) -> None:
    retried(tmp_path, failing(b"frames"))

    shown = CliRunner().invoke(app, ["status", str(tmp_path)]).stdout
    values = CliRunner().invoke(app, ["status", str(tmp_path), "--json"]).stdout

    run_id = small_plan().runs[0].run_id
    assert read_state(tmp_path).same_failures == [run_id]
    assert "failed again in the same way, with the same packets:" in " ".join(shown.split())
    assert f'"same_failures": [\n    "{run_id}"\n  ]' in values


def test_the_json_of_the_retry_names_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = retried(tmp_path, failing(b"frames"))

    conclude(done, Printer(as_json=True), report=False)

    assert f'"same_failures": [\n    "{done.same_failures[0]}"\n  ]' in capsys.readouterr().out


def test_of_many_runs_three_are_named_and_the_command_is_for_all() -> None:
    text = same_failures_text(Path("r"), ["a", "b", "c", "d", "e"])

    assert "a, b, c and 2 more: the failures are deterministic; to use another seed: owlt retry r --new-seed" in text
