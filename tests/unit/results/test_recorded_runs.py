"""What lies in `runs/`: records that stand, damaged ones, and what is no run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.planning.stored_plan import require_extension, write_plan
from owlt.orchestrator.sweep.supervisor import supervise, uncertified
from owlt.results.files import PLAN_NAME
from owlt.results.record import RECORD_NAME, Outcome, write_record
from owlt.results.recorded_runs import read_recorded, recorded_directories, recorded_runs, standing
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import go, in_memory, small_plan, small_workers


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "an object": lambda path: path.write_text("{}"),
    "a list": lambda path: path.write_text("[]"),
    "a directory": make_directory,
}
every_damage = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)


@every_damage
def test_a_damaged_record_is_named_and_its_run_does_not_stand(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    for run_id in ("a_r1", "b_r1"):
        (tmp_path / "runs" / run_id).mkdir(parents=True)
        write_record(record(run_id=run_id), tmp_path / "runs" / run_id)
    damage(tmp_path / "runs" / "b_r1" / RECORD_NAME)

    recorded = read_recorded(tmp_path, {"a_r1", "b_r1"})

    assert standing(recorded) == {"a_r1"}
    assert "runs/b_r1/record.json: damaged" in recorded.warnings[0]
    assert "'owlt run' performs the run again" in recorded.warnings[0]


def test_the_record_of_another_run_does_not_stand(tmp_path: Path) -> None:
    (tmp_path / "runs" / "b_r1").mkdir(parents=True)
    write_record(record(run_id="a_r1"), tmp_path / "runs" / "b_r1")

    assert standing(read_recorded(tmp_path, {"a_r1", "b_r1"})) == set()


def test_an_aborted_run_is_recorded_and_does_not_stand(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a_r1").mkdir(parents=True)
    write_record(record(run_id="a_r1", outcome=Outcome.ABORTED), tmp_path / "runs" / "a_r1")

    recorded = read_recorded(tmp_path, {"a_r1"})

    assert (set(recorded.records), standing(recorded)) == ({"a_r1"}, set())


def test_files_and_directories_that_are_no_run_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs" / "of_another_sweep_r1").mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").touch()

    recorded = read_recorded(tmp_path, {"a_r1"})

    assert recorded.records == {}
    assert [path.name for path in recorded.strays] == ["notes.txt", "of_another_sweep_r1"]
    assert all("not a run of this sweep, ignored" in warning for warning in recorded.warnings)


@every_damage
def test_a_run_with_a_damaged_record_is_performed_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    plan = small_plan()
    go(small_workers(plan), tmp_path)
    victim = plan.runs[0].run_id
    damage(tmp_path / "runs" / victim / RECORD_NAME)

    go(small_workers(plan), tmp_path)

    assert read_recorded(tmp_path, {victim}).records[victim].earlier_attempts == [
        "damaged: record.json was missing or damaged"
    ]


@every_damage
def test_a_damaged_plan_is_refused_with_how_to_fix_it(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    plan = small_plan()
    write_plan(plan, tmp_path)
    damage(tmp_path / PLAN_NAME)

    with pytest.raises(ResultsConflict, match=r"plan\.json"):
        require_extension(plan, tmp_path)


@pytest.mark.parametrize("damage", [each for each in DAMAGE.values() if each is not make_directory])
def test_a_damaged_journal_does_not_keep_a_sweep_from_resuming(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    plan = small_plan()
    (tmp_path / "journal.jsonl").write_text('{"at_s": 1.0, "batch": 0, "event": "boot"}\n')
    damage(tmp_path / "journal.jsonl")

    go(small_workers(plan), tmp_path)

    assert len(read_recorded(tmp_path, {run.run_id for run in plan.runs}).records) == len(plan.runs)


@every_damage
def test_a_channel_with_a_damaged_certificate_is_certified_again(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    plan = small_plan(certify=True)
    go(small_workers(plan), tmp_path)
    assert uncertified(plan, tmp_path) == []
    key = next(iter(plan.channels))
    damage(tmp_path / "certificates" / f"{key}.json")

    assert [batch.certify for batch in uncertified(plan, tmp_path)] == [[key]]
    supervise(plan, tmp_path, in_memory(small_workers(plan)), lambda event: None, lambda directory: "")
    assert uncertified(plan, tmp_path) == []


def test_recorded_runs_are_those_with_a_record_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b_r1", "a_r1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_record(record(run_id=name), tmp_path / "runs" / name)
    (tmp_path / "runs" / "c_r1").mkdir()

    assert [run.record.run_id for run in recorded_runs(tmp_path)] == ["a_r1", "b_r1"]


def test_a_directory_without_runs_has_no_recorded_runs(tmp_path: Path) -> None:
    assert recorded_directories(tmp_path) == []
