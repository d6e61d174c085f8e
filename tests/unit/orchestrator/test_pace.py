"""The remaining time of a sweep."""

from __future__ import annotations

import pytest

from owlt.orchestrator.run.events import ChannelCertified, Entry, Event, RunPublished, SweepStarted, WorkerStarted
from owlt.orchestrator.sweep.journal import Activities
from owlt.orchestrator.sweep.state_reader import LATEST_RUNS, time_left_s
from owlt.results.record import Outcome


def test_the_pace_is_that_of_the_runs_since_the_start() -> None:
    assert time_left_s(30, 100.0, [110.0, 120.0], 120.0) == pytest.approx(300.0)


def test_time_without_a_new_run_counts() -> None:
    assert time_left_s(30, 100.0, [110.0, 120.0], 140.0) == pytest.approx(600.0)


def test_only_the_latest_runs_count() -> None:
    slow = [float(second) for second in range(100, 20_100, 100)]
    fast = [slow[-1] + second for second in range(1, LATEST_RUNS + 1)]

    assert time_left_s(60, 0.0, [*slow, *fast], fast[-1]) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("started_s", "published_s", "now_s"),
    [(100.0, [], 120.0), (None, [110.0], 120.0), (100.0, [110.0], 50.0)],
    ids=["before the first run", "of an older version", "the clock was set back"],
)
def test_without_a_pace_the_time_is_unknown(started_s: float | None, published_s: list[float], now_s: float) -> None:
    assert time_left_s(30, started_s, published_s, now_s) is None


def test_nothing_left_takes_no_time() -> None:
    assert time_left_s(0, None, [], 0.0) == 0.0


def activities(machine: str) -> Activities:
    """Of a start that certifies a second channel after the first run, for 200 s."""
    taken = Activities()
    events: list[tuple[float, int | None, Event]] = [
        (100, None, SweepStarted(host="lab", pid=1)),
        (100, 8, WorkerStarted()),
        (120, 8, ChannelCertified(channel="one", verdict="ok")),
        (130, 0, RunPublished(run_id="r1", outcome=Outcome.COMPLETED)),
        (130, 9, WorkerStarted(machine=machine)),
        (330, 9, ChannelCertified(channel="other", verdict="ok")),
        (340, 1, RunPublished(run_id="r2", outcome=Outcome.COMPLETED)),
    ]
    for at_s, batch, event in events:
        taken.take(Entry(at_s, batch, event))
    return taken


def test_the_certification_of_channels_is_no_part_of_the_pace() -> None:
    taken = activities(machine="")

    assert time_left_s(30, taken.paced_from_s, taken.published_s, 340.0) == pytest.approx(300.0)
    assert taken.started_s == 100


def test_another_machine_certifies_while_runs_are_performed() -> None:
    taken = activities(machine="lab2")

    assert (taken.paced_from_s, taken.published_s) == (120, [130, 340])
