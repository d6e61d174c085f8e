"""Shards of a sweep, and their results merged."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.selection import Shard, parse_shard
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.rigs.provenance import Provenance, read_provenances, write_provenance
from owlt.orchestrator.sweep.merging import Merged, merge
from owlt.results.record import RECORD_NAME, read_record
from tests.unit.orchestrator.small_sweep import go, runs_done, small_plan, small_workers


def performed(plan: Plan, results: Path, shard: Shard | None = None) -> Path:
    """The results of a plan, or of a shard of it."""
    results.mkdir()
    write_plan(plan, results)
    selected = {run.run_id for run in shard.runs(plan)} if shard else {run.run_id for run in plan.runs}
    batches = [
        batch.model_copy(update={"runs": [run for run in batch.runs if run.run_id in selected]})
        for batch in plan.batches
    ]
    go(small_workers(plan.model_copy(update={"batches": batches})), results)
    return results


@pytest.mark.parametrize("clock", ["exact", "skip"])
@pytest.mark.parametrize("count", [1, 2])
def test_every_run_is_in_one_of_the_shards(clock: str, count: int) -> None:
    plan = small_plan(clock)
    shards = [Shard(number, count).runs(plan) for number in range(1, count + 1)]

    assert sorted(run.run_id for runs in shards for run in runs) == sorted(run.run_id for run in plan.runs)


def test_on_the_exact_clock_shards_have_the_same_size() -> None:
    plan = small_plan("exact")

    assert {len(Shard(number, 3).runs(plan)) for number in (1, 2, 3)} == {2}


def test_on_other_clocks_a_shard_has_complete_repetitions() -> None:
    assert {run.repetition for run in Shard(2, 2).runs(small_plan("real"))} == {2}


def test_more_shards_than_repetitions_are_refused_with_the_largest_number() -> None:
    with pytest.raises(OwltError, match="at most 2, the number of repetitions on the clock real"):
        Shard(3, 3).runs(small_plan("real"))


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "1/", "a/b", "-1/2"])
def test_a_shard_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(OwltError, match=f"--shard: got '{text}', expected I/N"):
        parse_shard(text)


def test_merged_shards_have_every_run_once(tmp_path: Path) -> None:
    plan = small_plan("exact")
    shards = [performed(plan, tmp_path / f"{number}", Shard(number, 3)) for number in (1, 2, 3)]

    merged = merge(tmp_path / "all", shards)

    assert merged == Merged(copied=6, equal=0, missing=0)
    assert runs_done(tmp_path / "all") == {run.run_id for run in plan.runs}


def test_shards_that_were_started_at_different_times_are_merged(tmp_path: Path) -> None:
    plan = small_plan("exact")
    shards = [performed(plan, tmp_path / f"{number}", Shard(number, 2)) for number in (1, 2)]
    values = json.loads((shards[1] / "plan.json").read_text())
    values["history"][0]["at"] = "2000-01-01T00:00:00Z"
    (shards[1] / "plan.json").write_text(json.dumps(values))

    assert merge(tmp_path / "all", shards).missing == 0


def test_runs_that_no_shard_has_are_counted(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "1", Shard(1, 3))

    assert merge(tmp_path / "all", [shard]) == Merged(copied=2, equal=0, missing=4)


def test_a_shard_that_is_merged_twice_adds_nothing(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "1", Shard(1, 3))
    merge(tmp_path / "all", [shard])

    assert merge(tmp_path / "all", [shard]) == Merged(copied=0, equal=2, missing=4)


def change(results: Path, run_id: str, **values: object) -> None:
    path = results / "runs" / run_id / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_run_with_two_results_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    plan = small_plan("exact")
    first, second = (performed(plan, tmp_path / name) for name in ("first", "second"))
    change(second, plan.runs[0].run_id, outcome="failed")

    with pytest.raises(ResultsConflict, match=f"second: {plan.runs[0].run_id} has another outcome"):
        merge(tmp_path / "all", [first, second])

    assert not (tmp_path / "all").exists()


def test_runs_of_different_kernels_are_refused(tmp_path: Path) -> None:
    plan = small_plan("exact")
    shards = [performed(plan, tmp_path / f"{number}", Shard(number, 2)) for number in (1, 2)]
    for shard, kernel in zip(shards, ("6.1", "7.3"), strict=True):
        for run_id in runs_done(shard):
            change(shard, run_id, versions=read_record(shard / "runs" / run_id).versions | {"kernel": kernel})

    with pytest.raises(ResultsConflict, match=r"different versions of kernel: 6\.1, 7\.3"):
        merge(tmp_path / "all", shards)


LINKER = {"/lib/libc.so.6": "a" * 64}
MACHINE = Provenance(groups={"kernel": {"guest": "k"}, "system": LINKER}, implementations={"cfdp": {"bin/cfdp": "c"}})
OTHER_LIBRARY = MACHINE.model_copy(update={"groups": MACHINE.groups | {"system": {"/lib/libc.so.6": "b" * 64}}})
OTHER_PROGRAM = MACHINE.model_copy(update={"implementations": {"cfdp": {"bin/cfdp": "d"}}})


def performed_on(machine: Provenance, plan: Plan, results: Path, shard: Shard) -> Path:
    performed(plan, results, shard)
    write_provenance(machine, results)
    for run_id in runs_done(results):
        change(results, run_id, provenance=machine.digests("cfdp"))
    return results


def test_runs_of_equal_machines_are_merged_with_the_file_of_the_machine(tmp_path: Path) -> None:
    plan = small_plan("exact")
    shards = [performed_on(MACHINE, plan, tmp_path / f"{number}", Shard(number, 2)) for number in (1, 2)]

    merge(tmp_path / "all", shards)

    assert list(read_provenances(tmp_path / "all")) == [MACHINE]


@pytest.mark.parametrize(
    ("other", "difference"),
    [(OTHER_LIBRARY, r"system: /lib/libc\.so\.6"), (OTHER_PROGRAM, "the programs of cfdp: bin/cfdp")],
    ids=["a library", "a program"],
)
def test_runs_of_machines_that_differ_are_refused_with_the_files(
    tmp_path: Path, other: Provenance, difference: str
) -> None:
    plan = small_plan("exact")
    first = performed_on(MACHINE, plan, tmp_path / "1", Shard(1, 2))
    second = performed_on(other, plan, tmp_path / "2", Shard(2, 2))

    with pytest.raises(ResultsConflict, match=f"machines that differ in {difference}, expected"):
        merge(tmp_path / "all", [first, second])


def test_a_difference_between_machines_can_be_accepted(tmp_path: Path) -> None:
    plan = small_plan("exact")
    first = performed_on(MACHINE, plan, tmp_path / "1", Shard(1, 2))
    second = performed_on(OTHER_LIBRARY, plan, tmp_path / "2", Shard(2, 2))

    merged = merge(tmp_path / "all", [first, second], accept_differences=True)

    assert (merged.missing, merged.different) == (0, ("system: /lib/libc.so.6",))


def test_runs_of_a_version_that_did_not_record_the_machine_are_merged(tmp_path: Path) -> None:
    plan = small_plan("exact")
    shards = [
        performed(plan, tmp_path / "1", Shard(1, 2)),
        performed_on(MACHINE, plan, tmp_path / "2", Shard(2, 2)),
    ]

    assert merge(tmp_path / "all", shards).missing == 0


def test_attempts_are_merged_once(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "1", Shard(1, 3))
    done, *_ = sorted(runs_done(shard))
    for run_id in (done, "without-a-record"):
        attempt = shard / "attempts" / run_id / "1"
        attempt.mkdir(parents=True)
        (attempt / "record.json").write_text(f"an attempt at {run_id}")

    for _ in range(2):
        merge(tmp_path / "all", [shard])

    assert sorted(str(path.relative_to(tmp_path / "all")) for path in (tmp_path / "all").glob("attempts/*/*")) == [
        f"attempts/{done}/1",
        "attempts/without-a-record/1",
    ]


def test_a_copy_of_a_directory_that_is_read_only_can_be_changed(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "1", Shard(1, 3))
    (shard / "lock").touch()
    for path in [*shard.rglob("*"), shard]:
        path.chmod(0o555 if path.is_dir() else 0o444)

    merge(tmp_path / "all", [shard])

    assert all(path.stat().st_mode & stat.S_IWUSR for path in (tmp_path / "all").rglob("*"))


def test_the_certificates_of_other_machines_are_merged(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "1", Shard(1, 3))
    certificate = Path("machines", "lab2", "certificates", "key.json")
    (shard / certificate).parent.mkdir(parents=True)
    (shard / certificate).write_text("a certificate")

    merge(tmp_path / "all", [shard])

    assert (tmp_path / "all" / certificate).read_text() == "a certificate"


def test_results_of_another_sweep_are_refused(tmp_path: Path) -> None:
    first = performed(small_plan("exact"), tmp_path / "first")
    other = performed(small_plan("exact", seed=8), tmp_path / "other")

    with pytest.raises(ResultsConflict, match=r"other: has another plan than .*: sweep\.seed: \d+ there, 8 here"):
        merge(tmp_path / "all", [first, other])


def test_a_damaged_run_in_the_directory_is_refused_and_kept(tmp_path: Path) -> None:
    shard = performed(small_plan("exact"), tmp_path / "one", Shard(1, 3))
    merge(tmp_path / "all", [shard])
    damaged = next((tmp_path / "all" / "runs").iterdir())
    (damaged / RECORD_NAME).write_text("{")

    with pytest.raises(ResultsConflict, match=f"has a damaged run .*remove {damaged}"):
        merge(tmp_path / "all", [shard])

    assert (damaged / RECORD_NAME).read_text() == "{"


def test_a_directory_without_a_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ResultsConflict, match="empty: is not a results directory"):
        merge(tmp_path / "all", [tmp_path / "empty"])
