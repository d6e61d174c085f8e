"""What the emulator counted while a channel was captured: what came before is taken off."""

from __future__ import annotations

import pytest

from owlt.emulator.channel.aimed_fault import Fault
from owlt.emulator.channel.text import FORM
from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, plan_of_cases
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.run.applying import counted_since, doubts_about_faults
from owlt.results.record import FaultCount, Faults


def test_counters_have_grown_by_what_came_since() -> None:
    before = {"packets": 7, "dropped_packets": 2, "waiting_packets": 0}
    now = {"packets": 107, "dropped_packets": 5, "waiting_packets": 0}
    assert counted_since(before, now) == {"packets": 100, "dropped_packets": 3, "waiting_packets": 0}


def test_what_waited_before_is_not_counted_when_it_goes() -> None:
    before = {"packets": 7, "bytes": 700, "waiting_packets": 1, "waiting_bytes": 90}
    now = {"packets": 108, "bytes": 10_790, "waiting_packets": 0, "waiting_bytes": 0}
    since = counted_since(before, now)
    assert (since["packets"], since["bytes"]) == (100, 10_000)


def test_what_waits_at_the_end_is_reported_as_it_is() -> None:
    assert counted_since({"waiting_packets": 3}, {"packets": 9, "waiting_packets": 4})["waiting_packets"] == 4


def test_a_stage_that_was_not_there_before_counts_from_nothing() -> None:
    assert counted_since({}, {"packets": 9}) == {"packets": 9}


@pytest.mark.parametrize(
    ("written", "seen", "is_suspect"),
    [({}, 5, True), ({"probability": 0.1}, 5, False), ({"probability": 0.1}, 0, True)],
)
def test_a_fault_without_a_hit_makes_a_run_suspect_unless_chance_decided(
    written: dict[str, float], seen: int, is_suspect: bool
) -> None:
    fault = Fault.model_validate({"direction": "forward", "action": "drop"} | written, context=FORM)
    (run,) = plan_of_cases("some", find_implementation("cfdp"), PLAIN_CHANNEL, 2000, {"drop": [fault]}).runs
    counted = Faults(faults=[FaultCount(fault=fault.text, action="dropped", seen=seen, hits=0)], hits=[])

    assert bool(doubts_about_faults(run, counted)) is is_suspect
