"""The forecast of time: what runs took, from journals and from the history, and what follows for other runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.orchestrator.planning.estimate import CERTIFICATE, Pace, Slowness, Took, estimate, run_wall_s
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.run.events import (
    ChannelCertified,
    Event,
    RunPublished,
    RunRepeated,
    SweepStarted,
    WorkerStarted,
    encode,
)
from owlt.orchestrator.sweep.forecast import (
    MOST_KEPT,
    durations,
    forecast,
    history,
    history_file,
    pace_of,
    remember,
    time_texts,
)
from owlt.results.files import JOURNAL_NAME
from owlt.results.record import Outcome
from tests.unit.orchestrator.small_sweep import small_plan

TWO = {"implementations": ["cfdp", "ltp"], "repetitions": 10, "packet_error_rate": 0}


@pytest.fixture(autouse=True)
def own_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_journal(results: Path, *entries: tuple[float, int | None, Event]) -> None:
    lines = [json.dumps({"at_s": at_s, "batch": batch, **encode(event)}) for at_s, batch, event in entries]
    (results / JOURNAL_NAME).write_text("\n".join([*lines, '{"at_s": 1, "ba']))


def published(run: Run, outcome: Outcome = Outcome.COMPLETED) -> RunPublished:
    return RunPublished(run_id=run.run_id, outcome=outcome)


def took(run: Run, took_s: float, is_here: bool = True) -> Took:
    point = run.permutation
    slug = point.slug if is_here else ""
    return Took("exact", point.implementation, point.load, run_wall_s(run, "exact"), took_s, slug)


def of(plan: Plan, implementation: str) -> list[Run]:
    return [run for run in plan.runs if run.permutation.implementation == implementation]


def test_a_run_takes_the_time_from_the_start_of_its_worker_or_from_the_run_before(tmp_path: Path) -> None:
    plan = small_plan("exact")
    one, two, *_ = plan.runs
    write_journal(
        tmp_path,
        (100, None, SweepStarted(host="lab", pid=1)),
        (100, 0, WorkerStarted(slot=0)),
        (101, 1, WorkerStarted(slot=1)),
        (104, 0, published(one)),
        (106, 0, published(two)),
        (103, 1, ChannelCertified(channel="c", verdict="ok")),
    )

    assert [(each.implementation, each.took_s) for each in durations(plan, tmp_path)] == [
        ("cfdp", 4),
        ("cfdp", 2),
        (CERTIFICATE, 2),
    ]
    assert len(durations(plan, tmp_path, since_s=104)) == 1


def test_what_says_nothing_about_this_machine_or_the_build_does_not_count(tmp_path: Path) -> None:
    """A run of another machine, one that was not launched, one of a killed worker, an attempt that is repeated."""
    plan = small_plan("exact")
    one, two, three, four, *_ = plan.runs
    write_journal(
        tmp_path,
        (100, 0, WorkerStarted(machine="lab2")),
        (101, 0, published(one)),
        (100, 1, WorkerStarted()),
        (101, 1, published(two, Outcome.UNSUPPORTED)),
        (100, 2, WorkerStarted()),
        (150, None, SweepStarted(host="lab", pid=1)),
        (151, 2, published(three)),
        (152, 3, WorkerStarted()),
        (153, 3, RunRepeated(run_id=four.run_id, outcome=Outcome.ABORTED)),
        (155, 3, published(four)),
    )

    assert [each.took_s for each in durations(plan, tmp_path)] == [2]


def test_a_run_is_forecast_from_the_most_similar_runs() -> None:
    plan = small_plan("exact", **TWO)
    cfdp, ltp = of(plan, "cfdp")[0], of(plan, "ltp")[0]
    expected_s = run_wall_s(cfdp, "exact")
    pace = Pace([*[took(ltp, 9 * expected_s)] * 5, *[took(cfdp, 2 * expected_s)] * 3])

    assert pace.of_run(cfdp, "exact").mean == pytest.approx(2)
    assert pace.of_run(ltp, "exact").mean == pytest.approx(9)
    assert pace.of_run(cfdp, "real") == Slowness()


def test_an_implementation_without_records_is_forecast_from_the_others() -> None:
    plan = small_plan("exact", **TWO)
    cfdp, ltp = of(plan, "cfdp")[0], of(plan, "ltp")[0]

    assert Pace([took(ltp, 3 * run_wall_s(ltp, "exact"))] * 4).of_run(cfdp, "exact").mean == pytest.approx(3)


def test_runs_of_this_sweep_come_before_those_of_the_history(tmp_path: Path) -> None:
    plan = small_plan("exact", **TWO)
    cfdp = of(plan, "cfdp")
    remember([took(run, 100.0, is_here=False) for run in cfdp[:5]])
    before = pace_of(plan, tmp_path).of_run(cfdp[0], "exact").mean
    write_journal(
        tmp_path,
        (0, 0, WorkerStarted()),
        *((float(number), 0, published(run)) for number, run in enumerate(cfdp[:3], start=1)),
    )

    after = pace_of(plan, tmp_path).of_run(cfdp[0], "exact").mean

    assert (before, after) == (pytest.approx(100 / run_wall_s(cfdp[0], "exact")), pytest.approx(before / 100))


def test_the_range_has_eight_of_ten_recorded_durations_and_the_forecast() -> None:
    [run, *_] = small_plan("exact", **TWO).runs
    slowness = Pace([took(run, run_wall_s(run, "exact") * number) for number in range(1, 12)]).of_run(run, "exact")

    assert (slowness.low, slowness.mean, slowness.high) == pytest.approx((2, 6, 10))


def test_short_runs_that_take_many_times_as_long_as_computed_do_not_slow_down_long_ones() -> None:
    """The overhead of a run is a large part of a short one only."""
    [run, *_] = small_plan("exact", **TWO).runs
    point = run.permutation
    short, long = ([Took("exact", point.implementation, point.load, each, each + 5)] * 5 for each in (1.0, 100.0))

    assert Pace([*short, *long]).of_run(run, "exact").mean == pytest.approx(1.1, abs=0.01)


def test_the_forecast_of_a_sweep_that_runs_twice_as_slowly_as_computed_is_that_of_its_records() -> None:
    plan = small_plan("exact", **TWO)
    left = plan.runs[8:]
    pace = Pace([took(run, 2 * run_wall_s(run, "exact")) for run in plan.runs[:8]])

    computed, learned = estimate(plan, 1, left), estimate(plan, 1, left, pace)

    assert learned.wall_s - computed.wall_s == pytest.approx(sum(run_wall_s(run, "exact") for run in left))
    assert learned.low_s <= learned.wall_s <= learned.high_s
    assert (computed.is_learned, learned.is_learned) == (False, True)
    assert "this machine has not recorded such runs yet" in computed.text
    assert "not recorded" not in learned.text


def test_other_work_counts_as_long_as_nothing_is_recorded() -> None:
    plan = small_plan("exact", **TWO)
    recorded = [took(run, run_wall_s(run, "exact")) for run in plan.runs]

    assert estimate(plan, 1, pace=Pace((), 3.0)).wall_s == pytest.approx(3 * estimate(plan, 1).wall_s)
    assert Pace(recorded, 3.0).of_run(plan.runs[0], "exact").mean == pytest.approx(1)


@pytest.mark.parametrize(("load", "is_busy"), [(500.0, True), (0.1, False)])
def test_a_busy_machine_is_said(tmp_path: Path, load: float, is_busy: bool) -> None:
    expected = replace(forecast(small_plan("exact"), set(), tmp_path), load=load)

    assert ("this machine is busy (load average 500.0" in "\n".join(time_texts(expected))) == is_busy


def test_the_history_keeps_the_latest_and_skips_what_is_damaged() -> None:
    history_file().parent.mkdir(parents=True)
    history_file().write_text('["exact", "ltp", 1000, 0, 2]\nnonsense\n["exact", "ltp", 1000, 0.5, 2.0]\n')
    assert [each.took_s for each in history()] == [2.0]

    for number in range(10):
        remember([Took("exact", "ltp", 1000, 0.5, 10.0 + number)] * 250)

    kept = [each.took_s for each in history()]
    assert (len(kept), kept[0], kept[-1]) == (MOST_KEPT, 12.0, 19.0)


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")

    remember([Took("exact", "ltp", 1000, 0.5, 2.0)])

    assert list(history()) == []
