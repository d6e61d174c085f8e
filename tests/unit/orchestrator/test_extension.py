"""A changed sweep on the results of an earlier one: what may be added, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.planning.plan import Plan, Run, read_plan_values, with_repetitions
from owlt.orchestrator.planning.stored_plan import require_extension, write_plan
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.results.lock import ResultsInUse, locked
from owlt.results.recorded_runs import read_recorded
from tests.unit.orchestrator.small_sweep import runs_done, small_plan, small_workers
from tests.unit.orchestrator.test_plan import planned, with_profile


def by_id(plan: Plan) -> dict[str, dict[str, Any]]:
    """All that decides what a run sends, by its name."""
    return {run.run_id: _decisive(run, plan) for run in plan.runs}


def _decisive(run: Run, plan: Plan) -> dict[str, Any]:
    values = run.model_dump(exclude={"order"})
    implementation = plan.implementations[run.permutation.implementation]
    return values | {"channel": plan.channels[run.channel_key], "implementation": implementation}


EXTENSIONS: dict[str, dict[str, object]] = {
    "more repetitions": {"repetitions": 10},
    "another implementation": {"implementations": ["ltp", "cfdp", "norm"]},
    "another file size": {"file_size": ["1 kB", "100 kB", "1 MB"]},
    "another delay": {"delay": ["5 ms", "25 ms"]},
    "another rate": {"rate": ["1 Mbit/s", "10 Mbit/s"]},
    "another error rate": {"packet_error_rate": [0, 0.001, 0.01]},
    "an included grid": {"include": [{"implementations": "cfdp", "delay": "10 s"}]},
    "a baseline": {"baseline": {"every": 5, "implementations": "cfdp", "file_size": "1 MB", "packet_error_rate": 0}},
    "larger batches": {"runs_per_guest": 20},
}


@pytest.mark.parametrize("changes", EXTENSIONS.values(), ids=EXTENSIONS)
def test_an_extension_leaves_every_earlier_run_as_it_is(changes: dict[str, object]) -> None:
    before, after = by_id(planned()), by_id(planned(**changes))

    assert {run_id: after[run_id] for run_id in before} == before


@pytest.mark.parametrize("changes", EXTENSIONS.values(), ids=EXTENSIONS)
def test_an_extension_leaves_the_order_of_the_earlier_runs_among_each_other(changes: dict[str, object]) -> None:
    """Beside the one that comes first for each implementation: a smaller transfer may take its place."""
    before, after = [run.run_id for run in planned().runs], [run.run_id for run in planned(**changes).runs]
    first = {*before[:2], *after[:3]}

    assert [run_id for run_id in after if run_id in set(before) - first] == [
        each for each in before if each not in first
    ]


@pytest.mark.parametrize("changes", EXTENSIONS.values(), ids=EXTENSIONS)
def test_an_extension_is_accepted_on_recorded_runs(tmp_path: Path, changes: dict[str, object]) -> None:
    write_plan(planned(), tmp_path)
    extended = planned(**changes)

    write_plan(extended, tmp_path, {run.run_id for run in planned().runs})

    there = Plan.model_validate(read_plan_values(tmp_path))
    assert there.runs == extended.runs


def test_the_plan_has_a_history_of_what_was_added(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)
    write_plan(planned(repetitions=4), tmp_path)
    write_plan(planned(repetitions=4), tmp_path)
    write_plan(planned(repetitions=4, implementations=["cfdp", "norm", "ltp"]), tmp_path)

    history = Plan.model_validate(read_plan_values(tmp_path)).history
    assert [(each.runs, each.added, each.removed) for each in history] == [(24, 24, 0), (32, 8, 0), (48, 16, 0)]
    assert [each.changes for each in history] == [
        [],
        ["repetitions: 3 -> 4"],
        ["implementations: [cfdp, norm] -> [cfdp, norm, ltp]"],
    ]


def test_an_unchanged_plan_changes_nothing(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    assert require_extension(planned(), tmp_path, {planned().runs[0].run_id}) is None


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "another seed": ({"seed": 8, "repetitions": 4}, r"another sweep: seed: 7 there, 8 here; choose another directory"),
    "another name": ({"name": "other"}, r"name: small there, other here"),
    "another clock": ({"clock": "real"}, r"clock: exact there, real here"),
    "without certificates": ({"certify": False}, r"certify: true there, false here"),
    "fewer repetitions": (
        {"repetitions": 2},
        r"repetitions: 3 there, 2 here: 8 recorded runs \(cfdp_\S+_r3, .*\.\.\.\) would no longer belong",
    ),
    "an implementation less": (
        {"implementations": "cfdp"},
        r"implementations: \[cfdp, norm\] there, cfdp here: 12 recorded runs \(norm_",
    ),
    "an excluded point": (
        {"exclude": [{"implementations": "norm", "file_size": "1 MB", "packet_error_rate": 0}]},
        r"exclude: .*: 3 recorded runs \(norm_1MB_",
    ),
    "a changed parameter": (
        {"parameters": {"cfdp": {"segment_bytes": 77}}},
        r"other implementations: cfdp\.parameters\.segment_bytes: \d+ there, 77 here",
    ),
    "another queue": ({"queue_packets": 5}, r"queue_packets: nothing there, 5 here: 24 recorded runs"),
    "another advertised rate": (
        {"advertised": {"norm": {"rate": "1 Mbit/s"}}},
        r"advertised\.norm: nothing there, .* here: 12 recorded runs",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_change_of_recorded_runs_is_refused_with_both_values(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    write_plan(planned(), tmp_path)
    before = (tmp_path / "plan.json").read_bytes()

    with pytest.raises(ResultsConflict, match=message):
        write_plan(planned(**changes), tmp_path, {run.run_id for run in planned().runs})

    assert (tmp_path / "plan.json").read_bytes() == before


def test_a_sweep_file_with_the_repetitions_of_before_extend_is_refused_with_the_number_to_write(tmp_path: Path) -> None:
    write_plan(with_repetitions(planned(), 5), tmp_path)

    with pytest.raises(ResultsConflict) as refused:
        write_plan(planned(), tmp_path, {run.run_id for run in planned(repetitions=5).runs})

    assert "repetitions: 5 there, 3 here: 16 recorded runs (" in str(refused.value)
    assert "write 'repetitions: 5' in the sweep file" in str(refused.value)
    assert f"'owlt extend {tmp_path} --to 5'" in str(refused.value)


def test_a_sweep_file_that_differs_in_more_than_repetitions_gets_no_advice_about_them(tmp_path: Path) -> None:
    write_plan(with_repetitions(planned(), 5), tmp_path)

    with pytest.raises(ResultsConflict) as refused:
        write_plan(planned(implementations="cfdp"), tmp_path, {run.run_id for run in planned(repetitions=5).runs})

    assert "give this sweep another name" in str(refused.value)
    assert "owlt extend" not in str(refused.value)


WITHOUT_RECORDS = {
    name: changes for name, (changes, _) in REFUSED.items() if not changes.keys() & {"seed", "name", "clock", "certify"}
}


@pytest.mark.parametrize("changes", WITHOUT_RECORDS.values(), ids=WITHOUT_RECORDS)
def test_runs_without_a_record_may_change(tmp_path: Path, changes: dict[str, object]) -> None:
    write_plan(planned(), tmp_path)

    write_plan(planned(**changes), tmp_path)

    assert Plan.model_validate(read_plan_values(tmp_path)).runs == planned(**changes).runs


def test_an_implementation_may_change_while_only_others_have_records(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)
    recorded = {run.run_id for run in planned().runs if run.permutation.implementation == "norm"}

    write_plan(planned(parameters={"cfdp": {"segment_bytes": 77}}), tmp_path, recorded)

    with pytest.raises(ResultsConflict, match=r"norm\.parameters"):
        write_plan(planned(parameters={"norm": {"parity_segments": 5}}), tmp_path, recorded)


def test_a_profile_whose_deadline_has_changed_gives_another_sweep(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    with pytest.raises(ResultsConflict, match=r"other implementations: cfdp\.hang_s: "):
        write_plan(with_profile(planned(), hang_s=1.5), tmp_path, {run.run_id for run in planned().runs})


def test_a_channel_profile_that_has_changed_is_named(tmp_path: Path) -> None:
    plan = planned()
    key = plan.runs[0].channel_key
    other = plan.channels[key].model_copy(update={"bypass": True})
    write_plan(plan, tmp_path)

    with pytest.raises(ResultsConflict, match="a channel profile has changed: 1 recorded run "):
        write_plan(plan.model_copy(update={"channels": plan.channels | {key: other}}), tmp_path, {plan.runs[0].run_id})


def test_an_advertised_rate_of_another_point_leaves_the_recorded_runs(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)
    both = {"rate": ["1 Mbit/s", "10 Mbit/s"], "advertised": {"norm": {"rate": {"1 Mbit/s": "900 kbit/s"}}}}

    write_plan(planned(**both), tmp_path, {run.run_id for run in planned().runs})

    assert len(Plan.model_validate(read_plan_values(tmp_path)).runs) == 48


def observed(_plan: Plan, _done: set[str]) -> Any:
    return lambda entry: None


def test_an_extended_sweep_performs_only_what_was_added(tmp_path: Path) -> None:
    short = small_plan()
    long = small_plan(repetitions=4)
    perform_plan(Start(short, tmp_path, "again", machine=small_workers(short)), observed)
    before = {path: path.read_bytes() for path in tmp_path.glob("runs/*/record.json")}

    workers = small_workers(long)
    done = perform_plan(Start(long, tmp_path, "again", machine=workers, guests=1), observed)

    assert {path: path.read_bytes() for path in before} == before
    assert runs_done(tmp_path) == {run.run_id for run in long.runs}
    assert done.change is not None
    assert done.change.text == "6 runs added (repetitions: 2 -> 4)"


def test_extend_gives_no_advice_about_a_sweep_that_is_running(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path, set())
    with locked(tmp_path):
        done = CliRunner().invoke(app, ["extend", str(tmp_path)])

    assert isinstance(done.exception, ResultsInUse)
    assert "repetitions:" not in done.output


def test_a_sweep_that_was_extended_has_the_records_of_the_sweep_done_at_once(tmp_path: Path) -> None:
    short, long = small_plan(), small_plan(repetitions=4)
    for directory, plans in (("extended", [short, long]), ("at-once", [long])):
        for plan in plans:
            workers = small_workers(plan)
            perform_plan(Start(plan, tmp_path / directory, "again", machine=workers, guests=1), observed)

    ids = {run.run_id for run in long.runs}
    extended, at_once = (read_recorded(tmp_path / name, ids).records for name in ("extended", "at-once"))
    assert {run_id: record.seed for run_id, record in extended.items()} == {
        run_id: record.seed for run_id, record in at_once.items()
    }
    assert set(extended) == ids
