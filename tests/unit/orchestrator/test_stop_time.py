"""A sweep that has to end in time: which batches begin, and how balanced it is."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from owlt.inputs.mistake import Invalid
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.planning.estimate import Pace, Took, batch_wall_s, run_wall_s
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.orchestrator.sweep.scheduling import LATEST_BATCHES, Deadline, StopTime, Timing, parse_until
from owlt.orchestrator.sweep.supervisor import supervise
from tests.unit.orchestrator.small_sweep import runs_done, small_plan, small_workers

NOW = datetime(2030, 1, 31, 18, 0, tzinfo=timezone(timedelta(hours=1)))


class WallClock:
    """A clock that goes on by a time at each look."""

    def __init__(self, each_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self._each_s = each_s

    def __call__(self) -> float:
        self.now_s += self._each_s
        return self.now_s


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("07:00", datetime(2030, 2, 1, 7, 0)),
        ("7:00", datetime(2030, 2, 1, 7, 0)),
        ("18:30", datetime(2030, 1, 31, 18, 30)),
        ("18:00", datetime(2030, 2, 1, 18, 0)),
        ("2030-02-03 07:00", datetime(2030, 2, 3, 7, 0)),
    ],
)
def test_a_time_is_the_next_moment_at_which_a_clock_shows_it(text: str, until: datetime) -> None:
    assert parse_until(text, NOW) == until.replace(tzinfo=NOW.tzinfo)


@pytest.mark.parametrize("text", ["", "7", "24:00", "tomorrow", "07:60"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="expected a time such as 07:00"):
        parse_until(text, NOW)


@pytest.mark.parametrize("text", ["2030-01-31 17:59", "2029-01-01 07:00", "2035-01-01 07:00"])
def test_a_moment_that_is_over_or_far_away_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="expected a time after 2030-01-31 18:00, within a year"):
        parse_until(text, NOW)


def deadline_at(at_s: float, clock: WallClock) -> Deadline:
    return Deadline("exact", StopTime(at_s, clock), clock)


def test_without_a_time_every_batch_is_allowed() -> None:
    assert all(map(Deadline("exact").allows, small_plan().batches))


def test_a_batch_that_would_end_too_late_is_not_allowed() -> None:
    batch = small_plan().batches[0]
    takes_s = batch_wall_s(batch, "exact")

    assert deadline_at(1001 + takes_s, WallClock()).allows(batch)
    assert not deadline_at(999 + takes_s, WallClock()).allows(batch)


def test_what_was_left_is_the_first_batch_that_was_not_allowed() -> None:
    deadline, batches = deadline_at(0, WallClock()), small_plan().batches
    assert deadline.left == ""

    for batch in batches:
        deadline.allows(batch)

    takes_s = batch_wall_s(batches[0], "exact")
    assert deadline.left == f"the next {len(batches[0].runs)} runs would take about {takes_s:.0f} s"


def test_a_slow_batch_makes_the_next_ones_expected_to_be_as_slow() -> None:
    batch, now = small_plan().batches[0], WallClock()
    takes_s = batch_wall_s(batch, "exact")
    deadline = deadline_at(1000 + 5.5 * takes_s, now)

    with deadline.timed(batch):
        now.now_s += 3 * takes_s

    assert not deadline.allows(batch)
    assert deadline.is_over


def test_before_the_first_batch_the_pace_of_earlier_sweeps_counts() -> None:
    batch, clock = small_plan().batches[0], WallClock()
    takes_s = batch_wall_s(batch, "exact")
    runs = [(run.permutation, run_wall_s(run, "exact")) for run in batch.runs]
    pace = Pace(
        Took("exact", point.implementation, point.load, one_s, 3 * one_s, point.slug) for point, one_s in 3 * runs
    )
    stop = StopTime(clock.now_s + 2 * takes_s, clock)

    assert Deadline("exact", stop, clock).allows(batch)
    assert not Deadline("exact", stop, clock, pace).allows(batch)
    assert Deadline("exact", StopTime(clock.now_s + 3.1 * takes_s, clock), clock, pace).allows(batch)


def test_fast_batches_make_the_next_ones_expected_to_be_as_fast() -> None:
    batch, now = small_plan().batches[0], WallClock()
    takes_s = batch_wall_s(batch, "exact")
    deadline = deadline_at(now.now_s + 0.75 * takes_s, now)

    with deadline.timed(batch):
        now.now_s += takes_s / 4

    assert deadline.allows(batch)
    assert not deadline_at(now.now_s + takes_s / 2, now).allows(batch)


def test_one_slow_batch_is_forgotten_after_fifty_others() -> None:
    batch, now = small_plan().batches[0], WallClock()
    takes_s = batch_wall_s(batch, "exact")
    deadline = Deadline("exact", StopTime(1000 + 80 * takes_s, now), now)

    for factor in [20, *[1] * LATEST_BATCHES]:
        with deadline.timed(batch):
            now.now_s += factor * takes_s

    assert deadline.allows(batch)
    now.now_s = 1000 + 78.9 * takes_s
    assert deadline.allows(batch)


def test_a_clock_that_is_set_during_a_batch_does_not_make_the_next_ones_expected_to_be_slow() -> None:
    batch, wall, steady = small_plan().batches[0], WallClock(), WallClock()
    deadline = Deadline("exact", StopTime(10_000, wall), steady)

    with deadline.timed(batch):
        steady.now_s += batch_wall_s(batch, "exact")
        wall.now_s += 3600

    assert deadline.allows(batch)


def test_the_time_of_until_is_that_of_the_machine_s_clock_if_it_is_set() -> None:
    batch, wall = small_plan().batches[0], WallClock()
    deadline = Deadline("exact", StopTime(10_000, wall), WallClock())
    assert deadline.allows(batch)

    wall.now_s += 9_000

    assert not deadline.allows(batch)


def test_a_shorter_batch_does_not_begin_after_one_that_was_left() -> None:
    long, short = small_plan(file_size="10 MB").batches[0], small_plan().batches[0]
    deadline = deadline_at(1000 + batch_wall_s(short, "exact") + 1, WallClock())

    assert not deadline.allows(long)
    assert not deadline.allows(short)


def start(plan: Plan, results: Path) -> Start:
    return Start(plan, results, "again", machine=small_workers(plan), guests=1)


def observed(_plan: Any, _done: Any) -> Any:
    return lambda entry: None


@pytest.mark.parametrize("allowed_s", [8, 20, 40, 60])
def test_a_sweep_that_stops_in_time_is_balanced(tmp_path: Path, allowed_s: float) -> None:
    plan = small_plan(repetitions=20, runs_per_guest=1)
    deadline = deadline_at(1000 + allowed_s, WallClock(each_s=0.5))

    perform_plan(start(plan, tmp_path), observed, partial(supervise, timing=Timing(deadline=deadline)))

    done = runs_done(tmp_path)
    counts = Counter({run.permutation: 0 for run in plan.runs})
    counts.update(run.permutation for run in plan.runs if run.run_id in done)
    assert 0 < len(done) < len(plan.runs)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_sweep_that_was_stopped_in_time_is_resumed(tmp_path: Path) -> None:
    plan = small_plan(repetitions=20, runs_per_guest=1)
    stopped = partial(supervise, timing=Timing(deadline=deadline_at(1010, WallClock(each_s=0.5))))
    perform_plan(start(plan, tmp_path), observed, stopped)

    done = perform_plan(start(plan, tmp_path), observed)

    assert done.is_complete
    assert runs_done(tmp_path) == {run.run_id for run in plan.runs}


def run_command(tmp_path: Path, *options: str) -> Result:
    path = tmp_path / "small.yaml"
    path.write_text(small_plan().sweep.model_dump_json(exclude_none=True))
    return CliRunner().invoke(app, ["run", str(path), "--results", str(tmp_path / "results"), *options])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--until", "7"), "--until: got '7', expected a time such as 07:00"),
        (("--for", "8"), "--for: got '8', expected a number with one of the units ns, us"),
        (("--for", "8h", "--until", "07:00"), "--for: got both --until and --for, expected one of them"),
    ],
)
def test_an_option_without_a_time_is_refused_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ended = run_command(tmp_path, *options)

    assert message in str(ended.exception)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("command", ["retry", "extend"])
def test_the_other_commands_that_perform_runs_have_the_same_options(tmp_path: Path, command: str) -> None:
    ended = CliRunner().invoke(app, [command, str(tmp_path), "--until", "7"])

    assert "--until: got '7', expected a time such as 07:00" in str(ended.exception)
